"""What a prompt is made of before it is counted: a request taken apart, passages, facts and a summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from appliance.context.delimiting import delimited, enclosed
from appliance.core.messages import (
    AssistantMessage,
    Conversation,
    Message,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from appliance.core.requests import GenerateRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text of a document with how a reader calls its place."""

    text: str
    source: str
    place: str = ""

    @property
    def label(self) -> str:
        """Source and place on one line."""
        return f"{self.source}, {self.place}" if self.place else self.source

    def rendered(self, number: int) -> str:
        """Return the passage as it stands in a prompt."""
        return delimited("passage", self.text, id=str(number), source=self.label)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A question with everything up to the next question. It is kept whole or cut whole."""

    messages: tuple[Message, ...]

    @property
    def label(self) -> str:
        """The beginning of what was said."""
        first = self.messages[0].text.split()
        words = " ".join(first[:8])
        return f"{words} …" if len(first) > 8 else words or self.messages[0].kind


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """Everything of one prompt. `passages` stand in the order they have in the prompt.

    `after` are the messages behind the last question: tool calls and their results that await an answer, or the
    text so far of an open turn.
    """

    request: GenerateRequest
    system: SystemMessage | None
    facts: tuple[str, ...]
    summary: str
    turns: tuple[Exchange, ...]
    passages: tuple[Passage, ...]
    question: UserMessage | None
    after: tuple[Message, ...]

    @property
    def open_turn(self) -> AssistantMessage | None:
        """The turn that the answer goes on inside, or None."""
        last = self.after[-1] if self.after else None
        return last if isinstance(last, AssistantMessage) else None

    def to_request(self) -> GenerateRequest:
        """Return the request: system, turns, then documents and the question in one message of the user."""
        head: tuple[Message, ...] = () if self.system is None else (self.system,)
        turns = tuple(message for exchange in self.turns for message in exchange.messages)
        body = (*turns, *self._asking(), *self.after)
        messages = (*head, *_with_preamble(body, self._preamble()))
        is_open = self.open_turn is not None
        return replace(self.request, conversation=Conversation(messages, is_open=is_open))

    def _asking(self) -> tuple[Message, ...]:
        if self.question is None:
            return ()
        if not self.passages:
            return (self.question,)
        return (UserMessage(text=f"{documents_block(self.passages)}\n\n{self.question.text}"),)

    def _preamble(self) -> str:
        parts: list[str] = []
        if self.facts:
            parts.append(enclosed("memory", [rendered_fact(fact) for fact in self.facts]))
        if self.summary:
            parts.append(rendered_summary(self.summary))
        return "\n".join(parts)


def parts_of(
    request: GenerateRequest, *, facts: Sequence[str], summary: str, passages: Sequence[Passage]
) -> PromptParts:
    """Take a request apart; results of tools are delimited."""
    messages = [_guarded(message) for message in request.conversation.messages]
    system = messages.pop(0) if isinstance(messages[0], SystemMessage) else None
    exchanges = _exchanges(messages)
    last = exchanges.pop().messages
    question = last[0] if isinstance(last[0], UserMessage) else None
    return PromptParts(
        request=request,
        system=system if isinstance(system, SystemMessage) else None,
        facts=tuple(facts),
        summary=summary,
        turns=tuple(exchanges),
        passages=tuple(passages),
        question=question,
        after=last if question is None else last[1:],
    )


def documents_block(passages: Sequence[Passage]) -> str:
    """Return passages, numbered from 1, as they stand in a prompt."""
    return enclosed("documents", [passage.rendered(number) for number, passage in enumerate(passages, 1)])


def rendered_fact(fact: str) -> str:
    """Return a remembered fact as it stands in a prompt."""
    return delimited("fact", fact)


def rendered_summary(summary: str) -> str:
    """Return the summary of earlier turns as it stands in a prompt."""
    return delimited("summary", summary)


def best_at_the_ends(ranked: Sequence[int]) -> tuple[int, ...]:
    """Order ranks, best first, so that the best stand first and last: models read the middle worst."""
    return (*ranked[0::2], *reversed(ranked[1::2]))


def _guarded(message: Message) -> Message:
    if isinstance(message, ToolMessage) and message.text:
        return replace(message, text=delimited("tool_result", message.text))
    return message


def _exchanges(messages: Sequence[Message]) -> list[Exchange]:
    groups: list[list[Message]] = []
    for message in messages:
        if isinstance(message, UserMessage) or not groups:
            groups.append([])
        groups[-1].append(message)
    return [Exchange(messages=tuple(group)) for group in groups]


def _with_preamble(messages: tuple[Message, ...], preamble: str) -> tuple[Message, ...]:
    if not preamble:
        return messages
    first = messages[0]
    # Many chat templates demand that user and assistant turns alternate.
    if isinstance(first, UserMessage):
        joined = f"{preamble}\n\n{first.text}" if first.text else preamble
        return (UserMessage(text=joined), *messages[1:])
    assert isinstance(first, AssistantMessage | ToolMessage)
    return (UserMessage(text=preamble), *messages)
