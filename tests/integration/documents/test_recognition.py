"""Text in pictures, with the real Tesseract."""

from __future__ import annotations

import shutil
from pathlib import Path

import pypdfium2
import pytest

from appliance.documents.parser import parse
from tests.document_files import pdf, pdf_text

pytestmark = pytest.mark.skipif(shutil.which("tesseract") is None, reason="Tesseract is not installed")


def picture_of(content: str) -> bytes:
    """A page drawn as a grey picture in the PGM format."""
    document = pypdfium2.PdfDocument(pdf([content]))
    bitmap = document[0].render(scale=3, grayscale=True)
    image = b"P5 %d %d 255\n" % (bitmap.width, bitmap.height) + bytes(bitmap.buffer)
    document.close()
    return image


def scanned(content: str) -> bytes:
    """A PDF whose only page is a picture of this content."""
    header, pixels = picture_of(content).split(b"\n", 1)
    width, height = header.split()[1:3]
    stream = (
        b"<< /Type /XObject /Subtype /Image /Width %s /Height %s /ColorSpace /DeviceGray "
        b"/BitsPerComponent 8 /Length %d >>"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        (
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 5 0 R "
            b"/Resources << /XObject << /I 4 0 R >> >> >>"
        ),
        stream % (width, height, len(pixels)) + b"\nstream\n" + pixels + b"\nendstream",
        b"<< /Length 31 >>\nstream\nq 612 0 0 792 0 0 cm /I Do Q  \nendstream",
    ]
    body = b"".join(
        b"%d 0 obj\n%s\nendobj\n" % (number, content) for number, content in enumerate(objects, start=1)
    )
    return b"%PDF-1.4\n" + body + b"trailer << /Size 6 /Root 1 0 R >>\n%%EOF\n"


@pytest.mark.slow
def test_a_scanned_page_is_recognised_and_marked(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(
        scanned(pdf_text("Invoice number 4217", 72, 600, 24) + pdf_text("Total 99 euro", 72, 500, 24))
    )

    document = parse(path)

    assert "Invoice number 4217" in document.text
    assert document.segments[0].origin == "ocr"
    assert [notice.kind for notice in document.notices] == ["ocr_text"]


@pytest.mark.slow
def test_a_picture_file_is_recognised(tmp_path: Path) -> None:
    from PIL import Image

    header, pixels = picture_of(pdf_text("Boarding pass 77", 72, 600, 24)).split(b"\n", 1)
    width, height = map(int, header.split()[1:3])
    path = tmp_path / "pass.png"
    Image.frombytes("L", (width, height), pixels).save(path)

    document = parse(path)

    assert (document.media_type, "Boarding pass 77" in document.text) == ("image/png", True)
