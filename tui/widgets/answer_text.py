"""An answer's Markdown, shown without links, images, HTML or entities: everything stands as it was written."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock

from tui.widgets.answer_parts import MOST_BLOCKS, last_cut, parts_of, plain_parser
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
    """Some blocks of an answer."""

    def __init__(self, text: str = "") -> None:
        super().__init__(classes="answer-part")
        self.markdown = PlainMarkdown(text)

    def compose(self) -> ComposeResult:
        yield self.markdown


class AnswerText(Stretch):
    """An answer in parts, of which the last one grows. The text given must be clean."""

    def __init__(self, text: str = "") -> None:
        super().__init__(classes="answer-text stretches")
        self.parts = [AnswerPart(part) for part in parts_of(text)]

    def compose(self) -> ComposeResult:
        yield from self.parts

    async def append(self, text: str) -> None:
        """Write more at the end."""
        self.parts[-1].is_growing = True
        last = self.parts[-1].markdown
        cut = self._cut_in(text)
        if cut is None:
            await last.append(text)
            return
        if cut:
            await last.append(text[:cut])
        self.parts[-1].is_growing = False
        part = AnswerPart()
        part.is_growing = True
        self.parts.append(part)
        await self.mount(part)
        await part.markdown.append(text[cut:])

    def _cut_in(self, text: str) -> int | None:
        """Return where in the new text a part begins; None where the last one goes on."""
        last = self.parts[-1].markdown
        if len(last.children) < MOST_BLOCKS or not ("\n" in text or last.source.endswith("\n")):
            return None
        cut = last_cut(last.source + text) - len(last.source)
        return cut if cut >= 0 else None
