"""The slash commands of the chat: each changes the session and says what it did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from appliance.cli.chat_session import SETTABLE, ChatSession
from appliance.cli.chat_shelf import STORE_COMMANDS
from appliance.cli.stats import stats_line
from appliance.core.errors import InvalidRequestError

CheckModel = Callable[[str], None]
"""Raises ModelNotFoundError for a name that no provider knows."""


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """How a command is written and what it does."""

    usage: str
    summary: str
    run: Callable[[ChatSession, str], str]


def run_command(session: ChatSession, line: str, check_model: CheckModel) -> str:
    """Run a command that asks nothing of the model, and return what to show.

    Raises:
        ApplianceError: the command is unknown or cannot be done.
    """
    name, _, argument = line.partition(" ")
    argument = argument.strip()
    if name == "/model" and argument:
        check_model(argument)
        session.model = argument
        return f"{argument} answers from now on"
    command = COMMANDS.get(name)
    if name in ELSEWHERE:
        raise InvalidRequestError(f"{name} is a page of the terminal interface", hint=ELSEWHERE[name])
    if command is None:
        near = get_close_matches(name, [*COMMANDS, *STORE_COMMANDS, *ELSEWHERE], n=1)
        raise InvalidRequestError(
            f"there is no command {name}",
            hint=f"did you mean {near[0]}?" if near else "/help lists them; // begins a message with a slash",
        )
    return command.run(session, argument)


def _help(_session: ChatSession, _argument: str) -> str:
    listed = [(one.usage, one.summary) for one in COMMANDS.values()]
    listed[-1:-1] = [(one.usage, one.summary) for one in STORE_COMMANDS.values()]
    width = max(len(usage) for usage, _ in listed)
    lines = [f"{usage:<{width}}  {summary}" for usage, summary in listed]
    return "\n".join([*lines, "", *_INPUT_HELP])


_INPUT_HELP = (
    "A line that ends with \\ goes on in the next; a text between two \"\"\" may have many lines.",
    "Ctrl+C stops an answer and keeps what was written; Ctrl+D leaves.",
)  # fmt: skip


def _new(session: ChatSession, _argument: str) -> str:
    session.clear()
    return "a new conversation"


def _model(session: ChatSession, _argument: str) -> str:
    return session.model


def _system(session: ChatSession, argument: str) -> str:
    if not argument:
        return session.system or "there is no system message"
    session.system = "" if argument.lower() == "none" else argument
    return "the system message is set" if session.system else "there is no system message now"


def _set(session: ChatSession, argument: str) -> str:
    name, _, value = argument.partition(" ")
    if not name:
        return "\n".join(f"{name} {_shown(getattr(session.sampling, name))}" for name in SETTABLE)
    if not value.strip() and name in SETTABLE:
        return f"{name} {_shown(getattr(session.sampling, name))}"
    session.set_sampling(name, value.strip())
    return f"{name} {_shown(getattr(session.sampling, name))}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " ".join(repr(item) for item in value) or "none"
    return "none" if value is None else str(value)


def _stats(session: ChatSession, _argument: str) -> str:
    return stats_line(session.last_answer) if session.last_answer else "nothing was answered yet"


def _save(session: ChatSession, argument: str) -> str:
    if not argument:
        raise InvalidRequestError("/save needs a file name", hint="/save talk.md")
    if not session.messages:
        raise InvalidRequestError("there is nothing to save yet")
    path = Path(argument).expanduser()
    session.save(path)
    return f"saved to {path.resolve()}"


def _elsewhere(_session: ChatSession, _argument: str) -> str:
    raise AssertionError("the loop that reads messages does this")


COMMANDS: dict[str, SlashCommand] = {
    "/help": SlashCommand("/help", "show this", _help),
    "/ask": SlashCommand("/ask QUESTION", "ask the documents; @NAME names some of them", _elsewhere),
    "/new": SlashCommand("/new", "begin a new conversation", _new),
    "/model": SlashCommand("/model [NAME]", "show or change the model", _model),
    "/system": SlashCommand("/system [TEXT|none]", "show, set or remove the system message", _system),
    "/set": SlashCommand("/set [NAME [VALUE|none]]", "show or change how tokens are chosen", _set),
    "/stats": SlashCommand("/stats", "show tokens and times of the last answer", _stats),
    "/save": SlashCommand("/save FILE", "write the conversation to a .md or .json file", _save),
    "/continue": SlashCommand("/continue", "go on with an answer that was stopped or cut off", _elsewhere),
    "/retry": SlashCommand("/retry", "answer the last question again", _elsewhere),
    "/edit": SlashCommand("/edit TEXT", "ask the last question in other words", _elsewhere),
    "/exit": SlashCommand("/exit", "leave", _elsewhere),
}

ELSEWHERE = {
    "/models": "`appliance list` is the catalogue; /model NAME changes the model here",
    "/library": "`appliance docs` lists documents, `appliance add PATH` brings some in",
    "/extract": "`appliance extract` takes a row of fields out of each of many documents",
    "/branch": "`appliance chats show CHAT --branches` shows every branch",
    "/copy": "/save FILE writes the conversation",
    "/think": "`appliance chat --reasoning` prints the thinking",
    "/settings": "`appliance config` lists every setting and its source",
    "/log": "`appliance trace` shows requests with their times",
    "/bench": "`appliance bench` measures the speed of the model here",
    "/theme": "plain lines have no colours of their own",
}
"""Pages of the terminal interface that lines cannot show, and what does the same from here."""
