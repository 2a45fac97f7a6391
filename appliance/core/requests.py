"""What a caller asks for: sampling, output format, tools, deadlines, and the request itself."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal

from appliance.core.errors import InvalidRequestError
from appliance.core.logprobs import MOST_TOP_LOGPROBS
from appliance.core.messages import Conversation
from appliance.core.routing import RoutingNeeds

LOCAL_OWNER = "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen. `temperature` 0 is greedy; `top_k` 0, `top_p` 1 and `min_p` 0 switch a rule off.

    `logit_bias` maps token ids to values added to their logits before sampling. `max_tokens` bounds the
    answer; `None` means whatever the context window leaves. `reasoning_budget` bounds the thinking of a
    reasoning model in tokens; when it is spent the thinking is closed and the answer begins. `top_logprobs`
    asks for the log-probability of each token of the answer and of so many alternatives; `None` asks for none.

    Raises:
        InvalidRequestError: a value is outside its range.
    """

    temperature: float = 0.7
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_tokens: int = 64
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    reasoning_budget: int | None = None
    top_logprobs: int | None = None

    def __post_init__(self) -> None:
        _check_range("temperature", self.temperature, 0.0, 100.0)
        _check_range("top_k", self.top_k, 0, 2**31 - 1)
        _check_range("top_p", self.top_p, 0.0, 1.0)
        _check_range("min_p", self.min_p, 0.0, 1.0)
        _check_range("repeat_penalty", self.repeat_penalty, 0.01, 10.0)
        _check_range("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _check_range("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _check_range("penalty_last_tokens", self.penalty_last_tokens, 0, 1 << 20)
        _check_range("seed", self.seed or 0, 0, 2**32 - 1)
        _check_range("max_tokens", 1 if self.max_tokens is None else self.max_tokens, 1, 1 << 24)
        _check_range("reasoning_budget", self.reasoning_budget or 0, 0, 1 << 24)
        _check_range("top_logprobs", self.top_logprobs or 0, 0, MOST_TOP_LOGPROBS)
        if len(self.stop) > 16 or any(not text or len(text) > 256 for text in self.stop):
            raise InvalidRequestError("stop takes at most 16 strings of 1 to 256 characters")
        if len(self.logit_bias) > 1024:
            raise InvalidRequestError("logit_bias takes at most 1024 tokens")
        for token_id, bias in self.logit_bias.items():
            _check_range(f"logit_bias[{token_id}]", bias, -1e9, 1e9)

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is always taken."""
        return self.temperature == 0.0


def _check_range(name: str, value: float, low: float, high: float) -> None:
    if not isfinite(value) or not low <= value <= high:
        raise InvalidRequestError(f"{name} is {value}; it must be between {low:g} and {high:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFormat:
    """Free text."""

    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonSchemaFormat:
    """JSON that satisfies a JSON Schema, given as JSON text."""

    schema_json: str
    name: str = "answer"
    in_prompt: bool = True
    kind: Literal["json_schema"] = "json_schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceFormat:
    """Exactly one of the given strings."""

    choices: tuple[str, ...]
    kind: Literal["choice"] = "choice"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexFormat:
    """Text that matches a regular expression as a whole."""

    pattern: str
    kind: Literal["regex"] = "regex"


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarFormat:
    """Text of a context-free grammar in Lark syntax."""

    grammar: str
    kind: Literal["grammar"] = "grammar"


OutputFormat = TextFormat | JsonSchemaFormat | ChoiceFormat | RegexFormat | GrammarFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool a model may call: its name, what it does, and the JSON Schema of its arguments as JSON text."""

    name: str
    description: str
    parameters_json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTool:
    """The one tool that must be called."""

    name: str


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """Limits in seconds; `None` is no limit. `total_s` is the whole request with every attempt, `connect_s`
    one attempt until its provider shows the first sign of life, `first_token_s` one attempt until its first
    token, `between_tokens_s` each gap after that.
    """

    total_s: float | None = None
    connect_s: float | None = None
    first_token_s: float | None = None
    between_tokens_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("total_s", "connect_s", "first_token_s", "between_tokens_s"):
            limit: float | None = getattr(self, name)
            if limit is not None and not (isfinite(limit) and limit > 0):
                raise InvalidRequestError(f"deadline {name} is {limit}; it must be above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One call for an answer. `owner` scopes every cache: nothing is shared across owners. `model` names a
    model, or a route of the configuration; `routing` says which candidates will do. `conversation_id` is
    the stored chat it belongs to, so that what is recorded of it can be forgotten with the chat. With `is_raw`
    the text of the one user message is continued as it stands, without the model's chat template. An open
    conversation asks for the rest of its last turn: the answer's events hold only what is new.
    """

    conversation: Conversation
    model: str
    sampling: SamplingParams = field(default_factory=SamplingParams)
    output: OutputFormat = field(default_factory=TextFormat)
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: ToolChoice = "auto"
    allows_several_calls: bool = True
    deadline: Deadline = field(default_factory=Deadline)
    routing: RoutingNeeds = field(default_factory=RoutingNeeds)
    owner: str = LOCAL_OWNER
    prompt_id: str = ""
    prompt_version: str = ""
    conversation_id: str = ""
    is_raw: bool = False
    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        if not self.owner:
            raise InvalidRequestError("a request needs an owner")
        if not self.model:
            raise InvalidRequestError("a request names a model")
        if self.is_raw and not self._is_plain_text:
            raise InvalidRequestError(
                "a raw prompt is one text, with no instructions, tools or output format", hint="ask as a chat"
            )
        self._check_tools()
        if self.conversation.is_open:
            self._check_free_to_go_on()

    @property
    def _is_plain_text(self) -> bool:
        kinds = [message.kind for message in self.conversation.messages]
        return kinds == ["user"] and not self.tools and self.output.kind == "text"

    def _check_free_to_go_on(self) -> None:
        """An output format or a forced call holds an answer from its first character on."""
        if self.output.kind != "text":
            raise InvalidRequestError(
                "an answer with an output format cannot go on inside an open turn",
                hint="ask for the whole answer again, or leave the format out",
            )
        if self.tool_choice == "required" or isinstance(self.tool_choice, NamedTool):
            raise InvalidRequestError(
                "a tool call cannot be forced inside an open turn", hint="use tool_choice auto or none"
            )

    def _check_tools(self) -> None:
        names = [tool.name for tool in self.tools]
        if len(set(names)) != len(names):
            raise InvalidRequestError("two tools of one request share a name")
        if isinstance(self.tool_choice, NamedTool) and self.tool_choice.name not in names:
            raise InvalidRequestError(
                f"tool_choice names {self.tool_choice.name!r}, which is not among the tools"
            )
        if self.tool_choice == "required" and not names:
            raise InvalidRequestError("tool_choice is required, but the request has no tools")
