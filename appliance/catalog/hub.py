"""Fetches files of the Hugging Face hub, honouring HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN and the hub's cache.

The hub's library gives the address, the token and the HTTP client; the bytes are streamed here, so that
they are hashed as they come and a broken download goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from appliance import __version__
from appliance.catalog.source_syntax import HubSource
from appliance.catalog.store import CHUNK_BYTES
from appliance.catalog.transfer import SourceFailedError, Transfer

if TYPE_CHECKING:
    import httpx

_MOST_ATTEMPTS_WITHOUT_PROGRESS = 2
_TIMEOUT_S = 30.0
_OFFLINE_REASON = "HF_HUB_OFFLINE forbids it, and the hub's cache does not have it"


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFile:
    """A file of a repository: its path, size, and the sha256 the hub states for large files."""

    path: str
    size_bytes: int
    sha256: str


def fetch_from_hub(source: HubSource, transfer: Transfer) -> None:
    """Write the file, from the hub's cache if it lies there, else over the network.

    Raises:
        SourceFailedError: the hub is unreachable, refuses, or does not have the file.
    """
    cached = _cached_file(source)
    if cached is not None and _has_wanted_size(cached, transfer):
        _copy(cached, transfer)
        return
    if is_hub_offline():
        raise SourceFailedError(_OFFLINE_REASON)
    attempts_left = _MOST_ATTEMPTS_WITHOUT_PROGRESS
    while True:
        before = transfer.partial.size
        try:
            _download(source, transfer)
        except _BrokenOffError as exc:
            attempts_left = (
                _MOST_ATTEMPTS_WITHOUT_PROGRESS if transfer.partial.size > before else attempts_left - 1
            )
            if attempts_left <= 0:
                raise SourceFailedError(f"{exc}; what came is kept for the next try") from exc
        else:
            return


def list_hub_files(repository: str, revision: str = "main") -> list[HubFile]:
    """List the files of a repository.

    Raises:
        SourceFailedError: the hub is unreachable, refuses, or has no such repository.
    """
    if is_hub_offline():
        raise SourceFailedError(_OFFLINE_REASON)
    address = (
        f"{hub_endpoint()}/api/models/{quote(repository)}/tree/{quote(revision, safe='')}?recursive=true"
    )
    with _translated_errors():
        response = _client().get(address, headers=_headers(), timeout=_TIMEOUT_S)
        _raise_for_status(response)
        try:
            return _parse_listing(response.json())
        except (ValueError, TypeError, KeyError) as exc:
            raise SourceFailedError(f"the hub's answer makes no sense: {exc}") from exc


def hub_endpoint() -> str:
    """Return the address of the hub."""
    from huggingface_hub import constants

    return (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")


def is_hub_offline() -> bool:
    """Say whether the user forbade the hub."""
    from huggingface_hub import constants

    stated = os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
    return stated or constants.is_offline_mode()


class _BrokenOffError(Exception):
    """The connection broke; another attempt may go on."""


def _cached_file(source: HubSource) -> Path | None:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(source.repository, source.file, revision=source.revision)
    return Path(found) if isinstance(found, str) and Path(found).is_file() else None


def _has_wanted_size(path: Path, transfer: Transfer) -> bool:
    return transfer.file.size_bytes in {0, path.stat().st_size}


def _copy(path: Path, transfer: Transfer) -> None:
    total = path.stat().st_size
    transfer.partial.restart()
    transfer.expect(total)
    with transfer.store.translated_errors(total), path.open("rb") as stream:
        while piece := stream.read(CHUNK_BYTES):
            transfer.write(piece, total)


def _download(source: HubSource, transfer: Transfer) -> None:
    """Make one request for what is missing and write what comes."""
    from huggingface_hub import hf_hub_url

    partial = transfer.partial
    note = _ResumeNote(transfer)
    partial.resume(transfer.file.name, transfer.report)
    address = hf_hub_url(source.repository, source.file, revision=source.revision, endpoint=hub_endpoint())
    headers = _headers()
    if partial.size:
        # No If-Range: the server of the bytes may know the file by another tag than the hub does.
        headers["Range"] = f"bytes={partial.size}-"
    with (
        _translated_errors(),
        _client().stream("GET", address, headers=headers, timeout=_TIMEOUT_S) as response,
    ):
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            _restart_or_finish(response, transfer)
            return
        _raise_for_status(response)
        total = _total_bytes(response, partial.size)
        if partial.size and (
            response.status_code != HTTPStatus.PARTIAL_CONTENT or not note.matches(response)
        ):
            partial.restart()
            if response.status_code == HTTPStatus.PARTIAL_CONTENT:
                raise _BrokenOffError("the file changed on the hub")
        transfer.expect(total)
        note.write(response)
        for piece in response.iter_bytes():
            transfer.write(piece, total)
    if total and partial.size < total:
        raise _BrokenOffError(f"the connection ended after {partial.size} of {total} bytes")


def _restart_or_finish(response: httpx.Response, transfer: Transfer) -> None:
    """Nothing is left to fetch: either the file is whole, or what is there is of another file."""
    _, _, total = response.headers.get("content-range", "").partition("/")
    if total.isdigit() and int(total) == transfer.partial.size:
        return
    transfer.partial.restart()
    raise _BrokenOffError("what was there does not fit the file on the hub")


class _ResumeNote:
    """Remembers which version of the file a partial file is of, so that two versions are never mixed."""

    def __init__(self, transfer: Transfer) -> None:
        self._path = transfer.staging / "hub.json"
        self._store = transfer.store
        self.etag = ""
        try:
            stated = json.loads(self._path.read_text(encoding="utf-8"))
            self.etag = str(stated["etag"])
        except (OSError, ValueError, KeyError, TypeError):
            # Without a note there is no telling what the bytes are of.
            transfer.partial.restart()

    def matches(self, response: httpx.Response) -> bool:
        etag = _etag(response)
        return not etag or not self.etag or etag == self.etag

    def write(self, response: httpx.Response) -> None:
        with self._store.translated_errors(0):
            self._path.write_text(json.dumps({"etag": _etag(response)}), encoding="utf-8")


def _etag(response: httpx.Response) -> str:
    """Return the file's tag; the hub states it at the redirect, the server of the bytes may have another."""
    for answer in [*response.history, response]:
        if tag := answer.headers.get("x-linked-etag"):
            return str(tag)
    return str(response.headers.get("etag", ""))


