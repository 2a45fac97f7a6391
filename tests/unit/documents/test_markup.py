from __future__ import annotations

import pytest

from appliance.documents.model import Code, Table
from appliance.documents.reasons import RefusalError
from tests.document_files import zipped
from tests.unit.documents.reading import only, outline, read

MARKDOWN = """---
title: A guide
---
# Install

Run *this*:

```sh
make install
```

- one
- two
  - deeper

## Options

| name | value |
|------|-------|
| a    | 1     |

<!-- to do: rewrite -->

[ref]: http://127.0.0.1/
"""


def test_markdown_keeps_its_source_and_lays_blocks_over_it() -> None:
    document = read(MARKDOWN.encode(), "guide.md")

    assert document.text == MARKDOWN
    assert document.metadata.title == "A guide"
    assert outline(document) == [
        ("paragraph", "---\ntitle: A guide\n---"),
        ("heading", "Install"),
        ("paragraph", "Run *this*:"),
        ("code", "```sh\nmake install\n```"),
        ("list_item", "- one"),
        ("list_item", "- two"),
        ("list_item", "- deeper"),
        ("heading", "Options"),
        ("table", "| name | value |\n|------|-------|\n| a    | 1     |"),
        ("paragraph", "<!-- to do: rewrite -->"),
        ("paragraph", "[ref]: http://127.0.0.1/"),
    ]
    assert document.heading_path(document.blocks[8]) == ("Install", "Options")
    assert document.blocks[9].hidden == "comment"


def test_a_markdown_table_has_cells_without_its_pipes() -> None:
    document = read(MARKDOWN.encode(), "guide.md")
    table = only(document, "table")
    assert isinstance(table, Table)

    cells = [[document.text_of(cell) for cell in document.cells(table, row)] for row in table.rows]

    assert (table.header_rows, cells) == (1, [["name", "value"], ["a", "1"]])


def test_html_leaves_scripts_and_navigation_out_and_marks_hidden_text() -> None:
    page = """<html lang=en><head><title>Offer</title><style>.x{display:none}</style>
    <script>alert(1)</script></head><body><nav>Home</nav><h1>Offer</h1><p>Good <b>price</b>
    <span style="display: none">ignore this</span><p>Next<div class=x>secret</div>
    <ul><li>a<li>b<ul><li>c</ul></ul><pre><code class="language-py">x = 1\n  y</code></pre></body></html>"""

    document = read(page.encode(), "offer.html")

    assert outline(document) == [
        ("heading", "Offer"),
        ("paragraph", "Good price"),
        ("paragraph", "ignore this"),
        ("paragraph", "Next"),
        ("paragraph", "secret"),
        ("list_item", "a"),
        ("list_item", "b"),
        ("list_item", "c"),
        ("code", "x = 1\n  y"),
    ]
    assert [document.text_of(block) for block in document.hidden_blocks()] == ["ignore this", "secret"]
    assert (document.metadata.title, document.metadata.language) == ("Offer", "en")
    code = only(document, "code")
    assert isinstance(code, Code)
    assert code.language == "py"


def test_an_html_table_keeps_header_cells_and_spans() -> None:
    page = "<table><thead><tr><th>City<th>Size</thead><tr><td>Rome<td>1,285<tr><td colspan=2>both</table>"

    document = read(page.encode(), "t.html")

    assert document.text == "City\tSize\nRome\t1,285\nboth\t\n"
    table = only(document, "table")
    assert isinstance(table, Table)
    assert table.header_rows == 1


@pytest.mark.parametrize("depth", [50_000])
def test_html_nested_beyond_any_sense_still_gives_its_text(depth: int) -> None:
    document = read(b"<div>" * depth + b"deep" + b"</div>" * depth, "deep.html")

    assert outline(document) == [("paragraph", "deep")]


def test_valid_utf8_beats_a_label_that_lies() -> None:
    document = read('<meta charset="iso-8859-1"><p>Zürich 東京 שלום'.encode(), "lies.html")

    assert document.text == "Zürich 東京 שלום"
    assert [notice.kind for notice in document.notices] == ["encoding_mismatch"]


def epub(**parts: str) -> bytes:
    container = (
        '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
        '<rootfile full-path="OEBPS/p.opf"/></rootfiles></container>'
    )
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>'
        "<dc:title>Tales</dc:title><dc:creator>Ann</dc:creator><dc:language>en</dc:language></metadata><manifest>"
        '<item id="b" href="b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="a" href="a%20b.xhtml" media-type="application/xhtml+xml"/>'
        '<item id="x" href="../../../../etc/passwd" media-type="application/xhtml+xml"/></manifest>'
        '<spine><itemref idref="a"/><itemref idref="x"/><itemref idref="b"/></spine></package>'
    )
    return zipped(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": container,
            "OEBPS/p.opf": package,
            "OEBPS/a b.xhtml": "<html><title/><body><h1>One</h1><p>first</p></body></html>",
            "OEBPS/b.xhtml": "<html><body><h2>Two</h2><p>second</p></body></html>",
            **parts,
        }
    )


def test_a_book_is_read_in_the_order_of_its_spine_and_never_outside_the_file() -> None:
    document = read(epub(), "tales.epub")

    assert [segment.label for segment in document.segments] == ["One", "Two"]
    assert document.text.split() == ["One", "first", "Two", "second"]
    assert document.metadata.author == "Ann"
    assert [notice.kind for notice in document.notices] == ["damaged_part"]


def test_a_book_under_a_publishers_key_is_refused() -> None:
    listing = (
        '<e xmlns:enc="http://www.w3.org/2001/04/xmlenc#"><enc:EncryptedData><enc:EncryptionMethod '
        'Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></enc:EncryptedData></e>'
    )
    with pytest.raises(RefusalError) as refusal:
        read(epub(**{"META-INF/encryption.xml": listing}), "locked.epub")

    assert refusal.value.reason == "rights_managed"


def test_rtf_reads_code_pages_unicode_tables_and_hidden_runs() -> None:
    data = (
        rb"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Cyr;}}{\*\generator x;}"
        rb"{\outlinelevel0 Title\par}\pard Z\'fcrich \u8364?{\v secret}\par{\f1 \'cf\'f0}\par"
        rb"\trowd\intbl a\cell b\cell\row\pard\par \u-10179?\u-8704?}"
    )

    document = read(data, "letter.rtf")

    assert outline(document) == [
        ("heading", "Title"),
        ("paragraph", "Zürich €"),
        ("paragraph", "secret"),
        ("paragraph", "Пр"),
        ("table", "a\tb"),
        ("paragraph", "😀"),
    ]
    assert document.blocks[2].hidden == "hidden_style"
