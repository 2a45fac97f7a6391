"""A stretch of a conversation whose inside is laid out only while it is near what the reader sees."""

from __future__ import annotations

from textual.containers import Vertical
from textual.geometry import NULL_SPACING, Region, Size
from textual.layout import DockArrangeResult
from textual.reactive import Reactive
from textual.strip import Strip


class Stretch(Vertical):
    """Far from the reader it is one empty box of the height it had: a layout costs what is near, not what is there."""

    # A box as high as its content never scrolls: another height of it asks for no second layout.
    virtual_size = Reactive(Size(0, 0))

    def __init__(self, *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self.is_near = True
        self.is_growing = False
        self._is_measuring = False
        self._measured: tuple[int, int, int] | None = None

    @property
    def _has_relative_children_height(self) -> bool:
        # Everything in a conversation is as high as it must be; asking every widget costs more than placing them.
        return False

    def set_near(self, is_near: bool) -> None:
        """Lay the inside out, or no longer."""
        if is_near == self.is_near:
            return
        self.is_near = is_near
        has_changed = self._measured is None or self._measured[1] != self._layout_updates
        self.refresh(layout=True)
        if self._measured is not None and not has_changed:
            self._measured = (self._measured[0], self._layout_updates, self._measured[2])

    def set_growing(self, is_growing: bool) -> None:
        """Say whether the inside goes on growing; meanwhile it is always laid out, and what it is in."""
        for stretch in self._with_outer():
            stretch.is_growing = is_growing
            stretch.set_near(is_growing or stretch.is_near)
        if not is_growing:
            for inner in self.query(Stretch):
                inner.is_growing = False

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height of the inside, measured only when something in it changed."""
        measured = self._measured
        if measured and measured[:2] == (width, self._layout_updates):
            return measured[2]
        self._is_measuring = True
        try:
            height = super().get_content_height(container, viewport, width)
        finally:
            self._is_measuring = False
        self._measured = (width, self._layout_updates, height)
        return height

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        """Place the inside; nothing is placed far away, except to learn its height."""
        if self.is_near or self._is_measuring:
            return super().arrange(size, optimal)
        return DockArrangeResult([], set(), NULL_SPACING)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw nothing unless it has a look of its own: what is behind shows, and no line is drawn to be covered."""
        return super().render_lines(crop) if self.has_focus else []

    def _with_outer(self) -> list[Stretch]:
        return [node for node in self.ancestors_with_self if isinstance(node, Stretch)]
