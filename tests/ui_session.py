"""The appliance as the interface's tests see it: real chats in a temporary store, a scripted model, fixed
models and documents.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from zlib import crc32

from appliance.config.settings import FactMode
from appliance.core.clock import VirtualClock
from appliance.core.errors import Failure, InvalidRequestError, ModelNotFoundError
from appliance.core.events import Completed, StreamEvent, TextDelta
from appliance.core.forgetting import ForgetTarget
from appliance.core.ports import Clock, Vector
from appliance.core.requests import GenerateRequest, SamplingParams
from appliance.core.usage import Timings, Usage
from appliance.gateway import Gateway
from appliance.jobs.evidence import FieldEvidence
from appliance.jobs.extract import ExtractEvent, PartBegun, RowDone
from appliance.jobs.rows import ExtractedRow
from appliance.memory.chat_prompt import AnswerChoice
from appliance.memory.conversations import Conversations
from appliance.memory.document_prompt import CODE
from appliance.memory.document_scope import DocumentScope
from appliance.memory.fact_recall import FactRecall
from appliance.memory.facts import Facts
from appliance.memory.prompt import PreparedPrompt, PreparePrompt, ReportFolding, branch_conversation
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.memory.turns import Chat, Turn
from appliance.providers.script import ScriptedModel
from appliance.providers.scripted import ScriptedProvider
from appliance.storage.database import Database
from tui.in_process.chats import StoredChats
from tui.in_process.memory import MemoryOfUser
from tui.mentions import scope_of
from tui.rows import (
    BenchEvent,
    BenchFigure,
    BenchMetric,
    BenchRecord,
    BenchRun,
    DocumentRow,
    Forgotten,
    ModelRow,
    NamedSource,
    PassageRow,
    SearchView,
    SettingRow,
    SpanRow,
    TraceRow,
    WorkEvent,
    WorkLine,
    WorkProgress,
)

MODEL = "scripted:test"
FIRST_DAY_S = 1_700_000_000.0


ANSWER = "Three months. [1] It is free. [unverified]"


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
    answer_text: str = ANSWER
    told: dict[str, object] = field(default_factory=lambda: an_answer())
    asked: list[DocumentScope] = field(default_factory=list)

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

    async def names(self) -> list[NamedSource]:
        collections = sorted({row.collection for row in self.rows_shown})
        return [
            *(NamedSource(name=name, kind="collection") for name in collections),
            *(
                NamedSource(name=row.name, kind="document", document_id=row.document_id)
                for row in self.rows_shown
                if row.chunk_count
            ),
        ]

    def prompt(self, scope: DocumentScope) -> PreparePrompt:
        self.asked.append(scope)

        async def stream(request: GenerateRequest) -> AsyncGenerator[StreamEvent, None]:
            yield TextDelta(text=self.answer_text)
            yield Completed(finish_reason="stop", usage=Usage(), timings=Timings(), model=CODE)

        async def prepare(chat: Chat, branch: Sequence[Turn], on_folding: ReportFolding) -> PreparedPrompt:
            request = GenerateRequest(
                conversation=branch_conversation(branch[-1:]), model=MODEL, prompt_id="documents"
            )
            return PreparedPrompt(
                request=request, stream=stream, receipt_at_end=lambda: json.dumps({"documents": self.told})
            )

        return prepare

    def scope_of(self, question: str) -> DocumentScope:
        return scope_of(question, asyncio.run(self.names()))[0]

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
        extraction: FixedExtraction | None = None,
        facts: FactMode = "off",
        bench: FixedBench | None = None,
        log: FixedLog | None = None,
        forgetting: FixedForgetting | None = None,
        leaves_for: str = "",
    ) -> None:
        self._leaves_for = leaves_for
        self._folder = folder
        self._scripted = model or ScriptedModel(name=MODEL)
        self._clock = clock or VirtualClock()
        self._choice = AnswerChoice(model=self._scripted.name, sampling=SamplingParams(seed=7))
        self.models = models or FixedModels(some_models())
        self.library = library or FixedLibrary(some_documents(), some_passages())
        self.extraction = extraction or FixedExtraction(some_rows())
        self._fact_mode: FactMode = facts
        self._memory: MemoryOfUser | None = None
        self.bench = bench or FixedBench()
        self.log = log or FixedLog()
        self.forgetting = forgetting or FixedForgetting()
        self._history: list[str] = []
        self._database: Database | None = None
        self._chats: StoredChats | None = None

    @property
    def chats(self) -> StoredChats:
        assert self._chats is not None
        return self._chats

    @property
    def memory(self) -> MemoryOfUser:
        assert self._memory is not None
        return self._memory

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

    @property
    def data_goes_to(self) -> str:
        return self._leaves_for

    def set_sampling(self, name: str, text: str) -> str:
        return f"{name} {text}"

    async def open(self) -> None:
        self._database = Database(self._folder / "chats.db", [CONVERSATIONS, FACTS])
        minutes = count()
        self.conversations = conversations = Conversations(
            self._database, now_s=lambda: FIRST_DAY_S + 60.0 * next(minutes)
        )
        gateway = Gateway([ScriptedProvider([self._scripted], self._clock)], self._clock)
        self._gateway = gateway
        facts = Facts(self._database, OneVector(), now_s=lambda: FIRST_DAY_S)
        self._memory = MemoryOfUser(facts, conversations, lambda: gateway, self._choice, mode=self._fact_mode)
        self._chats = StoredChats(
            conversations,
            gateway,
            self._choice,
            documents=self.library.prompt,
            scope_of=self.library.scope_of,
            recall=FactRecall(facts),
        )

    async def close(self) -> None:
        if self._database is not None:
            await self._gateway.close()
            self._database.close()

    @property
    def server(self) -> str:
        return ""

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


def an_answer(
    name: str = "/home/user/lease.pdf", place: str = "page 3", quote: str = ""
) -> dict[str, object]:
    """One verified source and one quote that no document has, as a receipt tells of them."""
    quoted = quote or "The notice period is three months."
    start = 10 if quote else DOCUMENT.index(quoted)
    verified = {
        "verdict": "verified",
        "quote": quoted,
        "source": name,
        "place": place,
        "document_id": "d1",
        "start": start,
        "end": start + len(quoted),
    }
    invented = {"verdict": "absent", "quote": quote or "It is free.", "source": "", "document_id": ""}
    return {
        "kind": "answered",
        "coverage": "read 2 of 96 passages",
        "notes": [quote] if quote else [],
        "unverified": [quote or "It is free."],
        "citations": [{"number": 1, "citation": verified}, {"number": 2, "citation": invented}],
    }


def some_rows(name: str = "lease.pdf", value: str = "Ada Byron") -> list[ExtractedRow]:
    """A row with a value that is proven and one that is not, and a document that failed."""
    proven = FieldEvidence(
        path="tenant", value=value, verdict="exact", quote=value, place="page 1", start=0, end=9
    )
    invented = FieldEvidence(path="rent", value=900, verdict="absent")
    good = ExtractedRow(
        document_id="d1",
        name=name,
        source=name,
        values={"tenant": value, "rent": 900},
        evidence=(proven, invented),
        parts=1,
        usage=Usage(input_tokens=1234),
    )
    failure = Failure(kind="timeout", message=f"{value}: took too long")
    return [good, ExtractedRow(document_id="d2", name="scan.pdf", source=name, failure=failure)]


@dataclass
class FixedForgetting:
    """Counts one turn, forgets nothing, and says that it is gone."""

    text: str = "Result: nothing remains"
    asked: list[ForgetTarget] = field(default_factory=list)

    async def preview(self, target: ForgetTarget) -> dict[str, int]:
        return {"turns": 1}

    async def forget(self, target: ForgetTarget) -> Forgotten:
        self.asked.append(target)
        return Forgotten(receipt=self.text, is_clean=True)


@dataclass
class FixedExtraction:
    """Fields that are known, and rows that come one after the other."""

    rows: list[ExtractedRow]
    names: tuple[str, ...] = ("tenant", "rent")
    asked: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)

    async def columns(self, schema: str) -> tuple[str, ...]:
        if schema == "bad":
            raise InvalidRequestError("a row needs fields")
        return self.names

    async def run(
        self, schema: str, instruction: str, document_ids: Sequence[str]
    ) -> AsyncGenerator[ExtractEvent, None]:
        self.asked.append((schema, instruction, tuple(document_ids)))
        for number, row in enumerate(self.rows, start=1):
            yield PartBegun(
                document_id=row.document_id,
                name=row.name,
                document=number,
                documents=len(self.rows),
                part=1,
                parts=2,
            )
            yield RowDone(row=row, document=number, documents=len(self.rows))


@dataclass
class FixedBench:
    """A measurement with four figures and one result, and two runs that are kept."""

    text: str = "prompt of 128"

    async def run(self, suite: str) -> AsyncGenerator[BenchEvent, None]:
        for number, figure in enumerate((0.21, 0.42, 0.31, 0.24), start=1):
            yield WorkProgress(what=f"{suite} {self.text}", done=number, total=4, unit="steps")
            yield BenchFigure(series=f"{suite} {self.text}", figure=figure, unit="s")
        metrics = (
            BenchMetric(name="ttft", unit="s", samples=(0.21, 0.42, 0.31, 0.24)),
            BenchMetric(name="output_throughput", unit="tokens/s", samples=(31.0,)),
        )
        yield BenchRecord(
            test=f"{suite} {self.text}", configuration=f"model={MODEL}", metrics=metrics, doubts=(self.text,)
        )
        yield WorkLine(text=f"run {self.text} is kept")

    async def history(self) -> list[BenchRun]:
        run = BenchRun(
            name=f"20261130T120000Z-{self.text}", suites="latency", models=MODEL, records=4, doubts=()
        )
        return [run, replace(run, name=f"20261129T120000Z-{self.text}", doubts=(self.text,))]

    async def compare(self, first: str, second: str) -> str:
        return f"{first} against {second}: ttft 1.02 [0.97, 1.08]"


@dataclass
class FixedLog:
    """One request with three spans, and a line of a worker."""

    text: str = "chat"

    async def traces(self) -> list[TraceRow]:
        row = TraceRow(
            trace_id="t1", started_at_s=FIRST_DAY_S, name=self.text, model=MODEL, duration_s=1.25, status="ok"
        )
        return [row, replace(row, trace_id="t2", status="error", duration_s=0.01)]

    async def spans(self, trace_id: str) -> list[SpanRow]:
        root = SpanRow(
            strokes="", name=self.text, start_s=0.0, duration_s=1.25, status="ok", facts=f"x={self.text}"
        )
        return [
            root,
            replace(root, strokes="├─ ", name="prefill", duration_s=0.25),
            replace(root, strokes="└─ ", name="decode", start_s=0.25, duration_s=1.0, status="cancelled"),
        ]

    async def lines(self) -> list[str]:
        return ["── worker.log", f"loaded in 0.1 s {self.text}"]


class OneVector:
    """An embedder for which no two texts are alike but equal ones."""

    digest = "one"
    dimension = 64
    max_input_tokens = 512

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        places = [crc32(text.encode()) % self.dimension for text in texts]
        return [[float(place == index) for index in range(self.dimension)] for place in places]
