"""The appliance as the interface's tests see it: real chats in a temporary store, a scripted model, fixed
models and documents.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from appliance.core.clock import VirtualClock
from appliance.core.errors import InvalidRequestError, ModelNotFoundError
from appliance.core.ports import Clock
from appliance.core.requests import SamplingParams
from appliance.gateway import Gateway
from appliance.memory.conversations import Conversations
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.providers.script import ScriptedModel
from appliance.providers.scripted import ScriptedProvider
from appliance.storage.database import Database
from tui.in_process.chats import AnswerChoice, StoredChats
from tui.session import (
    DocumentRow,
    ModelRow,
    PassageRow,
    SearchView,
    SettingRow,
    SourcedAnswer,
    SourceRow,
    WorkEvent,
    WorkLine,
    WorkProgress,
)

MODEL = "scripted:test"
FIRST_DAY_S = 1_700_000_000.0


@dataclass
class FixedModels:
    """A catalogue that never changes; a pull reports two steps."""

    rows_shown: list[ModelRow]
    loaded: list[str] = field(default_factory=list)

    async def rows(self) -> list[ModelRow]:
        return [replace(row, is_loaded=row.name in self.loaded) for row in self.rows_shown]

    async def describe(self, name: str) -> str:
        return f"{name}\nlicence         Apache-2.0\nmemory for 4 × 4096 tokens"

    async def pull(self, name: str) -> AsyncGenerator[WorkEvent, None]:
        yield WorkProgress(what=f"fetching {name}", done=50_000_000, total=100_000_000)
        yield WorkLine(text=f"{name}: fetched 1 file(s), sha256 checked")

    async def verify(self, name: str) -> AsyncGenerator[WorkEvent, None]:
        yield WorkLine(text=f"{name}: changed", is_bad=True)

    async def load(self, name: str) -> None:
        if name not in self.loaded:
            self.loaded.append(name)

    async def unload(self, name: str) -> None:
        if name not in self.loaded:
            raise InvalidRequestError(f"{name} is not loaded")
        self.loaded.remove(name)


@dataclass
class FixedLibrary:
    """Documents that are there from the start; what is added is failed, to show a reason."""

    rows_shown: list[DocumentRow]
    found: SearchView
    text: str = "The whole text."
    answer: SourcedAnswer | None = None

    async def documents(self) -> list[DocumentRow]:
        return list(self.rows_shown)

    async def add(self, path: str, collection: str) -> AsyncGenerator[WorkEvent, None]:
        yield WorkProgress(what=f"reading {path}", done=1, total=2, unit="files")
        yield WorkLine(text=f"failed {path} (encrypted: it has a password) in {collection}", is_bad=True)

    async def remove(self, document_id: str) -> str:
        self.rows_shown = [row for row in self.rows_shown if row.document_id != document_id]
        return "removed, no trace left"

    async def search(self, question: str) -> SearchView:
        return self.found

    async def ask(self, question: str, model: str) -> SourcedAnswer:
        return self.answer or an_answer()

    async def text_of(self, document_id: str) -> str:
        return self.text


class TestSession:
    """A `Session` over a temporary folder. Times are fixed, one minute apart."""

    __test__ = False

    def __init__(
        self,
        folder: Path,
        model: ScriptedModel | None = None,
        *,
        clock: Clock | None = None,
        models: FixedModels | None = None,
        library: FixedLibrary | None = None,
        logs: Sequence[str] = ("── worker.log", "loaded in 0.1 s"),
    ) -> None:
        self._folder = folder
        self._scripted = model or ScriptedModel(name=MODEL)
        self._clock = clock or VirtualClock()
        self._choice = AnswerChoice(model=self._scripted.name, sampling=SamplingParams(seed=7))
        self.models = models or FixedModels(some_models())
        self.library = library or FixedLibrary(some_documents(), some_passages())
        self._logs = list(logs)
        self._history: list[str] = []
        self._database: Database | None = None
        self._chats: StoredChats | None = None

    @property
    def chats(self) -> StoredChats:
        assert self._chats is not None
        return self._chats

    @property
    def model(self) -> str:
        return self._choice.model

    @model.setter
    def model(self, name: str) -> None:
        self._choice.model = name

    @property
    def sampling(self) -> SamplingParams:
        return self._choice.sampling

    @property
    def is_offline(self) -> bool:
        return True

    def set_sampling(self, name: str, text: str) -> str:
        return f"{name} {text}"

    async def open(self) -> None:
        self._database = Database(self._folder / "chats.db", [CONVERSATIONS, FACTS])
        minutes = count()
        conversations = Conversations(self._database, now_s=lambda: FIRST_DAY_S + 60.0 * next(minutes))
        gateway = Gateway([ScriptedProvider([self._scripted], self._clock)], self._clock)
        self._gateway = gateway
        self._chats = StoredChats(conversations, gateway, self._choice)

    async def close(self) -> None:
        if self._database is not None:
            await self._gateway.close()
            self._database.close()

    async def check_model(self, name: str) -> None:
        if name not in [row.name for row in self.models.rows_shown]:
            raise ModelNotFoundError(f"there is no model {name}")

    async def context_window(self) -> int:
        return 4096

    def settings_rows(self) -> list[SettingRow]:
        return [
            SettingRow(name="model", value=MODEL, origin="--set model", description="the model that answers"),
            SettingRow(name="offline", value="true", origin="APPLIANCE_OFFLINE", description="no network"),
            SettingRow(name="top_p", value="0.95", origin="default", description="1 switches the rule off"),
        ]

    def read_history(self) -> list[str]:
        return list(self._history)

    def add_history(self, text: str) -> None:
        self._history.append(text)

    def log_lines(self) -> list[str]:
        return list(self._logs)


def some_models() -> list[ModelRow]:
    """A model that fits, one that is tight and one that does not."""
    usual = ModelRow(
        name="smollm2:135m-instruct-q4_1",
        size_bytes=98_400_000,
        parameters=135_000_000,
        quantisation="Q4_1",
        context_window=8192,
        licence="Apache-2.0",
        is_on_disk=True,
        is_loaded=False,
        can_chat=True,
        fit="yes",
    )
    return [
        usual,
        replace(usual, name="qwen3:8b-q4_k_m", size_bytes=5_030_000_000, quantisation="Q4_K_M", fit="tight"),
        replace(usual, name="llama3.3:70b-q4_k_m", size_bytes=42_500_000_000, is_on_disk=False, fit="no"),
        replace(usual, name="all-minilm:l6-v2", context_window=256, can_chat=False, fit="likely"),
    ]


def some_documents() -> list[DocumentRow]:
    """A document that is whole, one with pages that have no text, and one that failed."""
    whole = DocumentRow(
        document_id="d1",
        collection="contracts",
        name="lease.pdf",
        source="/home/user/lease.pdf",
        is_ready=True,
        page_count=12,
        chunk_count=48,
        missing_vectors=0,
        problem="",
    )
    return [
        whole,
        replace(whole, document_id="d2", name="scan.pdf", problem="3 pages have no text", missing_vectors=4),
        replace(
            whole,
            document_id="d3",
            name="locked.docx",
            is_ready=False,
            chunk_count=0,
            problem="encrypted: it has a password",
        ),
    ]


def some_passages() -> SearchView:
    """One passage found by meaning and words, and one that was cut."""
    passage = PassageRow(
        name="lease.pdf",
        place="page 3",
        text="The notice period is three months to the end of a quarter.",
        score=0.913,
        similarity=0.71,
        dense_rank=1,
        text_rank=2,
    )
    return SearchView(
        passages=(passage,),
        cut=(replace(passage, name="scan.pdf", text="", score=0.2, text_rank=0, cut="below_min_score"),),
        searched_chunks=96,
        duration_s=0.012,
        notes=("4 passages have no vector yet",),
    )


DOCUMENT = "Beginning.\n" * 200 + "The notice period is three months." + "\nEnd." * 200


def an_answer() -> SourcedAnswer:
    """One verified source and one quote that no document has."""
    start = DOCUMENT.index("The notice")
    verified = SourceRow(
        number=1,
        name="lease.pdf",
        place="page 3",
        quote="The notice period is three months.",
        verdict="verified word for word",
        is_verified=True,
        document_id="d1",
        start=start,
        end=start + len("The notice period is three months."),
    )
    invented = replace(
        verified,
        number=2,
        name="no document",
        place="",
        quote="It is free.",
        is_verified=False,
        document_id="",
    )
    return SourcedAnswer(
        text="Three months. [1] It is free. [2]",
        sources=(verified, invented),
        notes=("read 2 of 96 passages", "UNVERIFIED: It is free."),
    )
