"""Render a conversation with the model's chat template: sandboxed, bounded in time and output, forgery-safe.

Text of users, documents and tools may contain the text of a control token such as `<|im_end|>`. Before rendering,
each such occurrence is replaced by an opaque random word; the rendered prompt is split at those words again, and
the pieces they stood for are tokenised as plain text. So the template sees ordinary strings, everything that
carries no marker is tokenised exactly as by llama.cpp's own tools, and only the template can make control tokens.
"""

from __future__ import annotations

import faulthandler
import json
import re
import resource
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from types import FrameType
from typing import NoReturn

import jinja2
import psutil
from jinja2.exceptions import SecurityError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from appliance.core.errors import InvalidRequestError, ModelFileError
from appliance.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage
from appliance.core.requests import ToolSpec

RENDER_LIMIT_S = 2.0

# A signal cannot stop a single long operation of Python itself; after this much longer the process ends.
_STUCK_LIMIT_S = 3.0
_STDERR = 2

_RENDER_MEMORY_BYTES = 512 << 20
_MOST_BYTES_A_CHARACTER = 4
_OUTPUT_SLACK_CHARACTERS = 1 << 20
_TEMPLATE_LIMIT_CHARACTERS = 1 << 18
_REPEAT_LIMIT_CHARACTERS = 1 << 16

_OTHER_TEMPLATE_HINT = "give another one with `chat_template` in the model card"

# Used where the weights carry no template: the plain text of the turns, as base models continue it.
PLAIN_TEMPLATE = "{%- for message in messages -%}{{ message.content }}\n{% endfor -%}"

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True)
class PromptPiece:
    """A stretch of the rendered prompt; only where `is_literal` is false may it yield control tokens."""

    text: str
    is_literal: bool


