"""Render a conversation whose last turn is open: the prompt ends with what the assistant has written so far.

Two renderings tell where that turn's text begins. One is of the turns before it, and ends as the prompt of a new
answer does; behind it the model wrote the text, so it is what the KV cache holds. The other is of all turns with
a mark in place of the text, cut at the mark: whatever a template strips from a text or writes behind it, what
stands before the mark is how it opens such a turn. Mostly they are the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.core.errors import InvalidRequestError, ModelFileError
from appliance.core.messages import AssistantMessage, Message
from appliance.core.requests import ToolSpec
from appliance.engine.chat_template import ChatTemplate, PromptPiece
from appliance.engine.seam import without_owed

_AFTER_THINKING = "\n\n"


@dataclass(frozen=True, slots=True)
class OpenPrompt:
    """A rendered prompt in two parts: everything before the text of the open turn, and that text without the
    space at its end.
    """

    before: list[PromptPiece]
    text: list[PromptPiece]


@dataclass(frozen=True, slots=True)
class _Openings:
    """The ways to open the turn that the template offers; one of them may be missing."""

    as_new: list[PromptPiece] | None
    as_shown: list[PromptPiece] | None

    @property
    def usual(self) -> list[PromptPiece]:
        """The template's own form of such a turn, or that of a new one."""
        return (self.as_shown or []) if self.as_new is None else self.as_new

    def for_text(self, text: str) -> list[PromptPiece]:
        """Return the opening that a text without thinking stands behind, white space neither lost nor doubled."""
        if self.as_new is None or self.as_shown is None:
            return self.usual
        new, shown = text_of(self.as_new), text_of(self.as_shown)
        shorter, longer = sorted((new, shown), key=len)
        between = longer.removeprefix(shorter)
        if between == longer or between.strip():
            return self.as_shown
        wanted = shorter if text.startswith(between) else longer
        return self.as_new if new == wanted else self.as_shown


def render_open(
    template: ChatTemplate,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    tags: tuple[str, str] | None,
) -> OpenPrompt:
    """Render messages the last of which is an open turn of the assistant.

    Raises:
        InvalidRequestError: the template shows such a turn in no form.
    """
    last = messages[-1]
    assert isinstance(last, AssistantMessage)
    openings = _openings(template, messages, tools)
    text = template.pieces_of(without_owed(last))
    if tags is None or not last.reasoning:
        return OpenPrompt(openings.for_text(last.text), text)
    if openings.as_shown is not None and text_of(openings.as_shown).rstrip().endswith(tags[1]):
        return OpenPrompt(openings.as_shown, text)
    before = openings.usual
    opening = [] if text_of(before).rstrip().endswith(tags[0]) else [PromptPiece(tags[0], is_literal=False)]
    closing = PromptPiece(tags[1] + _AFTER_THINKING, is_literal=False)
    return OpenPrompt([*before, *opening, *template.pieces_of(last.reasoning), closing], text)


def text_of(pieces: Sequence[PromptPiece]) -> str:
    """Return the text that pieces make."""
    return "".join(piece.text for piece in pieces)


def _openings(template: ChatTemplate, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> _Openings:
    mark = f"xo{secrets.token_hex(8)}x"
    marked = (*messages[:-1], replace(messages[-1], text=mark))
    as_new = _attempted(lambda: template.render(messages[:-1], tools))
    as_shown = _attempted(lambda: template.render(marked, tools, opens_turn=False))
    if isinstance(as_new, Exception) and isinstance(as_shown, Exception):
        raise _cannot_show(as_shown.message) from as_shown
    shown = None if isinstance(as_shown, Exception) else _cut(as_shown, mark)
    new = None if isinstance(as_new, Exception) else as_new
    if new is None and shown is None:
        raise _cannot_show("it leaves the turn's text out, or repeats it")
    return _Openings(new, shown)


def _attempted(
    render: Callable[[], list[PromptPiece]],
) -> list[PromptPiece] | InvalidRequestError | ModelFileError:
    try:
        return render()
    except (InvalidRequestError, ModelFileError) as exc:
        return exc


def _cut(pieces: Sequence[PromptPiece], mark: str) -> list[PromptPiece] | None:
    """Return what stands before the mark; None where it does not stand there once."""
    if text_of(pieces).count(mark) != 1:
        return None
    place = next(place for place, piece in enumerate(pieces) if mark in piece.text)
    rest = pieces[place].text.partition(mark)[0]
    return [*pieces[:place], *([PromptPiece(rest, is_literal=False)] if rest else [])]


def _cannot_show(why: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"the model's chat template cannot show a turn that goes on: {why}",
        hint="ask for a new turn instead, or give another template with `chat_template` in the model card",
    )
