from __future__ import annotations

import pytest

from appliance.documents.versions import is_current
from tests.document_files import pdf, pdf_text
from tests.unit.documents.reading import read

SAMPLES = {
    "a.md": b"# a\n\nb\n",
    "a.html": b"<html><p>a</html>",
    "a.csv": b"name,size\na,1\n",
    "a.py": b"import os\n",
    "a.txt": b"a\n",
    "a.pdf": pdf([pdf_text("a page", 72, 700, 11)]),
    "a.rtf": rb"{\rtf1 some words}",
    "a.eml": b"From: a@b\nTo: c@d\nSubject: e\nDate: Mon, 1 Jan 2026 00:00:00 +0000\n\nf\n",
}


@pytest.mark.parametrize("name", SAMPLES)
def test_what_was_read_now_is_current_and_what_an_older_reader_read_is_not(name: str) -> None:
    label = read(SAMPLES[name], name).parser

    assert is_current(label)
    assert not is_current(label.replace("/1", "/0"))


def test_a_pdf_is_read_again_with_another_library() -> None:
    assert not is_current("pdf/1 pypdfium2 4.0.0")


def test_unknown_readers_are_let_be() -> None:
    assert is_current("a plugin 3")
