"""The body of a chat completion as OpenAI defines it. Every field is used, refused, or listed as ignored."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.server.wire import JsonObject, ModelName, Text, Wire

IGNORED = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "verbosity",
    "reasoning_effort",
    "prediction",
)
"""Fields that change no word of the answer here; stating one is no error, and the answer says so."""


class TextPart(Wire):
    """A piece of text."""

    type: Literal["text"]
    text: Text


class OtherPart(Wire):
    """A piece that is no text; refused with its name."""

    type: Literal["image_url", "input_audio", "file", "refusal"]
    image_url: JsonObject | None = None
    input_audio: JsonObject | None = None
    file: JsonObject | None = None
    refusal: Text | None = None


Part = Annotated[TextPart | OtherPart, Field(discriminator="type")]
Content = Text | Annotated[list[Part], Field(max_length=10_000)]


class WireFunction(Wire):
    """A call of a function: its name, and its arguments as JSON text."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    arguments: Text


class WireToolCall(Wire):
    """A call as the assistant made it. `index` stands in streams, and comes back from clients that join them."""

    id: Annotated[str, Field(min_length=1, max_length=256)]
    type: Literal["function"] = "function"
    function: WireFunction
    index: int | None = None


class InstructionMessage(Wire):
    """Instructions of the operator."""

    role: Literal["system", "developer"]
    content: Content
    name: str | None = None


class QuestionMessage(Wire):
    """What a user says."""

    role: Literal["user"]
    content: Content
    name: str | None = None


class AnswerMessage(Wire):
    """What the assistant said, as it came out of an answer."""

    role: Literal["assistant"]
    content: Content | None = None
    name: str | None = None
    tool_calls: Annotated[list[WireToolCall], Field(max_length=128)] | None = None
    reasoning_content: Text | None = None
    refusal: Text | None = None
    audio: JsonObject | None = None
    annotations: list[JsonObject] | None = None
    function_call: JsonObject | None = None


class ResultMessage(Wire):
    """The result of a tool call."""

    role: Literal["tool"]
    content: Content
    tool_call_id: Annotated[str, Field(min_length=1, max_length=256)]
    name: str | None = None


WireMessage = Annotated[
    InstructionMessage | QuestionMessage | AnswerMessage | ResultMessage, Field(discriminator="role")
]


class FunctionDefinition(Wire):
    """A tool: what it is called, what it does, and the JSON Schema of its arguments."""

    name: Annotated[str, Field(min_length=1, max_length=128)]
    description: Text | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class WireTool(Wire):
    """A tool of the only kind that is served."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(Wire):
    """A function by its name."""

    name: Annotated[str, Field(min_length=1, max_length=128)]


class NamedChoice(Wire):
    """The one tool that must be called."""

    type: Literal["function"]
    function: FunctionName


WireToolChoice = Literal["none", "auto", "required"] | NamedChoice


class TextForm(Wire):
    """Free text."""

    type: Literal["text"]


class ObjectForm(Wire):
    """Any JSON object."""

    type: Literal["json_object"]


class NamedSchema(Wire):
    """A JSON Schema with a name."""

    name: Annotated[str, Field(min_length=1, max_length=256)]
    description: Text | None = None
    schema_: Annotated[JsonObject | None, Field(alias="schema")] = None
    strict: bool | None = None


class SchemaForm(Wire):
    """JSON that satisfies a schema."""

    type: Literal["json_schema"]
    json_schema: NamedSchema


Form = Annotated[TextForm | ObjectForm | SchemaForm, Field(discriminator="type")]


class StreamOptions(Wire):
    """What a stream reports besides the answer."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class SamplingWire(Wire):
    """How tokens are chosen: OpenAI's fields, and those of local engines beside them."""

    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    min_p: Annotated[float, Field(ge=0, le=1)] | None = None
    repeat_penalty: Annotated[float, Field(ge=0.01, le=10)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    stop: (
        Annotated[str, Field(min_length=1, max_length=256)]
        | Annotated[list[str], Field(max_length=16)]
        | None
    ) = None
    logit_bias: dict[str, float] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    deadline_s: Annotated[float, Field(gt=0, le=86_400)] | None = None


class ChatBody(SamplingWire):
    """The whole request. Without a model, the one the server was started with answers."""

    messages: Annotated[list[WireMessage], Field(min_length=1, max_length=10_000)]
    model: ModelName | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    reasoning_budget: Annotated[int, Field(ge=0, le=1 << 24)] | None = None
    n: Annotated[int, Field(ge=1, le=8)] | None = None
    response_format: Form | None = None
    tools: Annotated[list[WireTool], Field(max_length=128)] | None = None
    tool_choice: WireToolChoice | None = None
    parallel_tool_calls: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    modalities: list[str] | None = None
    audio: JsonObject | None = None
    functions: list[JsonObject] | None = None
    function_call: str | JsonObject | None = None
    web_search_options: JsonObject | None = None
    user: str | None = None
    metadata: JsonObject | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    verbosity: str | None = None
    reasoning_effort: str | None = None
    prediction: JsonObject | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
