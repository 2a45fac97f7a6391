"""The slash commands of the chat: their names, what they take, and completion."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from appliance.core.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command as help lists it."""

    usage: str
    summary: str

    @property
    def name(self) -> str:
        """The command without what it takes."""
        return self.usage.partition(" ")[0]


COMMANDS = (
    SlashCommand("/help", "keys and commands"),
    SlashCommand("/new", "begin a new chat"),
    SlashCommand("/chats [WORDS]", "list chats, or search them all"),
    SlashCommand("/model [NAME]", "show or change the model"),
    SlashCommand("/models", "the catalogue of models"),
    SlashCommand("/library", "documents and collections"),
    SlashCommand("/ask QUESTION", "ask the documents; @ names some of them; s shows the sources"),
    SlashCommand("/extract", "a row of fields from each of many documents"),
    SlashCommand("/remember [TEXT]", "keep a fact for later chats, or find some in this one"),
    SlashCommand("/memory", "what is remembered: confirm, correct, delete"),
    SlashCommand("/edit", "edit the last question and send it again"),
    SlashCommand("/retry", "answer the last question again"),
    SlashCommand("/continue", "go on with a stopped answer"),
    SlashCommand("/branch [next|previous]", "show another branch of the last answer"),
    SlashCommand("/copy [code|chat|file]", "copy the last answer, its last code block, or the chat"),
    SlashCommand("/save FILE", "write the chat to a new Markdown file"),
    SlashCommand("/system [TEXT|none]", "show or set the instructions of this chat"),
    SlashCommand("/set [NAME VALUE|none]", "show or change how tokens are chosen"),
    SlashCommand("/stats", "tokens and times of the last answer"),
    SlashCommand("/think", "fold or unfold the thinking"),
    SlashCommand("/title TEXT", "rename this chat"),
    SlashCommand("/pin", "keep this chat at the top, or let it go"),
    SlashCommand("/archive", "put this chat out of sight"),
    SlashCommand("/delete", "move this chat to the trash"),
    SlashCommand("/forget [@DOCUMENT|WORDS]", "remove for good: this chat, a document, or a subject"),
    SlashCommand("/undo", "bring back the chat deleted last"),
    SlashCommand("/settings", "every setting and its source"),
    SlashCommand("/log", "requests with their times, and what the workers wrote"),
    SlashCommand("/bench", "measure the speed of the model here"),
    SlashCommand("/theme [light|dark]", "switch between light and dark"),
    SlashCommand("/exit", "leave"),
)
_ALIASES = {"/bye": "/exit", "/quit": "/exit", "/clear": "/new", "/show": "/stats", "/search": "/chats"}
_NAMES = [command.name for command in COMMANDS]


def is_command(text: str) -> bool:
    """Say whether a text is a command: one slash at its beginning; two stand for one of a message."""
    return text.startswith("/") and not text.startswith("//")


def parse_command(text: str) -> tuple[str, str]:
    """Return the command's name and what it was given.

    Raises:
        InvalidRequestError: there is no such command; names the nearest.
    """
    name, _, argument = text.strip().partition(" ")
    name = _ALIASES.get(name, name)
    if name not in _NAMES:
        near = get_close_matches(name, _NAMES, n=1)
        raise InvalidRequestError(
            f"there is no command {name}",
            hint=f"did you mean {near[0]}?" if near else "/help lists them; // begins a message with a slash",
        )
    return name, argument.strip()


def completions(text: str) -> list[SlashCommand]:
    """Return the commands that begin with what was typed; none once there is a space."""
    if not is_command(text) or " " in text or "\n" in text:
        return []
    return [command for command in COMMANDS if command.name.startswith(text)]
