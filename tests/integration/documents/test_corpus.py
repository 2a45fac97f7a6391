"""The corpus of odd files: each ends with the text it holds or with the reason it holds none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.core.errors import DocumentError
from appliance.documents.model import ParsedDocument, check_document
from appliance.documents.parser import DocumentParser

Outcome = tuple[str, str]
TEXT = "text"

# File, then the reason, or `text` and words that its visible text holds.
EXPECTED: dict[str, Outcome] = {
    "public/pdfjs__issue3371.pdf": ("encrypted", ""),
    "public/pdfjs__saslprep-r6.pdf": ("encrypted", ""),
    "public/pypdf__libreoffice-writer-password.pdf": ("encrypted", ""),
    "public/opf__encryption_notextaccess.pdf": (TEXT, "This is a test document."),
    "public/tika__testUnicodePassword.pdf": ("encrypted", ""),
    "public/poi__protected_agile.docx": ("encrypted", ""),
    "public/tika__testPPT_protected_passtika.pptx": ("encrypted", ""),
    "public/pdfjs__bomb_giant.pdf": (TEXT, "GIANT JBIG2 BOMB"),
    "public/poi__poc-shared-strings.xlsx": ("too_much_text", ""),
    "own/own_docx_billion_laughs.docx": ("forbidden_content", ""),
    "own/own_pdf_flate_bomb.pdf": (TEXT, "KEEP-P5"),
    "public/pdfjs__issue6961.pdf": (TEXT, "Page 1"),
    "public/poi__57893-many-merges.xlsx": ("no_text", ""),
    "public/pdfjs__poppler-742-0-fuzzed.pdf": ("damaged", ""),
    "public/pdfjs__GHOSTSCRIPT-698804-1-fuzzed.pdf": ("no_text", ""),
    "public/pdfjs__REDHAT-1531897-0.pdf": ("damaged", ""),
    "public/opf__corruptionOneByteMissing.pdf": (TEXT, "This is a test document."),
    "public/opf__T02-05-01_015_invalid-stream-length-in-dictionary.pdf": (TEXT, "Hello PDF-world!"),
    "public/artur__corrupted.pdf": ("damaged", ""),
    "public/poi__xlsx-corrupted.xlsx": ("damaged", ""),
    "public/mail__raw_email_with_illegal_boundary.eml": (TEXT, "Testing outlook"),
    "public/pdfjs__Pages-tree-refs.pdf": (TEXT, "Pages loop"),
    "public/opf__T02-02_002_page-tree-kids-links-recursive.pdf": ("damaged", ""),
    "public/pdfjs__ArabicCIDTrueType.pdf": (TEXT, "انواع الخطوط العربية"),
    "public/epub__regime-anticancer-arabic.epub": (TEXT, "السرطان"),
    "public/pdfjs__90ms_rksj_h_sample.pdf": (TEXT, "日本語テスト"),
    "public/mail__japanese_iso_2022.eml": (TEXT, "すみません。"),
    "public/tika__testRTFJapanese.rtf": (TEXT, "ゾルゲと尾崎、淡々と最期"),
    "public/pdfjs__hello_world_rotated.pdf": (TEXT, "Hello world"),
    "public/pdfjs__160F-2019.pdf": (TEXT, "identification national"),
    "public/pdfjs__evaljs.pdf": (TEXT, "List Box7"),
    "public/tika__testDdeLink.xlsx": (TEXT, "1"),
    "own/own_pdf_javascript_open_action.pdf": (TEXT, "KEEP-P4"),
    "own/own_eml_beacon.eml": (TEXT, "KEEP-E1"),
    "public/pypdf__habibi-rotated.pdf": (TEXT, "habibi"),
    "public/opf__fileAttachment.pdf": (TEXT, "It contains a file attachment."),
    "public/opf__externalLink.pdf": (TEXT, "link to another docum"),
    "public/tika__testAttachedTemplate.docx": (TEXT, "external attached template"),
    "public/tika__testPDF_incrementalUpdates.pdf": (TEXT, "Testing Incremental"),
    "public/poi__clusterfuzz-testcase-minimized-POIXWPFFuzzer-6442791109263360.docx": ("damaged", ""),
    "public/poi__clusterfuzz-testcase-minimized-POIXSSFFuzzer-5265527465181184.xlsx": ("damaged", ""),
    "public/poi__clusterfuzz-testcase-minimized-POIXSLFFuzzer-6254434927378432.pptx": ("damaged", ""),
    "own/own_pdf_truncated.pdf": ("damaged", ""),
    "public/tika__test_recursive_embedded.docx": (TEXT, "embed_0"),
    "public/poi__xxe_in_schema.xlsx": (TEXT, "/Test/Test"),
    "public/tika__testEXCEL_big_numbers.xlsx": (TEXT, "123456789012345\t123456789012346"),
    "public/tika__testArabicMisleadingCharset.html": (TEXT, "قرية من القرى"),
    "public/tika__testHTML_charset_utf16le.html": (TEXT, "This is a sample text"),
    "public/mail__utf8_headers.eml": (TEXT, "Säying Hello"),
    "own/own_html_wrong_charset.html": (TEXT, "KEEP-H3 Zürich 東京 שלום العربية"),
    "public/mail__raw_email_encoded_stack_level_too_deep.eml": (TEXT, "Nicolas Fouché"),
    "own/own_html_deep.html": (TEXT, "KEEP-H2"),
    "public/tika__testMBOX_complex.mbox": (TEXT, "hey@example.com"),
    "own/own_docx_hidden_injection.docx": (TEXT, "KEEP-D1"),
    "own/own_docx_zip_slip.docx": (TEXT, "KEEP-D4"),
    "own/own_pdf_5000_pages.pdf": (TEXT, "KEEP-P2-4999 page 4999"),
    "own/own_txt_terminal.txt": (TEXT, "KEEP-T2"),
    "own/own_txt_long_line.txt": (TEXT, "KEEP-T4"),
    "own/own_epub_traversal.epub": ("no_text", ""),
    "own/own_bidi_name\u202efdp.txt": (TEXT, "KEEP-N1"),
}
WITH_PASSWORD = {
    "public/pdfjs__saslprep-r6.pdf": "Hello pdf.js world",
    "public/pypdf__libreoffice-writer-password.pdf": "Lorem ipsum",
    "public/tika__testPPT_protected_passtika.pptx": "This is an encrypted PowerPoint 2007 slide.",
}


@pytest.fixture(scope="module")
def parser() -> Iterator[DocumentParser]:
    with DocumentParser() as one:
        yield one


@pytest.fixture
def corpus(shared_data: Path) -> Path:
    return shared_data / "corpus"


def visible(document: ParsedDocument) -> str:
    return "\n".join(document.text_of(block) for block in document.visible_blocks())


@pytest.mark.parametrize("file, expected", EXPECTED.items(), ids=list(EXPECTED))
def test_a_file_ends_with_its_text_or_the_reason(
    file: str, expected: Outcome, parser: DocumentParser, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    outcome = expected[0]

    if outcome == TEXT:
        document = parser.parse(corpus / file)
        check_document(document)
        assert expected[1] in visible(document)
        assert "root:" not in document.text
        assert not any(word in visible(document) for word in ("DROP-D1a", "DROP-D1b"))
        return
    with pytest.raises(DocumentError) as caught:
        parser.parse(corpus / file)
    assert caught.value.reason == outcome


@pytest.mark.parametrize("file, words", WITH_PASSWORD.items(), ids=list(WITH_PASSWORD))
def test_a_password_opens_a_locked_file(file: str, words: str, parser: DocumentParser, corpus: Path) -> None:
    index = json.loads((corpus / "index.json").read_text())
    password = next(entry["password"] for entry in index if entry["file"] == file)

    assert words in visible(parser.parse(corpus / file, password=password))


def test_the_last_of_5000_pages_knows_its_number(parser: DocumentParser, corpus: Path) -> None:
    progress: list[tuple[int, int]] = []

    document = parser.parse(
        corpus / "own/own_pdf_5000_pages.pdf", on_progress=lambda done, total: progress.append((done, total))
    )

    assert document.page_count == 5000
    assert document.segment_at(document.text.index("KEEP-P2-4999")).number == 5000
    assert progress[-1] == (5000, 5000)
    assert len(progress) > 100


def test_what_was_told_is_noted(parser: DocumentParser, corpus: Path) -> None:
    expected = {
        "public/opf__encryption_notextaccess.pdf": "copying_restricted",
        "public/tika__testAttachedTemplate.docx": "external_reference",
        "own/own_html_wrong_charset.html": "encoding_mismatch",
        "own/own_docx_hidden_injection.docx": "hidden_text",
        "public/pdfjs__Pages-tree-refs.pdf": "pages_without_text",
    }

    noted = {file: {notice.kind for notice in parser.parse(corpus / file).notices} for file in expected}

    assert {file for file, kind in expected.items() if kind not in noted[file]} == set()


def test_attached_files_are_listed(parser: DocumentParser, corpus: Path) -> None:
    mail = parser.parse(corpus / "own/own_eml_beacon.eml")
    portable = parser.parse(corpus / "public/opf__fileAttachment.pdf")

    assert all("/" not in item.name for item in mail.attachments)
    assert len(portable.attachments) == 1
