from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.documents.encoding import decode
from appliance.documents.limits import Limits
from appliance.documents.model import Code, Table
from appliance.documents.reasons import RefusalError
from tests.unit.documents.reading import only, outline, read

TEXT = "Größe, naïve, 東京 и мир: 12 €"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_unicode_encodings_are_found_without_a_label(encoding: str) -> None:
    text = "Plain words with a few more: Größe"
    data = text.encode(encoding)

    assert decode(data).text == text


@pytest.mark.parametrize(
    "encoding, text",
    [
        ("cp1252", "Die Größe der Häuser in Zürich überrascht; für Gäste gibt es Käse und Äpfel."),
        ("cp1251", "Договор вступает в силу с момента подписания обеими сторонами."),
        ("shift_jis", "契約は両当事者が署名した日から効力を生じるものとする。"),
        ("iso2022_jp", "契約は署名した日から"),
    ],
)
def test_older_encodings_are_recognised(encoding: str, text: str) -> None:
    assert decode(text.encode(encoding)).text == text


def test_a_few_broken_bytes_do_not_spoil_the_rest() -> None:
    decoded = decode((TEXT * 20).encode() + b"\xff\xfe end")

    assert decoded.text.startswith(TEXT)
    assert decoded.undecodable > 0


def test_plain_text_becomes_paragraphs_with_exact_spans() -> None:
    document = read(b"one\r\nline\r\n\r\n  two  \r\n \r\nthree", "a.txt")

    assert document.text == "one\nline\n\n  two  \n \nthree"
    assert outline(document) == [("paragraph", "one\nline"), ("paragraph", "two"), ("paragraph", "three")]


@given(st.text(alphabet=st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t\f")))
def test_any_text_keeps_every_character_inside_a_block(text: str) -> None:
    document = read(("word " + text).encode(), "a.txt")

    assert document.text == "word " + text
    inside = "".join(document.text_of(block) for block in document.blocks)
    assert "".join(inside.split()) == "".join(document.text.split())


@given(st.text(alphabet="# -*>|`\n a1[]<!", max_size=200))
def test_any_markdown_keeps_the_rules_of_a_document(text: str) -> None:
    document = read(("word\n" + text).encode(), "a.md")

    assert document.text == "word\n" + text


def test_source_code_is_cut_at_its_definitions() -> None:
    source = (
        "import os\n\n\n# Adds.\ndef add(a, b):\n    return a + b\n\n\n@cached\nclass Box:\n    size = 1\n"
    )

    document = read(source.encode(), "box.py")

    blocks = [block for block in document.blocks if isinstance(block, Code)]
    assert [(block.symbol, document.text_of(block)) for block in blocks] == [
        ("", "import os"),
        ("add", "# Adds.\ndef add(a, b):\n    return a + b"),
        ("Box", "@cached\nclass Box:\n    size = 1"),
    ]
    assert blocks[0].language == "python"


@pytest.mark.parametrize(
    "name, source, symbols",
    [
        ("a.go", "package a\n\nfunc (s *Set) Add(x int) {\n}\n\ntype Set struct {\n}\n", ["", "Add", "Set"]),
        ("a.rs", "use x;\n\npub fn run() {\n}\n\nimpl Set {\n}\n", ["", "run", "Set"]),
        ("a.ts", "export interface Box {\n}\nexport const f = () => 1\n", ["Box", "f"]),
        ("a.java", "package a;\n\npublic class Box {\n  int x;\n}\n", ["", "Box"]),
        ("a.c", "#include <a.h>\n\nstatic int add(int a, int b) {\n  return a;\n}\n", ["", "add"]),
    ],
)
def test_definitions_are_found_in_several_languages(name: str, source: str, symbols: list[str]) -> None:
    document = read(source.encode(), name)

    assert [block.symbol for block in document.blocks if isinstance(block, Code)] == symbols


@pytest.mark.parametrize(
    "data",
    [
        b"name;price\nBolt, long;3,50\nNut;0,20\n",
        b'name,price\n"Bolt, long","3,50"\nNut,"0,20"\n',
        b"name\tprice\nBolt, long\t3,50\nNut\t0,20\n",
        b"sep=;\nname;price\nBolt, long;3,50\nNut;0,20\n",
    ],
)
def test_the_delimiter_of_a_table_is_found(data: bytes) -> None:
    document = read(data, "prices.csv")

    table = only(document, "table")
    assert isinstance(table, Table)
    assert table.header_rows == 1
    assert document.text == "name\tprice\nBolt, long\t3,50\nNut\t0,20\n"


def test_a_line_break_inside_a_quoted_cell_does_not_break_its_row() -> None:
    document = read(b'id,note\n1,"two\nlines"\n', "n.csv")

    assert document.text == "id\tnote\n1\ttwo lines\n"


def test_a_csv_of_numbers_has_no_header() -> None:
    table = only(read(b"1,2\n3,4\n", "n.csv"), "table")

    assert isinstance(table, Table)
    assert table.header_rows == 0


def test_more_text_than_allowed_is_refused_not_cut() -> None:
    with pytest.raises(RefusalError) as refusal:
        read(b"word " * 1000, "a.txt", Limits(text_chars=1000))

    assert refusal.value.reason == "too_much_text"


@pytest.mark.parametrize(
    "data, name, media_type",
    [
        (b"%PDF-1.4", "picture.png", "application/pdf"),
        (b"\x7fELF" + bytes(60), "a.txt", "application/x-executable"),
        (bytes(range(256)) * 8, "a.md", "application/octet-stream"),
        (b"\x1f\x8b\x08" + bytes(30), "a.txt", "application/gzip"),
        (b"GGUF\x03\x00\x00\x00" + bytes(40), "m.txt", "application/x-gguf"),
    ],
)
def test_content_decides_what_a_file_is(data: bytes, name: str, media_type: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        read(data, name)

    is_pdf = media_type == "application/pdf"
    assert refusal.value.reason == ("damaged" if is_pdf else "unsupported")
    assert media_type in refusal.value.message or is_pdf
