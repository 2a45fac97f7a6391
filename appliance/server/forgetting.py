"""Forgets for one user: a conversation, a document, a subject, or everything that user ever stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from appliance.config import Settings
from appliance.core.forgetting import ForgetChat, ForgetProbe, ForgetReport, Forgettable, ForgetTarget
from appliance.memory.forget import ForgetReceipt, forget
from appliance.memory.forget_chats import ForgettableChats, needles_of
from appliance.memory.forget_documents import ForgettableDocuments
from appliance.memory.forget_kept import kept_beside
from appliance.prompts.forgetting import ForgettableOutcomes
from appliance.retrieval.library import Library
from appliance.server.wire import JsonObject
from appliance.storage.database import Database
from appliance.telemetry.forgetting import ForgettableTraces
from appliance.telemetry.forgetting import forget_owner as forget_traces
from appliance.telemetry.trace_store import TRACES_FILE, TraceStore

_MAX_NEEDLES = 64


class Forgetting:
    """Forgets in every store of a data folder. Calls block.

    Saved prefixes and backups go for all users: they hold what everybody stored, and are only copies.
    """

    def __init__(self, settings: Settings, database: Database, library: Library | None) -> None:
        self._settings = settings
        self._database = database
        self._library = library

    def one(self, target: ForgetTarget) -> ForgetReceipt:
        """Forget one thing of its owner."""
        with self._stores(target.owner) as stores:
            return forget(target, stores)

    def several(self, targets: Sequence[ForgetTarget]) -> ForgetReceipt:
        """Forget several things of one owner; the file of the database is rewritten once."""
        with self._stores(targets[0].owner) as stores:
            # The other stores remove the same whatever the target is.
            return forget(
                targets[0], [_Each(store, targets) if _is_apart(store) else store for store in stores]
            )

    def everything(self, owner: str) -> ForgetReceipt:
        """Forget everything that an owner stored, what is in the trash too."""
        whole = ForgetChat(chat_id=f"all of {owner}", owner=owner)
        with self._stores(owner) as stores, ExitStack() as closing:
            every = [self._for_all(store, owner) for store in stores]
            if (outcomes := ForgettableOutcomes.below(self._settings.state_dir)) is not None:
                closing.callback(outcomes.close)
                every.insert(0, outcomes)
            return forget(whole, every)

    def _for_all(self, store: Forgettable, owner: str) -> Forgettable:
        """Return a store that removes everything of an owner where it would remove one thing."""
        match store:
            case ForgettableChats():
                return _EveryChat(store, self._database, owner)
            case ForgettableDocuments() if self._library is not None:
                return _EveryDocument(store, self._library, owner)
            case ForgettableTraces():
                return _EveryTrace(store, self._settings.state_dir / TRACES_FILE, owner)
            case _:
                return store

    @contextmanager
    def _stores(self, owner: str) -> Iterator[Sequence[Forgettable]]:
        """Yield every store, the file of the database last."""
        settings = self._settings
        with ExitStack() as closing:
            stores: list[Forgettable] = [ForgettableChats(self._database, owner=owner)]
            if self._library is not None:
                folder = settings.data_dir / "index"
                stores.append(ForgettableDocuments(self._library, folder, owner=owner))
            stores += kept_beside(settings, self._database, closing)
            yield stores


class _Each:
    """Removes several things from one store."""

    def __init__(self, store: Forgettable, targets: Sequence[ForgetTarget]) -> None:
        self.name = store.name
        self._store = store
        self._targets = targets

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        return _summed([self._store.forget(each) for each in self._targets], self.name)

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        return self._store.probe(needles)


class _EveryChat:
    """Removes every chat and fact of an owner."""

    def __init__(self, store: ForgettableChats, database: Database, owner: str) -> None:
        self.name = store.name
        self._store = store
        self._database = database
        self._owner = owner

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        reports = [
            self._store.forget(ForgetChat(chat_id=chat_id, owner=self._owner)) for chat_id in self._chat_ids()
        ]
        with self._database.transaction() as connection:
            facts = connection.execute(
                "DELETE FROM facts WHERE owner = ? RETURNING text", (self._owner,)
            ).fetchall()
        of_facts = ForgetReport(
            store=self.name,
            removed={"facts": len(facts)} if facts else {},
            needles=tuple(needles_of([text for (text,) in facts])),
        )
        return _summed([*reports, of_facts], self.name)

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        return self._store.probe(needles)

    def _chat_ids(self) -> list[str]:
        with self._database.read() as connection:
            rows = connection.execute("SELECT id FROM chats WHERE owner = ?", (self._owner,)).fetchall()
        return [str(row[0]) for row in rows]


class _EveryDocument:
    """Removes every document of an owner at once."""

    def __init__(self, store: ForgettableDocuments, library: Library, owner: str) -> None:
        self.name = store.name
        self._store = store
        self._library = library
        self._owner = owner

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        records = self._library.store.documents(self._owner)
        if not records:
            return ForgetReport(store=self.name)
        parsed = [self._library.store.parsed(self._owner, record.document_id) for record in records]
        needles = needles_of([document.text for document in parsed if document is not None])
        removal = self._library.remove(self._owner, records)
        removed = {"documents": len(removal.documents), "passages": removal.removed_chunks}
        return ForgetReport(
            store=self.name, removed=removed, needles=tuple(needles), notes=tuple(removal.remains)
        )

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        return self._store.probe(needles)


class _EveryTrace:
    """Removes every trace of an owner."""

    def __init__(self, store: ForgettableTraces, path: Path, owner: str) -> None:
        self.name = store.name
        self._store = store
        self._path = path
        self._owner = owner

    def forget(self, target: ForgetTarget) -> ForgetReport:  # noqa: ARG002
        traces = TraceStore(self._path)
        try:
            count = forget_traces(traces, self._owner)
        finally:
            traces.close()
        return ForgetReport(store=self.name, removed={"traces": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        return self._store.probe(needles)


def forget_receipt_json(receipt: ForgetReceipt) -> JsonObject:
    """Return a receipt; it counts the texts that were searched for and repeats none."""
    return {
        "is_clean": receipt.is_clean,
        "removed": {report.store: dict(report.removed) for report in receipt.reports if report.removed},
        "searched_texts": receipt.needle_count,
        "searched_places": {probe.store: len(probe.checked) for probe in receipt.probes},
        "remains": sorted({f"{hit.store}: {hit.place}" for hit in receipt.remains}),
        "notes": [note for report in receipt.reports for note in report.notes],
    }


def _is_apart(store: Forgettable) -> bool:
    """Whether a store removes one thing and leaves the others."""
    return isinstance(store, ForgettableChats | ForgettableDocuments | ForgettableTraces)


def _summed(reports: Sequence[ForgetReport], store: str) -> ForgetReport:
    removed: dict[str, int] = {}
    for report in reports:
        for what, count in report.removed.items():
            removed[what] = removed.get(what, 0) + count
    needles = dict.fromkeys(needle for report in reports for needle in report.needles)
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    # An even sample finds a leak as well; each needle costs a pass over every file.
    step = max(1, -(-len(needles) // _MAX_NEEDLES))
    return ForgetReport(store=store, removed=removed, needles=tuple(needles)[::step], notes=tuple(notes))
