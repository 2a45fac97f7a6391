"""What a container draws where nothing else is: one line of its background, the same for each row."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def blank_lines(widget: Widget, crop: Region) -> list[Strip]:
    """Return rows of background, without looking at borders and padding, of which there must be none."""
    background = widget.background_colors[1]
    strip = Strip.blank(crop.width, widget.visual_style.rich_style)
    for line_filter in widget.get_line_filters():
        strip = strip.apply_filter(line_filter, background)
    return [strip] * crop.height
