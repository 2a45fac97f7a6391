"""What the screens need of an appliance, as ports and values. Screens know nothing else of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from appliance.core.requests import SamplingParams
    from appliance.memory.chats import Shelf
    from appliance.memory.search import ChatHit
    from appliance.memory.session import ChatEvent
    from appliance.memory.turns import Branches, Chat, Turn

Fit = Literal["yes", "tight", "no", "likely", "unlikely", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One setting with where its value came from."""

    name: str
    value: str
    origin: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model of the catalogue. `is_loaded` says that a process of this user holds it now."""

    name: str
    size_bytes: int
    parameters: int
    quantisation: str
    context_window: int
    licence: str
    is_on_disk: bool
    is_loaded: bool
    can_chat: bool
    fit: Fit
    resident_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkProgress:
    """How far long work is; `total` of 0 means not known. `unit` is what is counted."""

    what: str
    done: int = 0
    total: int = 0
    unit: Literal["bytes", "files", "vectors"] = "bytes"
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkLine:
    """One outcome of long work, for people."""

    text: str
    is_bad: bool = False


WorkEvent = WorkProgress | WorkLine


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentRow:
    """One document of the library; `problem` says why it has no text, or what a reader must know."""

    document_id: str
    collection: str
    name: str
    source: str
    is_ready: bool
    page_count: int
    chunk_count: int
    missing_vectors: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageRow:
    """A passage that was found, with its scores and ranks; a rank of 0 means it was not in that list."""

    name: str
    place: str
    text: str
    score: float
    similarity: float | None
    dense_rank: int
    text_rank: int
    cut: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchView:
    """The passages of one search, best first, those that were cut, and what the search says of itself."""

    passages: tuple[PassageRow, ...]
    cut: tuple[PassageRow, ...]
    searched_chunks: int
    duration_s: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """A citation: its quote is the characters `start` to `end` of the document, unless no document has it."""

    number: int
    name: str
    place: str
    quote: str
    verdict: str
    is_verified: bool
    document_id: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedAnswer:
    """An answer from documents; `notes` say what is not supported and how much was read."""

    text: str
    sources: tuple[SourceRow, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptView:
    """How an answer was made: the receipt of its prompt and the very messages that were sent."""

    receipt_json: str = ""
    messages: tuple[tuple[str, str], ...] = field(default_factory=tuple)
    model: str = ""
    sampling: str = ""


class ChatPort(Protocol):
    """Chats on disk and answers in them. Methods may raise ApplianceError."""

    async def list_chats(self, shelf: Shelf = "current") -> list[Chat]: ...

    async def search(self, query: str) -> list[ChatHit]: ...

    async def create(self) -> Chat: ...

    async def get(self, chat_id: str) -> Chat: ...

    async def branch(self, chat_id: str) -> list[Turn]: ...

    async def rename(self, chat_id: str, title: str) -> Chat: ...

    async def pin(self, chat_id: str, *, is_pinned: bool) -> Chat: ...

    async def archive(self, chat_id: str, *, is_archived: bool) -> Chat: ...

    async def delete(self, chat_id: str) -> Chat: ...

    async def undo_delete(self) -> Chat | None: ...

    async def set_system_text(self, chat_id: str, text: str) -> Chat: ...

    async def branches_at(self, turn_id: str) -> Branches: ...

    async def show_branch_of(self, turn_id: str) -> list[Turn]: ...

    async def export(self, chat_id: str) -> str: ...

    async def receipt(self, turn_id: str) -> ReceiptView: ...

    def ask(self, chat_id: str, text: str) -> AsyncGenerator[ChatEvent, None]: ...

    def edit(self, turn_id: str, text: str) -> AsyncGenerator[ChatEvent, None]: ...

    def regenerate(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]: ...

    def continue_answer(self, turn_id: str) -> AsyncGenerator[ChatEvent, None]: ...

    def cancel(self, chat_id: str) -> bool: ...


class ModelPort(Protocol):
    """The catalogue and what is loaded. Methods may raise ApplianceError."""

    async def rows(self) -> list[ModelRow]: ...

    async def describe(self, name: str) -> str: ...

    def pull(self, name: str) -> AsyncGenerator[WorkEvent, None]: ...

    def verify(self, name: str) -> AsyncGenerator[WorkEvent, None]: ...

    async def load(self, name: str) -> None: ...

    async def unload(self, name: str) -> None: ...


class LibraryPort(Protocol):
    """Collections of documents. Methods may raise ApplianceError."""

    async def documents(self) -> list[DocumentRow]: ...

    def add(self, path: str, collection: str) -> AsyncGenerator[WorkEvent, None]: ...

    async def remove(self, document_id: str) -> str: ...

    async def search(self, question: str) -> SearchView: ...

    async def ask(self, question: str, model: str) -> SourcedAnswer: ...

    async def text_of(self, document_id: str) -> str: ...


class Session(Protocol):
    """The appliance as the screens see it. `open` does the slow part and must come first."""

    @property
    def chats(self) -> ChatPort: ...

    @property
    def models(self) -> ModelPort: ...

    @property
    def library(self) -> LibraryPort: ...

    @property
    def model(self) -> str: ...

    @model.setter
    def model(self, name: str) -> None: ...

    @property
    def sampling(self) -> SamplingParams: ...

    @property
    def is_offline(self) -> bool: ...

    def set_sampling(self, name: str, text: str) -> str: ...

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def check_model(self, name: str) -> None: ...

    async def context_window(self) -> int: ...

    def settings_rows(self) -> Sequence[SettingRow]: ...

    def read_history(self) -> list[str]: ...

    def add_history(self, text: str) -> None: ...

    def log_lines(self) -> list[str]: ...
