"""The library of documents, opened when a request first needs it: a server that only chats needs no embedder."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from appliance.core.errors import InternalError
from appliance.retrieval.library import Library


class LateLibrary:
    """Opens one library once. Its calls block, so requests use it from threads."""

    def __init__(self, open_library: Callable[[], Library]) -> None:
        self._open_library = open_library
        self._lock = threading.Lock()
        self._library: Library | None = None
        self._is_closed = False

    async def get(self) -> Library:
        """Return the library, opened and repaired.

        Raises:
            ModelNotFoundError: the embedder is not on this machine.
            StorageError: the data folder cannot be used.
        """
        return await asyncio.to_thread(self._opened)

    def close(self) -> None:
        """Close it if it was opened."""
        with self._lock:
            self._is_closed = True
            if self._library is not None:
                self._library.close()
                self._library = None

    def _opened(self) -> Library:
        with self._lock:
            if self._is_closed:
                raise InternalError("the library was used after it was closed")
            if self._library is None:
                library = self._open_library()
                library.check()
                self._library = library
            return self._library
