"""A conversation in progress: what was said, with which model and sampling, and how the last answer went."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from appliance.cli.answering import ShownAnswer
from appliance.core.errors import InvalidRequestError, StorageError
from appliance.core.messages import AssistantMessage, Conversation, Message, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.results import GenerateFailure, GenerateResult, GenerateSuccess

_WHOLE_NUMBERS = ("top_k", "penalty_last_tokens", "seed", "max_tokens", "reasoning_budget")
_NUMBERS = ("temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
SETTABLE = (*_NUMBERS, *_WHOLE_NUMBERS, "stop")


class ChatSession:
    """Turns of user and assistant. An answer that stopped or failed part-way is kept as far as it came."""

    def __init__(self, *, model: str, system: str, sampling: SamplingParams) -> None:
        self.model = model
        self.system = system
        self.sampling = sampling
        self.last_answer: ShownAnswer | None = None
        self._turns: list[Message] = []
        self._last_question = ""
        self._is_last_kept = False

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything said so far, the system message first."""
        system: list[Message] = [SystemMessage(text=self.system)] if self.system else []
        return (*system, *self._turns)

    @property
    def has_turns(self) -> bool:
        """Whether anything was said."""
        return bool(self._turns)

    def asks(self, question: str) -> None:
        """Note the question that is asked now."""
        self._last_question = question

    def request(self, question: str) -> GenerateRequest:
        """Make the request that asks a question after everything said so far."""
        self.asks(question)
        return GenerateRequest(
            conversation=Conversation((*self.messages, UserMessage(text=question))),
            model=self.model,
            sampling=self.sampling,
        )

    def take(self, shown: ShownAnswer) -> None:
        """Keep question and answer; when nothing was written, neither is kept."""
        self.last_answer = shown
        answer = _written(shown.result)
        self._is_last_kept = bool(answer.text or answer.reasoning)
        if self._is_last_kept:
            self._turns += [UserMessage(text=self._last_question), answer]

    def rest_request(self) -> GenerateRequest:
        """Make the request that goes on with the last answer, inside it.

        Raises:
            InvalidRequestError: there is none, or the model ended it itself.
        """
        if self.last_answer is None or not self._is_last_kept:
            raise InvalidRequestError("there is no answer to continue yet")
        result = self.last_answer.result
        if isinstance(result, GenerateSuccess) and result.finish_reason != "length":
            raise InvalidRequestError(
                "this answer is whole: the model ended it itself", hint="ask for more, or /retry"
            )
        return GenerateRequest(
            conversation=Conversation(self.messages, is_open=True), model=self.model, sampling=self.sampling
        )

    def take_rest(self, shown: ShownAnswer) -> None:
        """Add what was written now to the last answer."""
        self.last_answer = shown
        if not self._is_last_kept:
            return
        before, rest = self._turns[-1], _written(shown.result)
        assert isinstance(before, AssistantMessage)
        self._turns[-1] = replace(before, text=before.text + rest.text)

    def take_back(self) -> str:
        """Remove the last answer and its question, and return the question.

        Raises:
            InvalidRequestError: nothing was asked yet.
        """
        if not self._last_question:
            raise InvalidRequestError("nothing was asked yet")
        if self._is_last_kept:
            del self._turns[-2:]
            self._is_last_kept = False
        return self._last_question

    def clear(self) -> None:
        """Begin a new conversation with the same model, system message and sampling."""
        self._turns.clear()
        self._is_last_kept = False
        self._last_question = ""
        self.last_answer = None

    def set_sampling(self, name: str, text: str) -> None:
        """Change one sampling value; `none` clears it.

        Raises:
            InvalidRequestError: there is no such value, or it is outside its range.
        """
        if name not in SETTABLE:
            raise InvalidRequestError(f"there is no value {name!r}", hint="there are " + ", ".join(SETTABLE))
        self.sampling = _changed(self.sampling, name, text)

    def save(self, path: Path) -> None:
        """Write the conversation as Markdown, or as JSON to a name that ends in .json. Replaces no file.

        Raises:
            StorageError: the file exists or cannot be written.
        """
        text = self._as_json() if path.suffix.lower() == ".json" else self._as_markdown()
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError as exc:
            raise StorageError(f"{path} exists already", hint="choose another name") from exc
        except OSError as exc:
            raise StorageError(f"{path} cannot be written: {exc.strerror}") from exc

    def _as_json(self) -> str:
        said = [{"role": message.kind, "content": message.text} for message in self.messages]
        return json.dumps({"model": self.model, "messages": said}, ensure_ascii=False, indent=2) + "\n"

    def _as_markdown(self) -> str:
        titles = {"system": "System", "user": "Question", "assistant": "Answer", "tool": "Tool"}
        parts = [f"## {titles[message.kind]}\n\n{message.text}\n" for message in self.messages]
        return f"# Conversation with {self.model}\n\n" + "\n".join(parts)


def _written(result: GenerateResult) -> AssistantMessage:
    match result:
        case GenerateSuccess():
            return result.message
        case GenerateFailure():
            return result.partial


def _changed(sampling: SamplingParams, name: str, text: str) -> SamplingParams:
    is_none = text.lower() == "none"
    try:
        match name:
            case "stop":
                return replace(sampling, stop=() if is_none else (*sampling.stop, text))
            case "seed" | "max_tokens" | "reasoning_budget" if is_none:
                return _replaced(sampling, name, None)
            case _ if name in _WHOLE_NUMBERS:
                return _replaced(sampling, name, int(text))
            case _:
                assert name in _NUMBERS, name
                return _replaced(sampling, name, float(text))
    except ValueError as exc:
        raise InvalidRequestError(f"{name} takes a number, not {text!r}") from exc


def _replaced(sampling: SamplingParams, name: str, value: float | None) -> SamplingParams:
    # The field is chosen by name here, which no type can follow; SETTABLE bounds the names.
    changes: dict[str, float | None] = {name: value}
    return replace(sampling, **changes)  # type: ignore[arg-type]
