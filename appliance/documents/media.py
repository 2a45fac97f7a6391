"""What a file is, by its content; its name only decides between kinds of plain text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Literal

from appliance.documents.archive import Archive
from appliance.documents.reasons import RefusalError

Format = Literal[
    "pdf", "docx", "pptx", "xlsx", "opendocument", "epub", "html", "mail", "mbox", "rtf",
    "csv", "markdown", "code", "text", "picture", "locked_office", "unsupported",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Media:
    """The format that picks the reader, the media type, and the language of source code."""

    format: Format
    media_type: str
    language: str = ""


_OFFICE = "application/vnd.openxmlformats-officedocument."
_ZIP_MEDIA: Mapping[str, Media] = {
    "word/": Media(format="docx", media_type=_OFFICE + "wordprocessingml.document"),
    "ppt/": Media(format="pptx", media_type=_OFFICE + "presentationml.presentation"),
    "xl/": Media(format="xlsx", media_type=_OFFICE + "spreadsheetml.sheet"),
}
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"BM", "image/bmp"),
)
_KNOWN_UNSUPPORTED = (
    (b"\x1f\x8b", "application/gzip"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"(\xb5/\xfd", "application/zstd"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!", "application/vnd.rar"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-dosexec"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"GGUF", "application/x-gguf"),
    (b"%!PS", "application/postscript"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"RIFF", "application/x-riff"),
    (b"PAR1", "application/vnd.apache.parquet"),
)
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS = (
    ("EncryptedPackage", "locked_office", "application/x-encrypted-office"),
    ("WordDocument", "unsupported", "application/msword"),
    ("Workbook", "unsupported", "application/vnd.ms-excel"),
    ("PowerPoint Document", "unsupported", "application/vnd.ms-powerpoint"),
    ("__properties_version1.0", "unsupported", "application/vnd.ms-outlook"),
)
_LANGUAGES = {
    ".py": "python", ".pyi": "python", ".js": "javascript", ".mjs": "javascript", ".cjs": "javascript",
    ".jsx": "javascript", ".ts": "typescript", ".tsx": "typescript", ".java": "java", ".kt": "kotlin",
    ".c": "c", ".h": "c", ".cc": "cpp", ".cpp": "cpp", ".cxx": "cpp", ".hpp": "cpp", ".hh": "cpp",
    ".cs": "csharp", ".go": "go", ".rs": "rust", ".rb": "ruby", ".php": "php", ".swift": "swift",
    ".scala": "scala", ".sh": "shell", ".bash": "shell", ".zsh": "shell", ".ps1": "powershell",
    ".pl": "perl", ".lua": "lua", ".r": "r", ".jl": "julia", ".dart": "dart", ".ex": "elixir",
    ".erl": "erlang", ".hs": "haskell", ".clj": "clojure", ".sql": "sql", ".css": "css", ".scss": "scss",
    ".json": "json", ".jsonl": "json", ".ndjson": "json", ".yaml": "yaml", ".yml": "yaml",
    ".toml": "toml", ".ini": "ini", ".cfg": "ini", ".xml": "xml", ".svg": "xml", ".proto": "protobuf",
    ".tf": "terraform", ".mk": "makefile", ".cmake": "cmake", ".vue": "vue", ".graphql": "graphql",
}  # fmt: skip
_NAMED_CODE = {"makefile": "makefile", "dockerfile": "dockerfile", "cmakelists.txt": "cmake"}
_HTML_START = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.I | re.S)
_XML_START = re.compile(rb"\s*<\?xml\b", re.I)
_HTML_ROOT = re.compile(rb"<(?:html|!doctype\s+html)\b", re.I)
_MAIL_FIELD = re.compile(
    rb"^(?:from|to|subject|date|received|return-path|delivered-to|message-id|mime-version|reply-to|cc|"
    rb"content-type|x-[a-z-]+):", re.I | re.M,
)  # fmt: skip
_HEADER_LINE = re.compile(rb"[!-9;-~]+:[^\n]*\n|[ \t][^\n]*\n")
_SAMPLE_BYTES = 4096


def sniff(data: bytes | memoryview, name: str, archive: Archive | None) -> Media:
    """Name the format of a file from its bytes. `archive` is given when it is a ZIP file."""
    head = bytes(data[:_SAMPLE_BYTES])
    if archive is not None:
        return _sniff_archive(archive)
    if head.startswith(_OLE_MAGIC):
        return _sniff_compound(bytes(data))
    if b"%PDF-" in head[:1024]:
        return Media(format="pdf", media_type="application/pdf")
    if head.lstrip().startswith(b"{\\rtf"):
        return Media(format="rtf", media_type="application/rtf")
    picture = _picture_type(head)
    if picture:
        return Media(format="picture", media_type=picture)
    if _looks_like_text(head):
        return _sniff_text(head, name)
    for magic, media_type in _KNOWN_UNSUPPORTED:
        if head.startswith(magic):
            return Media(format="unsupported", media_type=media_type)
    return Media(format="unsupported", media_type="application/octet-stream")


def is_zip(data: bytes | memoryview) -> bool:
    """Whether bytes begin like a ZIP file."""
    return bytes(data[:4]) in (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")


def _picture_type(head: bytes) -> str:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    found = (media_type for magic, media_type in _PICTURES if head.startswith(magic))
    return "" if head.startswith(b"BM") and b"\x00" not in head else next(found, "")


def _sniff_archive(archive: Archive) -> Media:
    if "mimetype" in archive and archive.size("mimetype") < 200:
        media_type = archive.read("mimetype").decode("ascii", "replace").strip()
        if media_type == "application/epub+zip":
            return Media(format="epub", media_type=media_type)
        if media_type.startswith("application/vnd.oasis.opendocument."):
            return Media(format="opendocument", media_type=media_type)
    if "META-INF/container.xml" in archive:
        return Media(format="epub", media_type="application/epub+zip")
    for folder, media in _ZIP_MEDIA.items():
        if any(name.startswith(folder) for name in archive.names):
            return media
    return Media(format="unsupported", media_type="application/zip")


def _sniff_compound(data: bytes) -> Media:
    for stream, format_name, media_type in _OLE_STREAMS:
        if stream.encode("utf-16-le") in data:
            kind: Format = "locked_office" if format_name == "locked_office" else "unsupported"
            return Media(format=kind, media_type=media_type)
    return Media(format="unsupported", media_type="application/x-ole-storage")


def _looks_like_text(head: bytes) -> bool:
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")):
        return True
    zeros = head.count(0)
    if zeros:
        half = max(1, len(head) // 2)
        return max(head[0::2].count(0), head[1::2].count(0)) > 0.6 * half and zeros < 1.2 * half
    controls = sum(1 for byte in head if byte < 32 and byte not in b"\t\n\r\f\v\b\x1b")
    return controls <= len(head) * 0.02 or _is_utf8(head, controls)


def _is_utf8(head: bytes, controls: int) -> bool:
    """Valid UTF-8 is text even with a few control characters in it: a terminal's log, for one."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(head)
    except UnicodeDecodeError:
        return False
    return controls <= len(head) * 0.3


