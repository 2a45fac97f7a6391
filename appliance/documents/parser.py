"""Reads documents: opens a file, has it read in a confined process, proves the result, returns it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from queue import Empty, LifoQueue
from types import TracebackType

from appliance.core.errors import CancelledRequestError, InvalidRequestError
from appliance.documents.intake import OpenFile, opened
from appliance.documents.job import Job
from appliance.documents.limits import Limits
from appliance.documents.model import ParsedDocument, check_document
from appliance.documents.process import ParserProcess, StoppedError, Watch
from appliance.documents.reading import Reading, decode_reading
from appliance.documents.reasons import RefusalError, document_error
from appliance.documents.sandbox import Isolation
from appliance.documents.tesseract import find_tesseract

_MAX_PASSWORD_CHARS = 1_000
_DEFAULT_LIMITS = Limits()


class DocumentParser:
    """Reads files into documents; safe to call from several threads, `processes` files at a time.

    Close it, or use it as a context manager; processes start on first use and stay warm.
    """

    def __init__(self, *, processes: int = 1) -> None:
        if processes < 1:
            raise InvalidRequestError("a parser needs at least one process")
        self._idle: LifoQueue[ParserProcess] = LifoQueue()
        for _ in range(processes):
            self._idle.put(ParserProcess())

    def __enter__(self) -> DocumentParser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parse(
        self,
        path: str | PathLike[str],
        limits: Limits = _DEFAULT_LIMITS,
        *,
        password: str | None = None,
        on_progress: Callable[[int, int], None] = lambda _done, _total: None,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> ParsedDocument:
        """Read one file. `on_progress` is told pages done and pages in all.

        Raises:
            DocumentError: the file cannot be read; `reason` is one of `reasons.Reason`.
            CancelledRequestError: `is_cancelled` said so; checked ten times a second.
        """
        if password is not None and len(password) > _MAX_PASSWORD_CHARS:
            raise InvalidRequestError(f"a password has at most {_MAX_PASSWORD_CHARS} characters")
        watch = Watch(on_progress=on_progress, is_cancelled=is_cancelled, tesseract=find_tesseract())
        with opened(Path(path), limits) as file:
            reading = self._read(file, limits, password, watch)
            file.check_unchanged()
            return _proven(reading, file)

    def isolation(self) -> Isolation:
        """Which walls stand around the parser on this system; starts a process when none runs.

        Raises:
            DocumentError: the process does not start.
        """
        with self._process() as process:
            try:
                return process.start()
            except RefusalError as exc:
                raise document_error(exc.reason, exc.message) from exc

    def close(self) -> None:
        """End all idle processes."""
        while True:
            try:
                process = self._idle.get_nowait()
            except Empty:
                return
            process.close()

    def _read(self, file: OpenFile, limits: Limits, password: str | None, watch: Watch) -> Reading:
        job = Job(
            name=file.name,
            size_bytes=file.size_bytes,
            password=password,
            has_ocr=watch.tesseract is not None,
            limits=limits,
        )
        with self._process() as process:
            try:
                return decode_reading(process.run(job, file.descriptor, watch))
            except RefusalError as exc:
                raise document_error(exc.reason, f"{file.shown}: {exc.message}") from exc
            except (ValueError, TypeError, KeyError) as exc:
                raise document_error(
                    "parser_crashed", f"{file.shown}: the parser sent nonsense: {exc}"
                ) from exc
            except StoppedError as exc:
                raise CancelledRequestError(f"reading {file.shown} was cancelled") from exc

    @contextmanager
    def _process(self) -> Iterator[ParserProcess]:
        process = self._idle.get()
        try:
            yield process
        finally:
            self._idle.put(process)


def parse(
    path: str | PathLike[str], limits: Limits = _DEFAULT_LIMITS, *, password: str | None = None
) -> ParsedDocument:
    """Read one file with a process of its own; for many files keep a `DocumentParser`."""
    with DocumentParser() as parser:
        return parser.parse(path, limits, password=password)


def _proven(reading: Reading, file: OpenFile) -> ParsedDocument:
    document = ParsedDocument(
        name=file.name,
        media_type=reading.media_type,
        sha256=file.sha256,
        size_bytes=file.size_bytes,
        parser=reading.parser,
        text=reading.text,
        segments=reading.segments,
        blocks=reading.blocks,
        encoding=reading.encoding,
        metadata=reading.metadata,
        page_count=reading.page_count,
        pages_without_text=reading.pages_without_text,
        attachments=reading.attachments,
        notices=reading.notices,
    )
    try:
        check_document(document)
    except ValueError as exc:
        raise document_error("parser_crashed", f"{file.shown}: the parser's result is wrong: {exc}") from exc
    return document
