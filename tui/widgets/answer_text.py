"""An answer's Markdown, shown without links, images, HTML or entities: everything stands as it was written."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from tui.widgets.answer_parts import MOST_BLOCKS, parts_of, plain_parser
from tui.widgets.growing_blocks import (
    BulletItem,
    BulletList,
    CodeBlock,
    NumberedItem,
    NumberedList,
    Paragraph,
)
from tui.widgets.stretch import Stretch

_BLOCKS: dict[str, type[MarkdownBlock]] = {
    "paragraph_open": Paragraph,
    "fence": CodeBlock,
    "code_block": CodeBlock,
    "bullet_list_open": BulletList,
    "list_item_unordered_open": BulletItem,
    "ordered_list_open": NumberedList,
    "list_item_ordered_open": NumberedItem,
}


class PlainMarkdown(Markdown):
    """Markdown of a model."""

    virtual_size = Reactive(Size(0, 0))

    def __init__(self, text: str) -> None:
        super().__init__(text or None, parser_factory=plain_parser, open_links=False)

    def get_block_class(self, block_name: str) -> type[MarkdownBlock]:
        """Return what shows a block."""
        return _BLOCKS.get(block_name) or super().get_block_class(block_name)


class AnswerPart(Stretch):
    """Some blocks of an answer. Far from the reader only their source is kept: widgets are large, and many."""

    def __init__(self, text: str = "") -> None:
        super().__init__(classes="answer-part")
        self.markdown = PlainMarkdown(text)
        self._is_changing = False

    def compose(self) -> ComposeResult:
        yield self.markdown

    def set_near(self, is_near: bool) -> None:
        """Lay the inside out, or let it go."""
        has_changed = is_near != self.is_near
        super().set_near(is_near)
        if has_changed and not self._is_changing and self.is_attached:
            self._is_changing = True
            self.call_later(self._fill_or_empty)

    async def _fill_or_empty(self) -> None:
        try:
            # The reader may turn round meanwhile.
            while self.is_attached and self.is_near != bool(self.children):
                if self.is_near:
                    await self.mount(self.markdown)
                    self.is_hollow = False
                    self.refresh(layout=True)
                else:
                    self.is_hollow = True
                    shown, self.markdown = self.markdown, PlainMarkdown(self.markdown.source)
                    await shown.remove()
        finally:
            self._is_changing = False


class AnswerText(Stretch):
    """An answer in parts, of which the last one grows. The text given must be clean."""

    def __init__(self, text: str = "") -> None:
        super().__init__(classes="answer-text stretches")
        self.parts = [AnswerPart(part) for part in parts_of(text)]

    def compose(self) -> ComposeResult:
        yield from self.parts

    async def append(self, text: str) -> None:
        """Write more at the end."""
        last = self.parts[-1]
        last.is_growing = True
        first, *more = self._pieces(last.markdown, text)
        if first:
            await last.markdown.append(first)
        for piece in more:
            self.parts[-1].is_growing = False
            part = AnswerPart()
            part.is_growing = True
            self.parts.append(part)
            await self.mount(part)
            await part.markdown.append(piece)

    def _pieces(self, last: PlainMarkdown, text: str) -> list[str]:
        """Cut new text into what goes on in the last part and what begins others."""
        source = last.source
        blocks = len(last.children) + text.count("\n\n")
        if blocks < MOST_BLOCKS or not ("\n" in text or source.endswith("\n")):
            return [text]
        whole, *more = parts_of(source + text, after=len(source))
        return [whole[len(source) :], *more]
