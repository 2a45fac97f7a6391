"""Files made to hurt, and files in places that hurt: each ends with text or a typed reason."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from appliance.core.errors import CancelledRequestError, DocumentError
from appliance.documents.limits import Limits
from appliance.documents.parser import DocumentParser
from appliance.documents.reasons import HINTS
from tests.conftest import REPOSITORY
from tests.document_files import docx, pdf, pdf_text, word_paragraph, xlsx, zipped

Refuse = Callable[..., DocumentError]


@pytest.fixture(scope="module")
def parser() -> Iterator[DocumentParser]:
    with DocumentParser() as one:
        yield one


@pytest.fixture
def refuse(parser: DocumentParser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Refuse]:
    """Read a file that cannot be read, and make sure the next one still can."""

    def run(path: Path, limits: Limits | None = None) -> DocumentError:
        with pytest.raises(DocumentError) as caught:
            parser.parse(path, limits or Limits())
        assert caught.value.hint in HINTS.values()
        return caught.value

    yield run
    after = tmp_path_factory.mktemp("after") / "after.txt"
    after.write_text("still alive")
    assert parser.parse(after).text == "still alive"


def slow_pdf(pages: int = 4000) -> bytes:
    return pdf([pdf_text(f"page {number}", 72, 700) for number in range(pages)])


def test_a_zip_bomb_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "bomb.docx"
    path.write_bytes(zipped({"word/document.xml": bytes(200 << 20)}))

    assert refuse(path).reason == "archive_bomb"


def test_a_workbook_of_packed_rows_ends_within_its_limits(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "rows.xlsx"
    path.write_bytes(xlsx({"S": "<sheetData>" + "<row><c><v>1</v></c></row>" * 400_000 + "</sheetData>"}))

    assert refuse(path, Limits(table_cells=100_000)).reason == "too_much_text"


def test_xml_nested_without_end_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "deep.docx"
    path.write_bytes(docx("<w:sdt>" * 5000 + "</w:sdt>" * 5000))

    assert refuse(path).reason == "too_deep"


def test_mail_nested_without_end_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "deep.eml"
    parts = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(2000))
    path.write_text(f"From: a@b\nSubject: x\n{parts}\nend\n")

    assert refuse(path).reason == "too_deep"


def test_a_slow_file_ends_at_the_deadline(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "slow.pdf"
    path.write_bytes(slow_pdf())

    assert refuse(path, Limits(deadline_s=0.05)).reason == "deadline"


def test_a_greedy_file_ends_at_the_memory_limit(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "large.txt"
    path.write_bytes(b"many words " * 3_000_000)

    assert refuse(path, Limits(memory_bytes=20 << 20)).reason == "memory"


def test_more_text_than_allowed_is_refused_whole(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("word " * 10_000)

    assert refuse(path, Limits(text_chars=1000)).reason == "too_much_text"


def test_a_file_larger_than_allowed_is_never_opened_by_a_reader(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "huge.txt"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)

    assert refuse(path).reason == "too_large"


def test_an_empty_file_is_refused(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "empty.pdf"
    path.touch()

    assert refuse(path).reason == "empty"


def test_pipes_sockets_devices_and_folders_never_block(refuse: Refuse, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.txt"))

        reasons = [
            refuse(path).reason
            for path in (pipe, tmp_path / "socket.txt", Path("/dev/zero"), Path("/dev/tty"), tmp_path)
        ]

    assert reasons == ["not_a_file"] * 5


@pytest.mark.parametrize("name", ["missing.txt", "a" * 300, "nul\x00.txt", "file.txt/below.txt"])
def test_a_path_that_leads_nowhere_is_not_found(name: str, refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x")

    assert refuse(tmp_path / name).reason == "not_found"


def test_a_link_to_itself_is_not_found(refuse: Refuse, tmp_path: Path) -> None:
    (tmp_path / "loop.txt").symlink_to(tmp_path / "loop.txt")

    error = refuse(tmp_path / "loop.txt")

    assert (error.reason, "leads to itself" in error.message) == ("not_found", True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "closed.txt"
    path.write_text("x")
    path.chmod(0)

    assert refuse(path).reason == "no_permission"


def test_names_that_play_tricks_are_shown_as_escapes(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "bill\u202efdp.\x1b[31m.bin"
    path.write_bytes(bytes(range(256)) * 10)

    assert refuse(path).message.startswith("bill\\u{202e}fdp.\\u{1b}[31m.bin: no reader")


def test_a_name_that_is_no_unicode_is_kept_as_bytes(parser: DocumentParser, tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt"))
    path.write_text("text")

    assert parser.parse(path).name == "caf\\xe9.txt"


def test_a_password_is_asked_for_checked_and_used(parser: DocumentParser, shared_data: Path) -> None:
    path = shared_data / "corpus/public/pypdf__libreoffice-writer-password.pdf"
    reasons = []
    for password in (None, "wrong"):
        with pytest.raises(DocumentError) as caught:
            parser.parse(path, password=password)
        reasons.append(caught.value.reason)

    assert reasons == ["encrypted", "wrong_password"]
    assert parser.parse(path, password="openpassword").text.startswith("Lorem ipsum")


def test_cancelling_stops_within_the_file(parser: DocumentParser, tmp_path: Path) -> None:
    path = tmp_path / "slow.pdf"
    path.write_bytes(slow_pdf())
    seen = threading.Event()

    with pytest.raises(CancelledRequestError):
        parser.parse(path, on_progress=lambda _done, _total: seen.set(), is_cancelled=seen.is_set)

    (tmp_path / "next.txt").write_text("next")
    assert parser.parse(tmp_path / "next.txt").text == "next"


def test_a_parser_that_is_killed_is_started_again(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("again")
    with DocumentParser() as parser:
        before = {child.pid for child in psutil.Process().children()}
        parser.parse(path)
        (started,) = [child for child in psutil.Process().children() if child.pid not in before]
        started.kill()

        assert parser.parse(path).text == "again"


def test_closing_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    parser = DocumentParser()
    parser.parse(tmp_path / "a.txt")

    parser.close()

    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


@pytest.mark.skipif(shutil.which("tesseract") is not None, reason="Tesseract is installed")
def test_a_scan_says_what_to_install(refuse: Refuse, tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(pdf(["0 0 0 rg 72 72 200 200 re f"]))

    error = refuse(path)

    assert (error.reason, "tesseract" in error.hint) == ("needs_ocr", True)


def test_nothing_a_document_refers_to_is_fetched(parser: DocumentParser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        address = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        page = f'<link rel=stylesheet href="{address}"><img src="{address}"><iframe src="{address}"></iframe>text'
        (tmp_path / "beacon.html").write_text(page)
        document = docx(
            word_paragraph("text"), extra={"word/_rels/settings.xml.rels": f'<a href="{address}"/>'}
        )
        (tmp_path / "beacon.docx").write_bytes(document)

        for name in ("beacon.html", "beacon.docx"):
            assert parser.parse(tmp_path / name).text == "text"
        with pytest.raises(TimeoutError):
            server.accept()


def test_an_orphaned_parser_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    script = (
        "import os, psutil; from appliance.documents.parser import DocumentParser; p = DocumentParser(); "
        f"p.parse({str(tmp_path / 'a.txt')!r}); "
        "print(*[c.pid for c in psutil.Process().children()], flush=True); os.kill(os.getpid(), 9)"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )

    (pid,) = map(int, finished.stdout.split())
    left = [psutil.Process(pid)] if psutil.pid_exists(pid) else []
    assert psutil.wait_procs(left, timeout=10)[1] == []


def test_a_recognition_that_hangs_or_fails_costs_its_page_not_the_document(
    parser: DocumentParser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = tmp_path / "mixed.pdf"
    path.write_bytes(pdf([pdf_text("a page with text", 72, 700), "0 0 0 rg 72 72 200 200 re f"]))

    document = parser.parse(path)

    assert document.text.strip() == "a page with text"
    assert document.pages_without_text == (2,)
