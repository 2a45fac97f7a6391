"""Rich Text Format: text with its code pages, paragraphs, tables and hidden runs."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace

from appliance.documents.builder import DocumentBuilder
from appliance.documents.readers.source import Source
from appliance.documents.reasons import RefusalError
from appliance.documents.versions import reader_label

_TOKEN = re.compile(
    rb"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-f]{2})|\\([^a-z'])|([{}])|[\r\n]+|([^\\{}\r\n]+)|\\", re.I
)
_SKIPPED = frozenset(
    b"fonttbl colortbl stylesheet info pict object themedata datastore listtable listoverridetable rsidtbl "
    b"generator xmlnstbl latentstyles fldinst bkmkstart bkmkend mmathPr wgrffmtfilter pgptbl revtbl "
    b"header headerl headerr headerf footer footerl footerr footerf template passwordhash upr".split()
)
_CHARACTERS = {
    b"tab": "\t", b"line": "\n", b"emdash": "—", b"endash": "–", b"lquote": "‘", b"rquote": "’",
    b"ldblquote": "“", b"rdblquote": "”", b"bullet": "•", b"emspace": " ", b"enspace": " ",
}  # fmt: skip
_SYMBOLS = {b"~": "\xa0", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}", b"-": "", b"\n": "\n", b"\r": "\n"}
_CODE_PAGES = {
    0: "cp1252", 77: "mac_roman", 128: "cp932", 129: "cp949", 134: "gb18030", 136: "cp950", 161: "cp1253",
    162: "cp1254", 163: "cp1258", 177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874",
    238: "cp1250",
}  # fmt: skip
_FONT = re.compile(rb"\{\\f(\d+)([^{}]*)")
_FONT_CHARSET = re.compile(rb"\\fcharset(\d+)")
_MAX_DEPTH = 1_000


@dataclass(frozen=True, slots=True)
class _State:
    skips: bool = False
    is_hidden: bool = False
    unicode_skip: int = 1
    code_page: str = "cp1252"
    level: int = 0
    in_table: bool = False


@dataclass(kw_only=True)
class _Reader:
    builder: DocumentBuilder
    fonts: dict[int, str]
    code_page: str = "cp1252"
    state: _State = field(default_factory=_State)
    stack: list[_State] = field(default_factory=list)
    pending: bytearray = field(default_factory=bytearray)
    visible: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    cells: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    to_skip: int = 0
    is_starred: bool = False

    def take(self, match: re.Match[bytes]) -> None:
        word, number, byte, symbol, brace, plain = match.groups()
        if brace:
            self.brace(brace)
        elif byte:
            self.raw(bytes([int(byte, 16)]))
        elif plain:
            self.raw(plain)
        elif symbol == b"*":
            self.is_starred = True
        elif symbol:
            self.text(_SYMBOLS.get(symbol, ""))
        elif word:
            self.word(word, int(number) if number else None)

    def brace(self, brace: bytes) -> None:
        self.flush_bytes()
        self.to_skip = 0
        if brace == b"{":
            if len(self.stack) > _MAX_DEPTH:
                raise RefusalError("too_deep", f"its groups are nested more than {_MAX_DEPTH} deep")
            self.stack.append(self.state)
        elif self.stack:
            self.state = self.stack.pop()

    def raw(self, data: bytes) -> None:
        if self.to_skip:
            skipped = min(self.to_skip, len(data))
            self.to_skip -= skipped
            data = data[skipped:]
        if data and not self.state.skips:
            self.pending += data

    def text(self, text: str) -> None:
        self.flush_bytes()
        if not self.state.skips and text:
            (self.hidden if self.state.is_hidden else self.visible).append(text)

    def flush_bytes(self) -> None:
        if self.pending:
            data, self.pending = bytes(self.pending), bytearray()
            self.text(data.decode(self.state.code_page, "replace"))

    def word(self, word: bytes, number: int | None) -> None:
        self.flush_bytes()
        is_starred, self.is_starred = self.is_starred, False
        if word in _SKIPPED or (
            is_starred and word not in (b"shptxt", b"shpinst", b"fldrslt", b"nesttableprops")
        ):
            self.state = replace(self.state, skips=True)
        elif word == b"u" and number is not None:
            self.text(_unicode(number))
            self.to_skip = self.state.unicode_skip
        elif word in _CHARACTERS:
            self.text(_CHARACTERS[word])
        elif word in (b"par", b"sect", b"page", b"row", b"cell", b"nestcell", b"nestrow"):
            self.break_at(word)
        else:
            self.set_property(word, number)

    def set_property(self, word: bytes, number: int | None) -> None:
        state = self.state
        if word == b"pard":
            self.state = replace(state, level=0, in_table=False)
        elif word == b"plain":
            self.state = replace(state, is_hidden=False, code_page=self.code_page)
        elif word == b"v":
            self.state = replace(state, is_hidden=number != 0)
        elif word == b"intbl":
            self.state = replace(state, in_table=True)
        elif word == b"outlinelevel" and number is not None:
            self.state = replace(state, level=number + 1 if number < 6 else 0)
        elif word == b"uc" and number is not None:
            self.state = replace(state, unicode_skip=max(0, min(number, 16)))
        elif word == b"f" and number in self.fonts:
            self.state = replace(state, code_page=self.fonts[number])
        elif word == b"ansicpg" and number is not None:
            self.code_page = _known(f"cp{number}")
            self.state = replace(state, code_page=self.code_page)

    def break_at(self, word: bytes) -> None:
        if self.state.skips:
            return
        if word in (b"cell", b"nestcell"):
            self.cells.append("".join(self.visible).strip())
            self.visible.clear()
        elif word in (b"row", b"nestrow"):
            self.rows.append(self.cells)
            self.cells = []
        elif self.state.in_table:
            self.visible.append("\n")
        else:
            self.end_paragraph()

    def end_paragraph(self) -> None:
        if self.rows:
            self.builder.table(self.rows)
            self.rows = []
        text, hidden = "".join(self.visible), "".join(self.hidden)
        self.visible.clear()
        self.hidden.clear()
        if self.state.level:
            self.builder.heading(text, self.state.level)
        else:
            self.builder.paragraph(text)
        self.builder.paragraph(hidden, "hidden_style")


def read_rtf(source: Source, builder: DocumentBuilder) -> str:
    """Read an RTF file."""
    data = bytes(source.data)
    builder.begin_segment("section", "")
    reader = _Reader(builder=builder, fonts=_fonts(data))
    position = 0
    while match := _TOKEN.search(data, position):
        position = match.end()
        if match.group(1) == b"bin":
            position += max(0, int(match.group(2) or 0))
        else:
            reader.take(match)
    reader.flush_bytes()
    if reader.cells:
        reader.rows.append(reader.cells)
    reader.end_paragraph()
    return reader_label("rtf")


def _fonts(data: bytes) -> dict[int, str]:
    found: dict[int, str] = {}
    for number, rest in _FONT.findall(data[: 1 << 20]):
        charset = _FONT_CHARSET.search(rest)
        if charset:
            found[int(number)] = _CODE_PAGES.get(int(charset.group(1)), "cp1252")
    return found


def _known(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        return "cp1252"


def _unicode(number: int) -> str:
    code = number + 65_536 if number < 0 else number
    return chr(code) if 0 < code < 0x110000 else ""
