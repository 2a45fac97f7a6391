"""Completion in the input: slash commands, and names of documents and collections behind an @."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.core.errors import InvalidRequestError
from appliance.memory.document_scope import DocumentScope
from tui.clean import shown_cell
from tui.commands import completions
from tui.mentions import begun_mention, completed, matching, mentioned, scope_of
from tui.rows import NamedSource
from tui.screens.dialogs import Pick

if TYPE_CHECKING:
    from tui.screens.chat import ChatScreen

_EDITING = "editing an earlier question · Enter sends it on a new branch · Esc leaves it"


class Completion:
    """Shows what fits the text being written, and writes it out on Tab."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen
        self._names: list[NamedSource] | None = None

    def show(self, text: str) -> None:
        """Show what may be meant."""
        if self._screen.editing is not None:
            self._screen.hints.show_lines([_EDITING])
            return
        begun = begun_mention(self._before_cursor())
        if begun is not None:
            # The names may have changed since they were looked at; each new @ looks again.
            if not begun or self._names is None:
                self._fetch()
            self._show_names(begun)
            return
        found = completions(text)
        self._screen.hints.show_lines([f"{command.usage:<28} {command.summary}" for command in found])

    def complete(self) -> bool:
        """Write out what was begun; say whether anything was."""
        begun = begun_mention(self._before_cursor())
        if begun is not None:
            self._complete_name(begun)
            return True
        prompt = self._screen.prompt
        found = [command.name for command in completions(prompt.text)]
        if found:
            prompt.write(found[1] if prompt.text == found[0] and len(found) > 1 else found[0])
        return prompt.text.startswith("/")

    async def scope_of(self, text: str) -> DocumentScope:
        """Return the documents a question names; a name that means nothing beside one that does is refused.

        Raises:
            InvalidRequestError: names what is not there.
        """
        if not mentioned(text):
            return DocumentScope()
        self._names = await self._screen.session.library.names()
        scope, unknown = scope_of(text, self._names)
        named = ", ".join(f"@{name}" for name in unknown)
        if unknown and (scope.collections or scope.document_ids):
            raise InvalidRequestError(
                f"there is no document or collection {named}",
                hint="@ and Tab list them; F3 shows the library",
            )
        if unknown:
            self._screen.notify_plain(f"{named}: no document or collection is called so; sent as plain text")
        return scope

    def _show_names(self, begun: str) -> None:
        if self._names is None:
            self._screen.hints.show_lines(["looking at the library…"])
            return
        lines = [f"@{shown_cell(one.name, 40)} {one.kind}" for one in matching(begun, self._names)]
        self._screen.hints.show_lines(
            lines or ["no document or collection is called so · F3 adds some"], more="Tab lists them"
        )

    def _fetch(self) -> None:
        if self._screen.is_open:
            self._screen.fetch(self._screen.session.library.names(), self._take_names, group="names")

    def _take_names(self, names: list[NamedSource]) -> None:
        self._names = names
        begun = begun_mention(self._before_cursor())
        if begun is not None:
            self._show_names(begun)

    def _complete_name(self, begun: str) -> None:
        found = matching(begun, self._names or [])
        if len(found) == 1 or (found and begun):
            self._write_name(found[0])
        elif found:
            lines = [f"{one.name}  ({one.kind})" for one in found]

            def take(choice: int | None) -> None:
                if choice is not None:
                    self._write_name(found[choice])

            self._screen.app.push_screen(Pick("Ask which documents?", lines), take)

    def _write_name(self, source: NamedSource) -> None:
        prompt = self._screen.prompt
        before = self._before_cursor()
        after = prompt.text[len(before) :]
        written = completed(before, source)
        prompt.write(written + after.removeprefix(" "))
        prompt.move_cursor(_location(written))

    def _before_cursor(self) -> str:
        prompt = self._screen.prompt
        row, column = prompt.cursor_location
        lines = prompt.text.split("\n")
        return "\n".join([*lines[:row], lines[row][:column] if row < len(lines) else ""])


def _location(text: str) -> tuple[int, int]:
    lines = text.split("\n")
    return len(lines) - 1, len(lines[-1])
