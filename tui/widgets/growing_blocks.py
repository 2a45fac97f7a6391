"""Blocks of Markdown that change in place while they are written: a whole layout only where a line more is needed."""

from __future__ import annotations

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.reactive import Reactive
from textual.widget import Widget
from textual.widgets import Label
from textual.widgets._markdown import (
    MarkdownBlock,
    MarkdownBullet,
    MarkdownBulletList,
    MarkdownFence,
    MarkdownOrderedList,
    MarkdownOrderedListItem,
    MarkdownParagraph,
    MarkdownUnorderedListItem,
)

from tui.widgets.copy_button import CopyButton

_AFTER_NUMBER = ". "


class Paragraph(MarkdownParagraph):
    """A paragraph that is laid out anew only when it needs another number of lines."""

    virtual_size = Reactive(Size(0, 0))
    _shape = (0, 0)

    def set_content(self, content: Content) -> None:
        """Show other text."""
        width = self.size.width if self.is_attached else 0
        shape = (width, content.get_height({}, width) if width else 0)
        self._content = content
        self.update(content, layout=not width or shape != self._shape)
        self._shape = shape

    async def take(self, block: MarkdownBlock) -> None:
        """Become another block."""
        await self._update_from_block(block)


class CodeBlock(MarkdownFence):
    """Code with a button that copies it; laid out anew only when it has another line, or a longer one."""

    _shape = (0, 0)

    def compose(self) -> ComposeResult:
        yield CopyButton(lambda: self.code)
        yield from super().compose()

    def set_content(self, content: Content) -> None:
        """Show other code."""
        lines = content.plain.split("\n")
        shape = (len(lines), max(self._shape[1], *(len(line) for line in lines)))
        self._content = content
        for label in self.query(Label):
            label.update(content, layout=shape != self._shape)
        self._shape = shape

    async def take(self, block: MarkdownBlock) -> None:
        """Become another block."""
        await self._update_from_block(block)


class BulletItem(MarkdownUnorderedListItem):
    """An item of a list, before the list is shown."""

    @property
    def blocks(self) -> list[MarkdownBlock]:
        """What the item holds."""
        return self._blocks


class NumberedItem(MarkdownOrderedListItem):
    """An item of a numbered list, before the list is shown."""

    @property
    def blocks(self) -> list[MarkdownBlock]:
        """What the item holds."""
        return self._blocks


class BulletList(MarkdownBulletList):
    """A list whose last item grows, and that gets more of them."""

    @property
    def items(self) -> list[BulletItem]:
        """The items, before the list is shown."""
        return [block for block in self._blocks if isinstance(block, BulletItem)]

    async def take(self, block: MarkdownBlock) -> None:
        """Become another block."""
        await self._update_from_block(block)

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if isinstance(block, BulletList):
            rows = [(item.bullet, item.blocks) for item in block.items]
            if await _grow(self, rows):
                return
        await super()._update_from_block(block)


class NumberedList(MarkdownOrderedList):
    """A numbered list whose last item grows, and that gets more of them."""

    @property
    def items(self) -> list[NumberedItem]:
        """The items, before the list is shown."""
        return [block for block in self._blocks if isinstance(block, NumberedItem)]

    async def take(self, block: MarkdownBlock) -> None:
        """Become another block."""
        await self._update_from_block(block)

    async def _update_from_block(self, block: MarkdownBlock) -> None:
        if isinstance(block, NumberedList) and block.items and block.items[0].bullet.isdecimal():
            first = int(block.items[0].bullet)
            numbers = [f"{number}{_AFTER_NUMBER}" for number in range(first, first + len(block.items))]
            width = max(len(number) for number in numbers) + 1
            rows = [
                (number.rjust(width), item.blocks) for number, item in zip(numbers, block.items, strict=True)
            ]
            if await _grow(self, rows):
                return
        await super()._update_from_block(block)


async def _grow(shown: Widget, rows: Sequence[tuple[str, list[MarkdownBlock]]]) -> bool:
    """Let a list that is shown become a longer one; False when it is no continuation."""
    lines = list(shown.children)
    if not lines or len(rows) < len(lines):
        return False
    bullets = [line.query(MarkdownBullet).first() for line in lines]
    if any(bullet.symbol != symbol for bullet, (symbol, _) in zip(bullets, rows, strict=False)):
        return False
    await _grow_item(lines[-1].query(Vertical).first(), rows[len(lines) - 1][1])
    for symbol, blocks in rows[len(lines) :]:
        bullet = MarkdownBullet()
        bullet.symbol = symbol
        await shown.mount(Horizontal(bullet, Vertical(*blocks)))
    return True


async def _grow_item(shown: Widget, blocks: Sequence[MarkdownBlock]) -> None:
    """Let the last block of an item grow, and add those that are new."""
    last = len(shown.children) - 1
    if last >= 0 and len(blocks) > last:
        old, new = shown.children[last], blocks[last]
        if type(old) is type(new) and isinstance(old, Paragraph | CodeBlock | BulletList | NumberedList):
            await old.take(new)
        else:
            await old.remove()
            await shown.mount(new)
    if more := blocks[last + 1 :]:
        await shown.mount_all(more)
