"""Imports what the first answer needs while nobody waits for it; the first block of code would stop the screen."""

from __future__ import annotations


def prepare_answers() -> None:
    """Import what shows Markdown and colours code."""
    from tui.widgets.answer_parts import Part
    from tui.widgets.markdown_rows import lay_out

    lay_out(Part(source="# Warm\n\n- *a*\n\n| a |\n|---|\n| b |\n\n```python\ndef f(): ...\n```\n"), 80)