def _sniff_text(head: bytes, name: str) -> Media:
    plain = head.replace(b"\x00", b"")
    path = PurePath(name.lower())
    suffix = path.suffix
    markup = _sniff_markup(plain, suffix)
    if markup is not None:
        return markup
    if plain.startswith(b"From ") and (suffix == ".mbox" or _MAIL_FIELD.search(plain)):
        return Media(format="mbox", media_type="application/mbox")
    if suffix in (".eml", ".mht", ".mhtml") or _is_mail(plain):
        return Media(format="mail", media_type="message/rfc822")
    if suffix in (".csv", ".tsv", ".tab"):
        return Media(format="csv", media_type="text/tab-separated-values" if suffix != ".csv" else "text/csv")
    if suffix in (".md", ".markdown", ".mdx", ".mdown"):
        return Media(format="markdown", media_type="text/markdown")
    language = _LANGUAGES.get(suffix) or _NAMED_CODE.get(path.name) or _interpreter(plain)
    if language:
        return Media(format="code", media_type=f"text/x-{language}", language=language)
    return Media(format="text", media_type="text/plain")


def _sniff_markup(head: bytes, suffix: str) -> Media | None:
    is_named_html = suffix in (".html", ".htm", ".xhtml", ".xht")
    if is_named_html or _HTML_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return Media(format="html", media_type="text/html")
    if _XML_START.match(head) and _HTML_ROOT.search(head):
        return Media(format="html", media_type="application/xhtml+xml")
    return None


def _is_mail(head: bytes) -> bool:
    """Mail starts with header lines, two of them of the names mail uses."""
    position, lines = 0, 0
    head = head.replace(b"\r\n", b"\n")
    while match := _HEADER_LINE.match(head, position):
        position, lines = match.end(), lines + 1
    names = {match.group(0).lower() for match in _MAIL_FIELD.finditer(head[:position])}
    return lines >= 2 and len(names) >= 2 and bool(names & {b"from:", b"received:", b"message-id:"})


def _interpreter(head: bytes) -> str:
    first_line = head.split(b"\n", 1)[0]
    if not first_line.startswith(b"#!"):
        return ""
    for name, language in (
        (b"python", "python"),
        (b"node", "javascript"),
        (b"perl", "perl"),
        (b"ruby", "ruby"),
    ):
        if name in first_line:
            return language
    return "shell" if b"sh" in first_line else ""


def refuse_unsupported(media: Media) -> RefusalError:
    """The refusal of a format that no reader takes."""
    return RefusalError("unsupported", f"no reader for {media.media_type}")
