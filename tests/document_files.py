"""Small documents built by hand, so that a test says exactly what is in the file it reads."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence

_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    """A ZIP file with these parts."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return stream.getvalue()


def relations(links: Sequence[tuple[str, str, str]]) -> str:
    """A part of relations: id, kind, target."""
    items = "".join(
        f'<Relationship Id="{name}" Type="{_OFFICE}/{kind}" Target="{target}"/>'
        for name, kind, target in links
    )
    return f'<Relationships xmlns="{_RELATIONS}">{items}</Relationships>'


def docx(body: str, styles: str = "", extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """A Word document with this body."""
    return zipped(
        {
            "_rels/.rels": relations([("r1", "officeDocument", "word/document.xml")]),
            "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": relations([("r1", "styles", "styles.xml")]),
            "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
            **(extra or {}),
        }
    )


def word_paragraph(text: str, style: str = "", run: str = "", properties: str = "") -> str:
    """One paragraph; `run` holds run properties, `properties` paragraph properties."""
    named = f'<w:pStyle w:val="{style}"/>' if style else ""
    return (
        f"<w:p><w:pPr>{named}{properties}</w:pPr>"
        f'<w:r><w:rPr>{run}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'
    )


def xlsx(sheets: Mapping[str, str], strings: Sequence[str] = (), styles: str = "", states: str = "") -> bytes:
    """A workbook; each sheet is the XML inside its `worksheet` element, `states` hides the last one."""
    names = list(sheets)
    items = "".join(
        f'<sheet name="{name}" sheetId="{number}" r:id="r{number}"'
        f"{f' state={chr(34)}{states}{chr(34)}' if states and name == names[-1] else ''}/>"
        for number, name in enumerate(names, start=1)
    )
    links = [(f"r{number}", "worksheet", f"worksheets/s{number}.xml") for number in range(1, len(names) + 1)]
    shared = "".join(f"<si><t>{text}</t></si>" for text in strings)
    return zipped(
        {
            "_rels/.rels": relations([("r1", "officeDocument", "xl/workbook.xml")]),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{_OFFICE}"><sheets>{items}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                [*links, ("rs", "sharedStrings", "sharedStrings.xml"), ("rt", "styles", "styles.xml")]
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{shared}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="{SHEET}">{styles}</styleSheet>',
            **{
                f"xl/worksheets/s{number}.xml": f'<worksheet xmlns="{SHEET}">{sheets[name]}</worksheet>'
                for number, name in enumerate(names, start=1)
            },
        }
    )


def pptx(slides: Sequence[str], notes: Mapping[int, str] | None = None, hidden: Sequence[int] = ()) -> bytes:
    """A presentation; each slide is the XML of its shapes, `notes` the text spoken to it."""
    notes = notes or {}
    spaces = f'xmlns:p="{SLIDE}" xmlns:a="{DRAWING}" xmlns:r="{_OFFICE}"'
    numbers = range(1, len(slides) + 1)
    ids = "".join(f'<p:sldId id="{255 + number}" r:id="r{number}"/>' for number in numbers)
    parts = {
        "_rels/.rels": relations([("r1", "officeDocument", "ppt/presentation.xml")]),
        "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>",
        "ppt/_rels/presentation.xml.rels": relations(
            [(f"r{number}", "slide", f"slides/slide{number}.xml") for number in numbers]
        ),
    }
    for number, shapes in enumerate(slides, start=1):
        show = ' show="0"' if number in hidden else ""
        parts[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {spaces}{show}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>"
        )
    for number, text in notes.items():
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = relations(
            [("n", "notesSlide", f"../notesSlides/n{number}.xml")]
        )
        parts[f"ppt/notesSlides/n{number}.xml"] = (
            f"<p:notes {spaces}><p:cSld><p:spTree>{shape('body', text)}</p:spTree></p:cSld></p:notes>"
        )
    return zipped(parts)


def shape(placeholder: str, *lines: str) -> str:
    """A shape of a slide with one paragraph for each line."""
    paragraphs = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return (
        f'<p:sp><p:nvSpPr><p:cNvPr id="2" name="x"/><p:nvPr><p:ph type="{placeholder}"/></p:nvPr></p:nvSpPr>'
        f"<p:txBody>{paragraphs}</p:txBody></p:sp>"
    )


def pdf(pages: Sequence[str], font: str = "Helvetica") -> bytes:
    """A PDF; each page is its content stream. /F1 is the font, /F2 the bold one."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    objects.append(f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} >>")
    objects.append(f"<< /Type /Font /Subtype /Type1 /BaseFont /{font}-Bold >>")
    kids: list[int] = []
    for content in pages:
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects) + 2} 0 R "
            "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >> >>"
        )
        kids.append(len(objects))
        objects.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    listing = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Kids [{listing}] /Count {len(kids)} >>"
    return _assembled(objects)


def pdf_text(text: str, x: float, y: float, size: float = 11, font: str = "F1") -> str:
    """An operator sequence that shows text at a place."""
    return f"BT /{font} {size} Tf {x} {y} Td ({text}) Tj ET"


def flate_bomb(megabytes: int) -> bytes:
    """Zeros, packed a thousand to one."""
    packer = zlib.compressobj(9)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(megabytes)) + packer.flush()


def _assembled(objects: Sequence[str]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    offsets: list[int] = []
    for number, content in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    start = len(out)
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode("ascii")
    out += f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode("ascii")
    return bytes(out)
