"""The body of `POST /v1/responses`: OpenAI's newer form, of which nothing is kept here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from appliance.server.openai.chat_wire import FunctionName, ObjectForm, TextForm
from appliance.server.wire import JsonObject, ModelName, Text, Wire

IGNORED = (
    "user",
    "metadata",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "include",
    "reasoning",
    "truncation",
)


class InputText(Wire):
    """A piece of text, of a question or of an answer that is given back."""

    type: Literal["input_text", "output_text", "text"]
    text: Text
    annotations: list[JsonObject] | None = None
    logprobs: list[JsonObject] | None = None


class InputMedia(Wire):
    """A piece that is no text; refused with its name."""

    type: Literal["input_image", "input_file", "input_audio", "refusal"]
    image_url: str | None = None
    file_id: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    filename: str | None = None
    detail: str | None = None
    input_audio: JsonObject | None = None
    refusal: Text | None = None


InputPart = Annotated[InputText | InputMedia, Field(discriminator="type")]


class InputMessage(Wire):
    """A message; `type` may be left out."""

    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: Text | Annotated[list[InputPart], Field(max_length=10_000)]
    id: str | None = None
    status: str | None = None


class CallItem(Wire):
    """A tool call that the model made before."""

    type: Literal["function_call"]
    call_id: Annotated[str, Field(min_length=1, max_length=256)]
    name: Annotated[str, Field(min_length=1, max_length=128)]
    arguments: Text
    id: str | None = None
    status: str | None = None


class CallOutputItem(Wire):
    """The result of a tool call."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1, max_length=256)]
    output: Text | Annotated[list[InputPart], Field(max_length=10_000)]
    id: str | None = None
    status: str | None = None


class ReasoningItem(Wire):
    """Thinking that is given back; models here do not read it again."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[JsonObject] | None = None
    content: list[JsonObject] | None = None
    encrypted_content: str | None = None
    status: str | None = None


InputItem = InputMessage | CallItem | CallOutputItem | ReasoningItem


class FunctionTool(Wire):
    """A tool of the only kind that is served."""

    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=128)]
    description: Text | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class NamedFunction(FunctionName):
    """The one tool that must be called."""

    type: Literal["function"]


class FlatSchemaForm(Wire):
    """JSON that satisfies a schema."""

    type: Literal["json_schema"]
    name: Annotated[str, Field(min_length=1, max_length=256)]
    schema_: Annotated[JsonObject, Field(alias="schema")]
    description: Text | None = None
    strict: bool | None = None


class TextOptions(Wire):
    """The form of the answer."""

    format: Annotated[TextForm | ObjectForm | FlatSchemaForm, Field(discriminator="type")] | None = None
    verbosity: str | None = None


class ResponsesBody(Wire):
    """The whole request."""

    input: Text | Annotated[list[InputItem], Field(min_length=1, max_length=10_000)]
    model: ModelName | None = None
    instructions: Text | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=1 << 24)] | None = None
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    text: TextOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    stream: bool | None = None
    stream_options: JsonObject | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: str | JsonObject | None = None
    prompt: JsonObject | None = None
    max_tool_calls: int | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    include: list[str] | None = None
    reasoning: JsonObject | None = None
    truncation: Literal["disabled"] | None = None
    user: str | None = None
    metadata: JsonObject | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
