"""A hub on loopback that serves files with ranges, and misbehaves on demand."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath


@dataclass
class FakeHub:
    """Files by `user/repo/path`; `status` answers instead of them, `break_after` cuts each answer."""

    files: dict[str, bytes] = field(default_factory=dict)
    status: int = 0
    break_after: int = 0
    breaks_left: int = 0
    requests: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def listing(self, repository: str) -> list[dict[str, object]]:
        return [
            {
                "type": "file",
                "path": path.removeprefix(f"{repository}/"),
                "size": len(content),
                "oid": "0" * 40,
                "lfs": {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 1},
            }
            for path, content in self.files.items()
            if path.startswith(f"{repository}/")
        ]


@contextmanager
def running_hub() -> Iterator[FakeHub]:
    """Serve until the block ends."""
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    hub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.hub.requests.append((self.path, self.headers.get("Range", "")))
        if self.hub.status:
            self._answer(self.hub.status, b"refused")
            return
        path = PurePosixPath(self.path.split("?")[0])
        if path.parts[1] == "api":
            repository = "/".join(path.parts[3:5])
            found = self.hub.listing(repository)
            self._answer(200 if found else 404, json.dumps(found).encode())
            return
        key = "/".join([*path.parts[1:3], *path.parts[5:]])
        content = self.hub.files.get(key)
        if content is None:
            self._answer(404, b"no such file")
            return
        self._answer_file(content)

    def _answer_file(self, content: bytes) -> None:
        etag = f'"{hashlib.sha256(content).hexdigest()}"'
        start = 0
        asked = self.headers.get("Range", "")
        if asked and self.headers.get("If-Range", etag) == etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        if start >= len(content) and content:
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        piece = content[start:]
        if self.hub.breaks_left:
            self.hub.breaks_left -= 1
            self._write(piece[: self.hub.break_after])
            self.close_connection = True
            return
        self._write(piece)

    def _write(self, piece: bytes) -> None:
        try:
            self.wfile.write(piece)
        except ConnectionError:
            self.close_connection = True

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""