class _BoundedEnvironment(ImmutableSandboxedEnvironment):
    """A sandbox that also refuses operations whose result can be huge."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def call_binop(
        self, context: jinja2.runtime.Context, operator: str, left: object, right: object
    ) -> object:
        if operator == "**":
            raise SecurityError("powers are not allowed in a chat template")
        if operator == "*" and (_is_sized(left) or _is_sized(right)):
            sized, times = (left, right) if _is_sized(left) else (right, left)
            if not isinstance(times, int) or len(sized) * times > _REPEAT_LIMIT_CHARACTERS:  # type: ignore[arg-type]
                raise SecurityError("a repetition in the chat template is too long")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("format strings are not allowed in a chat template")
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
        if isinstance(obj, str) and attr in ("format", "format_map", "center", "ljust", "rjust", "zfill"):
            return False
        return super().is_safe_attribute(obj, attr, value)


def _is_sized(value: object) -> bool:
    return isinstance(value, (str, list, tuple))


class ChatTemplate:
    """One compiled template.

    Args:
        source: Jinja text, as Hugging Face models carry it.
        guarded: texts that only the template may turn into control tokens.

    Raises:
        ModelFileError: the template is too long or no valid Jinja.
    """

    def __init__(self, source: str, *, bos: str, eos: str, guarded: Sequence[str]) -> None:
        if len(source) > _TEMPLATE_LIMIT_CHARACTERS:
            raise ModelFileError(f"the chat template has {len(source)} characters; that is too long")
        self.source = source or PLAIN_TEMPLATE
        self._bos, self._eos = bos, eos
        self._guarded = _alternation(guarded)
        environment = _BoundedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols], autoescape=False
        )
        for name in ("center", "indent", "wordwrap", "format", "pprint", "xmlattr", "urlize"):
            environment.filters.pop(name, None)
        environment.filters["indent"] = _bounded_indent
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = _strftime_now
        environment.globals.pop("lipsum", None)
        self._template = _compile(environment, self.source)

    @property
    def supports_tools(self) -> bool:
        """Whether the template shows tools to the model."""
        return "tools" in self.source

    def pieces_of(self, text: str) -> list[PromptPiece]:
        """Return a text that stands in a prompt as it is, as pieces; no part of it yields a control token."""
        shield = _Shield(self._guarded)
        return shield.split(shield.guard_text(text))

    def render(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = (), *, opens_turn: bool = True
    ) -> list[PromptPiece]:
        """Render a conversation, and with `opens_turn` up to the point where the assistant's turn begins.

        Raises:
            InvalidRequestError: the template refuses the conversation.
            ModelFileError: the template fails, or does not end within its limits.
        """
        shield = _Shield(self._guarded)
        wire_messages = [shield.guard(_wire_message(message)) for message in messages]
        wire_tools = [shield.guard(_wire_tool(tool)) for tool in tools] or None
        content_characters = sum(len(str(message)) for message in (*wire_messages, *(wire_tools or ())))
        text = self._render_bounded(
            {
                "messages": wire_messages,
                "tools": wire_tools,
                "add_generation_prompt": opens_turn,
                "bos_token": self._bos,
                "eos_token": self._eos,
            },
            limit_characters=2 * content_characters + _OUTPUT_SLACK_CHARACTERS,
        )
        return shield.split(text)

    def _render_bounded(self, variables: Mapping[str, object], *, limit_characters: int) -> str:
        parts: list[str] = []
        length = 0
        try:
            with _memory_limit(limit_characters), _time_limit(RENDER_LIMIT_S):
                for part in self._template.generate(variables):
                    length += len(part)
                    if length > limit_characters:
                        raise ModelFileError(
                            f"the chat template wrote more than {limit_characters} characters"
                        )
                    parts.append(part)
        except _TemplateRefusalError as exc:
            raise InvalidRequestError(f"the model's chat template refuses this conversation: {exc}") from exc
        except TimeoutError as exc:
            raise ModelFileError(f"the chat template did not end within {RENDER_LIMIT_S:g} s") from exc
        except (
            jinja2.TemplateError,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            AttributeError,
        ) as exc:
            raise ModelFileError(
                f"the chat template failed on this conversation: {exc}",
                hint=_OTHER_TEMPLATE_HINT,
            ) from exc
        except (RecursionError, MemoryError) as exc:
            raise ModelFileError("the chat template recursed or grew without end") from exc
        return "".join(parts)


def _compile(environment: jinja2.Environment, source: str) -> jinja2.Template:
    """Compile a template; Jinja computes constant expressions here, so the limits hold here too."""
    try:
        with _memory_limit(len(source)), _time_limit(RENDER_LIMIT_S):
            return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError) as exc:
        raise ModelFileError(
            f"the chat template is no valid Jinja: {exc}", hint=_OTHER_TEMPLATE_HINT
        ) from exc
    except (TimeoutError, MemoryError) as exc:
        raise ModelFileError(
            "the chat template takes too much time or memory to compile", hint=_OTHER_TEMPLATE_HINT
        ) from exc


class _TemplateRefusalError(Exception):
    """The template called `raise_exception`."""


class _Shield:
    """Swaps guarded texts for opaque words before rendering and finds them again after."""

    def __init__(self, guarded: re.Pattern[str] | None) -> None:
        self._guarded = guarded
        self._nonce = secrets.token_hex(8)
        self._originals: list[str] = []

    def guard(self, value: Json) -> Json:
        if isinstance(value, str):
            return self.guard_text(value)
        if isinstance(value, list):
            return [self.guard(item) for item in value]
        if isinstance(value, dict):
            return {self.guard_text(key): self.guard(item) for key, item in value.items()}
        return value

    def guard_text(self, text: str) -> str:
        if self._guarded is None:
            return text
        return self._guarded.sub(self._placeholder, text)

    def _placeholder(self, match: re.Match[str]) -> str:
        self._originals.append(match.group())
        return f"xg{self._nonce}n{len(self._originals) - 1}x"

    def split(self, text: str) -> list[PromptPiece]:
        pieces: list[PromptPiece] = []
        position = 0
        for match in re.finditer(f"xg{self._nonce}n([0-9]+)x", text):
            if match.start() > position:
                pieces.append(PromptPiece(text[position : match.start()], is_literal=False))
            pieces.append(PromptPiece(self._originals[int(match.group(1))], is_literal=True))
            position = match.end()
        if position < len(text):
            pieces.append(PromptPiece(text[position:], is_literal=False))
        return pieces


def _alternation(guarded: Sequence[str]) -> re.Pattern[str] | None:
    texts = sorted({text for text in guarded if text.strip()}, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _wire_message(message: Message) -> dict[str, Json]:
    match message:
        case SystemMessage() | UserMessage():
            return {"role": message.kind, "content": message.text}
        case ToolMessage():
            return {
                "role": "tool",
                "content": message.text,
                "name": message.name,
                "tool_call_id": message.call_id,
            }
        case AssistantMessage():
            return _wire_assistant(message)


def _wire_assistant(message: AssistantMessage) -> dict[str, Json]:
    wire: dict[str, Json] = {"role": "assistant", "content": message.text}
    if message.reasoning:
        wire["reasoning_content"] = message.reasoning
    if message.tool_calls:
        wire["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments_json)},
            }
            for call in message.tool_calls
        ]
    return wire


def _wire_tool(tool: ToolSpec) -> dict[str, Json]:
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": json.loads(tool.parameters_json),
        },
    }


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON as Hugging Face renders it, not Jinja's HTML-safe variant."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _bounded_indent(text: str, width: int = 4, first: bool = False, blank: bool = False) -> str:
    if width > 64:
        raise SecurityError("an indent of the chat template is too wide")
    return jinja2.filters.do_indent(text, width, first, blank)


def _raise_exception(message: object) -> NoReturn:
    raise _TemplateRefusalError(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().astimezone().strftime(pattern)


@contextmanager
def _time_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread when the body runs too long; a signal ends even an endless loop.

    One operation that no signal interrupts, such as comparing lists nested without end, ends the process.
    """

    def expire(_signal: int, _frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    faulthandler.dump_traceback_later(limit_s + _STUCK_LIMIT_S, exit=True, file=_STDERR)
    previous = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _memory_limit(characters: int) -> Iterator[None]:
    """Let the body take memory for texts of so many characters and no more; beyond that, MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = psutil.Process().memory_info().vms + _RENDER_MEMORY_BYTES
    wanted += 2 * _MOST_BYTES_A_CHARACTER * characters
    is_tighter = soft == resource.RLIM_INFINITY or wanted < soft
    if is_tighter:
        with suppress(OSError, ValueError):  # not every system can limit it
            resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        if is_tighter:
            with suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
