"""Questions of `appliance chat` to documents: numbered citations, asked and stored as the terminal interface does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

import click

from appliance.cli.answering import ShownAnswer, events_on_screen
from appliance.cli.chat_session import ChatSession
from appliance.cli.screen import AnswerScreen
from appliance.core.errors import InvalidRequestError
from appliance.core.events import StreamEvent
from appliance.core.messages import AssistantMessage, Message, UserMessage
from appliance.core.terminal_text import clean_for_terminal
from appliance.memory.chat_prompt import AnswerChoice
from appliance.memory.document_scope import DocumentScope
from appliance.memory.prompt import PreparePrompt
from appliance.memory.turns import Chat, Role, Turn
from tui.in_process.library import LibraryOfDocuments
from tui.in_process.sources import sourced_answer
from tui.mentions import mentioned, scope_of

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.gateway import Gateway
    from tui.rows import SourceRow


class ChatDocuments:
    """The documents a chat can ask; the library is opened by the first question."""

    def __init__(self, settings: Settings, gateway: Gateway) -> None:
        self._choice = AnswerChoice(model=settings.model, sampling=settings.default_sampling())
        self._library = LibraryOfDocuments(
            settings, lambda: gateway, self._choice, forget_prompts=_nothing_to_forget
        )
        self.private_receipt_json = ""

    def close(self) -> None:
        """End parser processes and close the database."""
        self._library.close()

    async def scope_of(self, question: str) -> DocumentScope:
        """Return what a question names with @; nothing named means every document.

        Raises:
            InvalidRequestError: names what is not there.
        """
        if not mentioned(question):
            return DocumentScope()
        known = await self._library.names()
        scope, unknown = scope_of(question, known)
        if unknown:
            listed = (
                ", ".join(dict.fromkeys(one.name for one in known)) or "none yet; `appliance add` adds some"
            )
            raise InvalidRequestError(
                f"there is no document or collection {', '.join(f'@{name}' for name in unknown)}",
                hint=f"there are: {listed}",
            )
        return scope

    def prompt(self, model: str, scope: DocumentScope) -> PreparePrompt:
        """Return what puts the last question of a chat to documents."""
        self._choice.model = model
        return self._library.prompt(scope)

    async def answer_privately(
        self, talk: ChatSession, question: str, scope: DocumentScope, screen: AnswerScreen
    ) -> ShownAnswer:
        """Ask and show without storing anything."""
        private = _PrivateAnswer(self.prompt(talk.model, scope), talk, question)
        shown = await events_on_screen(private.events(), screen)
        self.private_receipt_json = private.receipt_json
        return shown


class _PrivateAnswer:
    """One question of a conversation that is kept in memory only."""

    def __init__(self, prepare: PreparePrompt, talk: ChatSession, question: str) -> None:
        self._prepare = prepare
        self._talk = talk
        self._question = question
        self.receipt_json = ""

    async def events(self) -> AsyncGenerator[StreamEvent]:
        """Prepare, then yield the answer."""
        said = (*self._talk.messages, UserMessage(text=self._question))
        prepared = await self._prepare(_chat_of(self._talk), _branch_of(said), lambda _: None)
        assert prepared.stream is not None
        assert prepared.receipt_at_end is not None
        stream = prepared.stream(prepared.request)
        assert isinstance(stream, AsyncGenerator)
        async with aclosing(stream) as events:
            async for event in events:
                yield event
        self.receipt_json = prepared.receipt_at_end()


def show_sources(receipt_json: str, screen: AnswerScreen) -> None:
    """Print what an answer from documents stands on, and what its reader must know."""
    sourced = sourced_answer(receipt_json)
    if sourced is None:
        return
    for source in sourced.sources:
        for line in _source_lines(source):
            click.echo(clean_for_terminal(line))
    for note in sourced.notes:
        screen.note(f"note: {note}")


def _source_lines(source: SourceRow) -> Iterator[str]:
    place = f", {source.place}" if source.place else ""
    yield f"[{source.number}] {source.name}{place}  ({source.verdict})"
    yield from (f"    {line}" for line in f"“{source.quote}”".splitlines())


async def _nothing_to_forget() -> None:
    """No document is removed from a chat."""
    await asyncio.sleep(0)


def _chat_of(talk: ChatSession) -> Chat:
    return Chat(
        id="", title="", system_text=talk.system, created_at_s=0, updated_at_s=0, is_pinned=False,
        is_archived=False, is_deleted=False, active_turn_id=None, turn_count=0, source="",
    )  # fmt: skip


def _branch_of(said: Sequence[Message]) -> list[Turn]:
    turns: list[Turn] = []
    for message in said:
        if isinstance(message, UserMessage | AssistantMessage):
            role: Role = message.kind
            turns.append(
                Turn(
                    id="", chat_id="", parent_id=None, sequence=len(turns), role=role, state="done",
                    text=message.text, created_at_s=0,
                )
            )  # fmt: skip
    return turns
