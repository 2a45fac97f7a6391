"""`appliance chat`: a conversation line by line, as plain text that pipes and screen readers follow."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Literal, Unpack

import click

from appliance.cli.answering import ShownAnswer, answer_on_screen
from appliance.cli.chat_commands import run_command
from appliance.cli.chat_input import keep_history, read_message, read_piped_line, read_terminal_line
from appliance.cli.chat_session import ChatSession
from appliance.cli.chat_shelf import STORE_COMMANDS, run_store_command
from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_OK
from appliance.cli.generation import GenerationFlags, generation_options, sampling_of, setting_flags
from appliance.cli.invocation import Invocation
from appliance.cli.leaving import note_where_data_goes
from appliance.cli.loop_thread import LoopThread
from appliance.cli.screen import AnswerScreen
from appliance.cli.stats import stats_line
from appliance.core.errors import ApplianceError, InvalidRequestError
from appliance.core.results import GenerateFailure
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.app import Appliance
    from appliance.cli.chat_documents import ChatDocuments
    from appliance.cli.stored_chat import StoredChat
    from appliance.config import Settings
    from appliance.memory.document_scope import DocumentScope

Way = Literal["new", "again", "edited"]
"""How a question comes to be asked: at the end, once more, or in place of the last one."""


@click.command("chat")
@generation_options
@click.option("--no-store", "is_private", is_flag=True, help="Keep this conversation in memory only.")
@click.pass_obj
def chat_command(
    invocation: Invocation, *, is_private: bool = False, **flags: Unpack[GenerationFlags]
) -> int:
    """Talk with a model, line by line.

    Each line is a message; the answer streams to standard output. /help lists the commands. A line
    that ends with \\ goes on in the next, and a text between two \"\"\" may have many lines. Ctrl+C stops
    an answer and keeps what was written, Ctrl+D leaves. When lines are piped in, the exit code is 1 if
    any failed.

    The conversation is kept on disk (`appliance chats` lists it) unless --no-store is given. When it no
    longer fits the context window, older turns are folded as the setting `memory` says, and a note tells it.
    """
    settings = invocation.settings(setting_flags(flags))
    session = ChatSession(
        model=settings.model,
        system=flags["system"] or "",
        sampling=sampling_of(settings.default_sampling(), **flags),
    )
    with LoopThread() as loop:
        appliance = loop.run(_build(settings))
        try:
            with ExitStack() as closing:
                stored = None if is_private else _stored(appliance, closing)
                chat = _Chat(appliance, loop, session, flags, stored)
                closing.callback(chat.close)
                return chat.talk()
        finally:
            loop.run(appliance.close())


async def _build(settings: Settings) -> Appliance:
    from appliance.app import build_appliance

    return build_appliance(settings)


def _stored(appliance: Appliance, closing: ExitStack) -> StoredChat:
    from appliance.app import open_facts
    from appliance.cli.stored_chat import StoredChat
    from appliance.memory.conversations import Conversations
    from appliance.memory.schema import CONVERSATIONS, FACTS
    from appliance.memory.short_term import policy_named
    from appliance.storage.database import STORE_FILE, Database

    settings = appliance.settings
    database = Database(settings.data_dir / STORE_FILE, [CONVERSATIONS, FACTS])
    closing.callback(database.close)
    return StoredChat(
        Conversations(database),
        appliance.gateway,
        memory=policy_named(settings.memory),
        facts=open_facts(settings, database),
        fact_mode=settings.facts,
    )


class _Chat:
    """The loop of reading a message and showing its answer."""

    def __init__(
        self,
        appliance: Appliance,
        loop: LoopThread,
        session: ChatSession,
        flags: GenerationFlags,
        stored: StoredChat | None,
    ) -> None:
        self._appliance = appliance
        self._loop = loop
        self._session = session
        self._stored = stored
        self._shows_stats = flags["shows_stats"]
        self._screen = AnswerScreen(shows_reasoning=flags["shows_reasoning"], ends_line=True)
        self._opened_documents: ChatDocuments | None = None
        self._scope: DocumentScope | None = None
        self._is_terminal = sys.stdin.isatty()
        self._read_line = read_terminal_line if self._is_terminal else read_piped_line
        self._has_failed = False

    def close(self) -> None:
        """End what questions to documents opened."""
        if self._opened_documents is not None:
            self._opened_documents.close()

    def talk(self) -> int:
        """Answer until the input ends; return the exit code."""
        self._check_model(self._session.model)
        if not self._is_terminal:
            self._talk_until_end()
            return EXIT_FAILURE if self._has_failed else EXIT_OK
        save_history = keep_history(self._appliance.settings.state_dir / "chat_history")
        self._show(f"{self._session.model} · /help lists commands · Ctrl+D leaves")
        self._loop.start(self._appliance.gateway.load(self._session.model))
        try:
            self._talk_until_end()
        finally:
            save_history()
        return EXIT_OK

    def _talk_until_end(self) -> None:
        while True:
            try:
                message = read_message(self._read_line)
            except EOFError:
                self._leave()
                return
            except KeyboardInterrupt:
                self._show("\nCtrl+D or /exit leaves")
                continue
            except ApplianceError as exc:
                self._fail(exc)
                continue
            if message.strip() in ("/exit", "/quit", "/bye"):
                return
            self._respond(message)

    def _leave(self) -> None:
        if self._is_terminal:
            self._show("")

    def _respond(self, message: str) -> None:
        stripped = message.strip()
        try:
            if not stripped:
                return
            if stripped.startswith("/") and not stripped.startswith("//"):
                self._obey(stripped)
            else:
                self._ask(stripped.removeprefix("/") if stripped.startswith("//") else message)
        except ApplianceError as exc:
            self._fail(exc)
        except KeyboardInterrupt:
            self._show("interrupted")

    def _obey(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        argument = argument.strip()
        match name:
            case "/retry":
                self._answer(self._session.take_back(), "again")
            case "/continue":
                self._continue()
            case "/edit":
                self._edit(argument)
            case "/ask":
                self._ask(argument, asks_documents=True)
            case _ if name in STORE_COMMANDS:
                self._show(self._loop.run(run_store_command(self._session, self._stored, name, argument)))
            case _:
                self._show(run_command(self._session, line, self._check_model))

    def _ask(self, question: str, *, asks_documents: bool = False) -> None:
        if not question:
            raise InvalidRequestError("/ask needs a question", hint="/ask when does the lease end?")
        if asks_documents:
            self._scope = self._loop.run(self._documents.scope_of(question))
        else:
            self._scope = None
        self._answer(question, "new")

    def _edit(self, question: str) -> None:
        if not question:
            raise InvalidRequestError("/edit needs the question in other words")
        self._session.take_back()
        self._answer(question, "edited")

    def _answer(self, question: str, way: Way) -> None:
        shown = self._loop.run(self._asked(question, way))
        self._session.take(shown)
        self._show_sources()
        self._tell_end(shown)

    def _continue(self) -> None:
        if self._scope is not None:
            raise InvalidRequestError(
                "an answer from documents cannot be continued", hint="/retry asks the documents again"
            )
        shown = self._loop.run(self._rest())
        self._session.take_rest(shown)
        self._tell_end(shown)

    async def _rest(self) -> ShownAnswer:
        if self._stored is not None:
            return await self._stored.continue_answer(self._session, self._screen)
        return await answer_on_screen(self._appliance.gateway, self._session.rest_request(), self._screen)

    def _tell_end(self, shown: ShownAnswer) -> None:
        result = shown.result
        goes_on = "" if self._scope is not None else "/continue goes on, "
        if shown.is_interrupted:
            self._screen.note(f"interrupted; {goes_on}/retry asks again")
        elif isinstance(result, GenerateFailure):
            self._report(result.failure.message, result.failure.hint)
        elif result.finish_reason == "length":
            cut = f"note: the answer was cut after {result.usage.output_tokens} tokens"
            self._screen.note(f"{cut}; {goes_on}/retry asks again")
        if self._shows_stats:
            self._screen.note(stats_line(shown))

    async def _asked(self, question: str, way: Way) -> ShownAnswer:
        self._session.asks(question)
        if self._stored is None:
            return await self._asked_privately(question)
        prepare = None if self._scope is None else self._documents.prompt(self._session.model, self._scope)
        match way:
            case "new":
                return await self._stored.answer(self._session, question, self._screen, prepare)
            case "again":
                return await self._stored.answer_again(self._session, self._screen, prepare)
            case "edited":
                return await self._stored.answer_edited(self._session, question, self._screen, prepare)

    async def _asked_privately(self, question: str) -> ShownAnswer:
        if self._scope is None:
            request = self._session.request(question)
            return await answer_on_screen(self._appliance.gateway, request, self._screen)
        return await self._documents.answer_privately(self._session, question, self._scope, self._screen)

    @property
    def _documents(self) -> ChatDocuments:
        if self._opened_documents is None:
            from appliance.cli.chat_documents import ChatDocuments

            self._opened_documents = ChatDocuments(self._appliance.settings, self._appliance.gateway)
        return self._opened_documents

    def _show_sources(self) -> None:
        if self._scope is None or self._opened_documents is None:
            return
        from appliance.cli.chat_documents import show_sources

        stored, private = self._stored, self._opened_documents.private_receipt_json
        show_sources(private if stored is None else stored.receipt_json(), self._screen)

    def _check_model(self, name: str) -> None:
        self._loop.run(self._appliance.gateway.capabilities(name))
        self._loop.run(note_where_data_goes(self._appliance, name, self._screen))

    def _show(self, text: str) -> None:
        click.echo(clean_for_terminal(text), err=not self._is_terminal)

    def _fail(self, error: ApplianceError) -> None:
        self._report(error.message, error.hint)

    def _report(self, message: str, hint: str) -> None:
        self._has_failed = True
        self._screen.note(f"error: {message}")
        if hint:
            self._screen.note(f"hint: {hint}")
