"""An answer's Markdown, shown without links, images, HTML or entities: everything stands as it was written."""

from __future__ import annotations

from markdown_it import MarkdownIt
from textual.app import ComposeResult
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownBlock, MarkdownFence

from tui.widgets.copy_button import CopyButton

# Each would hide text of the answer: where a link leads, a definition, a tag, the name of a character.
_HIDING_RULES = ["link", "image", "autolink", "linkify", "html_inline", "entity", "html_block", "reference"]


def plain_parser() -> MarkdownIt:
    """Return a parser of Markdown that leaves nothing out."""
    return MarkdownIt("gfm-like", {"html": False, "linkify": False}).disable(
        _HIDING_RULES, ignoreInvalid=True
    )


class CodeBlock(MarkdownFence):
    """Code with a button that copies it."""

    def compose(self) -> ComposeResult:
        yield CopyButton(lambda: self.code)
        yield from super().compose()


class AnswerText(Markdown):
    """Markdown of a model. The text given must be clean."""

    def __init__(self, text: str = "") -> None:
        super().__init__(text, parser_factory=plain_parser, open_links=False)

    def get_block_class(self, block_name: str) -> type[MarkdownBlock]:
        """Return what shows a block; code has a button that copies it."""
        return CodeBlock if block_name in ("fence", "code_block") else super().get_block_class(block_name)