def _total_bytes(response: httpx.Response, offset: int) -> int:
    _, _, total = response.headers.get("content-range", "").partition("/")
    if total.isdigit():
        return int(total)
    length = response.headers.get("content-length", "")
    is_partial = response.status_code == HTTPStatus.PARTIAL_CONTENT
    if not length.isdigit() or response.headers.get("content-encoding"):
        return 0
    return int(length) + (offset if is_partial else 0)


def _client() -> httpx.Client:
    from huggingface_hub import get_session

    return get_session()


def _headers() -> dict[str, str]:
    # The library's own headers would first ask the hub which tools to look for in the environment.
    from huggingface_hub import get_token

    headers = {"User-Agent": f"appliance/{__version__}", "Accept-Encoding": "identity"}
    if token := get_token():
        headers["Authorization"] = f"Bearer {token}"
    return headers


@contextmanager
def _translated_errors() -> Iterator[None]:
    import httpx
    from huggingface_hub.errors import OfflineModeIsEnabled

    try:
        yield
    except OfflineModeIsEnabled as exc:
        raise SourceFailedError(_OFFLINE_REASON) from exc
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.ProxyError) as exc:
        raise SourceFailedError(f"{hub_endpoint()} cannot be reached: {exc}") from exc
    except (httpx.TransportError, httpx.StreamError) as exc:
        raise _BrokenOffError(f"the connection broke: {str(exc) or type(exc).__name__}") from exc
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise SourceFailedError(f"the request failed: {exc}") from exc


def _raise_for_status(response: httpx.Response) -> None:
    code = response.status_code
    if code < HTTPStatus.BAD_REQUEST:
        return
    if code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        raise SourceFailedError(
            f"the hub refuses (HTTP {code}): the repository is private, gated or not there; "
            "accept its terms on its page and set HF_TOKEN"
        )
    if code == HTTPStatus.NOT_FOUND:
        raise SourceFailedError("the hub has no such file (HTTP 404)")
    raise SourceFailedError(f"the hub answered HTTP {code} {response.reason_phrase}")


def _parse_listing(listing: object) -> list[HubFile]:
    if not isinstance(listing, list):
        raise TypeError("it is not a list")
    found: list[HubFile] = []
    for entry in listing:
        if entry.get("type") != "file":
            continue
        large = entry.get("lfs") or {}
        found.append(
            HubFile(path=str(entry["path"]), size_bytes=int(entry["size"]), sha256=str(large.get("oid", "")))
        )
    return found
