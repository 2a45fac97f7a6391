"""Reads one file inside the confined process and turns what comes of it into a frame."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable
from dataclasses import fields
from datetime import datetime
from functools import partial

from appliance.documents import sandbox, seccomp
from appliance.documents.builder import DocumentBuilder
from appliance.documents.job import Job
from appliance.documents.readers import dispatch
from appliance.documents.readers.source import Host, Source
from appliance.documents.reasons import Reason, RefusalError
from appliance.documents.wire import FrameKind, read_frame, write_frame


def warm_up() -> None:
    """Load every reader and make ready the filter before the first fork, so that no worker pays for it."""
    dispatch.warm_readers()
    seccomp.prepare()


def run_job(job: Job, document: int, channel: int, base_bytes: int) -> tuple[FrameKind, bytes]:
    """Confine this process further, read the file, and return a `result` or a `refusal`."""
    sandbox.bound_cost(job.limits, base_bytes + job.size_bytes)
    sandbox.refuse_programs()
    try:
        return "result", _read(job, document, channel)
    except RefusalError as exc:
        return _refusal(exc.reason, exc.message)
    except MemoryError:
        return _refusal("memory", "it needs more memory than the limit allows")
    except RecursionError:
        return _refusal("too_deep", "its parts are nested beyond any real document")
    except Exception as exc:  # noqa: BLE001 - the boundary of the process; the parent reports it
        return _refusal("damaged", f"the reader gave up: {type(exc).__name__}: {exc}")


def _read(job: Job, document: int, channel: int) -> bytes:
    # Never unmapped: readers may still hold views on it, and the process ends with the job.
    mapped = mmap.mmap(document, job.size_bytes, access=mmap.ACCESS_COPY)
    source = Source(data=memoryview(mapped), name=job.name, password=job.password, host=_host(job, channel))
    builder = DocumentBuilder(job.limits)
    media_type, parser = dispatch.read_document(source, builder)
    return _encode(builder, media_type, parser)


def _host(job: Job, channel: int) -> Host:
    return Host(
        has_ocr=job.has_ocr,
        report_progress=lambda done, total: write_frame(
            channel, "progress", json.dumps([done, total]).encode()
        ),
        recognise=_recogniser(channel),
    )


def _recogniser(channel: int) -> Callable[[bytes], str]:
    def recognise(picture: bytes) -> str:
        write_frame(channel, "picture", picture)
        answer = read_frame(partial(os.read, channel))
        if answer is None or answer.kind != "recognised":
            raise RefusalError("parser_crashed", "the text recognition went away")
        return answer.payload.decode("utf-8", "replace")

    return recognise


def _encode(builder: DocumentBuilder, media_type: str, parser: str) -> bytes:
    values = {
        "media_type": media_type,
        "parser": parser,
        "encoding": builder.encoding,
        "text": builder.text,
        "segments": builder.finished_segments(),
        "blocks": builder.blocks,
        "metadata": builder.metadata,
        "page_count": builder.page_count,
        "pages_without_text": builder.pages_without_text,
        "attachments": builder.attachments,
        "notices": builder.notices,
    }
    return json.dumps(values, default=_plain, ensure_ascii=False).encode()


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    names = _FIELDS.get(type(value))
    if names is None:
        names = _FIELDS[type(value)] = tuple(field.name for field in fields(value))  # type: ignore[arg-type]
    return {name: getattr(value, name) for name in names}


_FIELDS: dict[type, tuple[str, ...]] = {}


def _refusal(reason: Reason, message: str) -> tuple[FrameKind, bytes]:
    return "refusal", json.dumps({"reason": reason, "message": message[:1000]}).encode()
