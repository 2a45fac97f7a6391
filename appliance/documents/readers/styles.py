"""What CSS hides: inline declarations, and the simple selectors of style sheets inside a page."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from appliance.documents.model import HiddenCause

_RULE = re.compile(r"([^{}]{1,2000})\{([^{}]{0,4000})\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_SIMPLE_SELECTOR = re.compile(r"[.#]?[A-Za-z_][\w-]*")
_WHITE = re.compile(r"(?:^|;)color:(?:white|#fff(?:fff)?|rgba?\(255,255,255(?:,1)?\))(?:!important)?(?:;|$)")
_CAUSES: tuple[tuple[re.Pattern[str], HiddenCause], ...] = (
    (
        re.compile(r"display:none|visibility:hidden|(?:^|;)opacity:0?\.?0*(?:!important)?(?:;|$)"),
        "hidden_style",
    ),
    (re.compile(r"mso-hide:all|(?:^|;)(?:max-)?height:0(?:px)?(?:;|$).*overflow:hidden"), "hidden_style"),
    (re.compile(r"(?:^|;)font-size:(?:0|0?\.\d+|1)(?:px|pt|em|rem|%)?(?:!important)?(?:;|$)"), "tiny_text"),
    (re.compile(r"(?:^|;)(?:left|top|text-indent|margin-left):-\d{3,}"), "off_page"),
)
_ONE_EM = re.compile(r"font-size:1(?:em|rem)")
_MAX_SHEET_CHARS = 2_000_000


@dataclass(kw_only=True)
class Styles:
    """The hiding rules of one page."""

    by_selector: dict[str, HiddenCause] = field(default_factory=dict)
    has_background: bool = False

    def add_sheet(self, sheet: str) -> None:
        """Take in a style sheet; only `tag`, `.class` and `#id` selectors are understood."""
        sheet = _COMMENT.sub("", sheet[:_MAX_SHEET_CHARS])
        self.has_background = self.has_background or "background" in sheet
        for selectors, declarations in _RULE.findall(sheet):
            cause = self._judge(declarations)
            if cause is None:
                continue
            for selector in selectors.split(","):
                if _SIMPLE_SELECTOR.fullmatch(selector.strip()):
                    self.by_selector[selector.strip()] = cause

    def cause(self, tag: str, attributes: dict[str, str]) -> HiddenCause | None:
        """Why an element is hidden, or `None`."""
        if "hidden" in attributes:
            return "hidden_style"
        style = attributes.get("style", "")
        if style:
            self.has_background = self.has_background or "background" in style
            cause = self._judge(style)
            if cause is not None:
                return cause
        if not self.by_selector:
            return None
        names = [tag, "#" + attributes.get("id", "")]
        names += ["." + name for name in attributes.get("class", "").split()]
        return next((self.by_selector[name] for name in names if name in self.by_selector), None)

    def _judge(self, declarations: str) -> HiddenCause | None:
        compact = re.sub(r"\s+", "", declarations.lower())
        for pattern, cause in _CAUSES:
            if pattern.search(compact) and not (cause == "tiny_text" and _ONE_EM.search(compact)):
                return cause
        if not self.has_background and _WHITE.search(compact):
            return "white_text"
        return None
