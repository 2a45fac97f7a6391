"""Documents and their index as a `Forgettable`, on top of the library that owns them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from appliance.core.forgetting import (
    ForgetDocument,
    ForgetHit,
    ForgetProbe,
    ForgetReport,
    ForgetSubject,
    ForgetTarget,
)
from appliance.core.requests import LOCAL_OWNER
from appliance.documents.model import ParsedDocument
from appliance.memory.byte_scan import files_below, scan_files
from appliance.memory.forget_chats import needles_of
from appliance.memory.mentions import mentions
from appliance.retrieval.library import Removal
from appliance.retrieval.records import DocumentRecord


class _Store(Protocol):
    def documents(self, owner: str) -> list[DocumentRecord]: ...

    def every_document(self) -> Iterable[DocumentRecord]: ...

    def parsed(self, owner: str, document_id: str) -> ParsedDocument | None: ...


class _Library(Protocol):
    @property
    def store(self) -> _Store: ...

    def remove(self, owner: str, documents: Sequence[DocumentRecord]) -> Removal: ...


class ForgettableDocuments:
    """Removes documents with their passages, vectors, index words and old versions of the index.

    A subject takes whole documents: every one whose text or name mentions it.
    """

    name = "documents and index"

    def __init__(self, library: _Library, index_folder: Path, *, owner: str = LOCAL_OWNER) -> None:
        self._library = library
        self._index_folder = index_folder
        self._owner = owner
        self._remains: tuple[str, ...] = ()

    def meant(self, target: ForgetTarget) -> list[DocumentRecord]:
        """Return the documents that a target takes along."""
        records = self._library.store.documents(target.owner)
        match target:
            case ForgetDocument():
                return [record for record in records if record.document_id == target.document_id]
            case ForgetSubject():
                return [record for record in records if mentions(self._text(record), target.phrase)]
            case _:
                return []

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove the documents that a target takes along."""
        records = self.meant(target)
        if not records:
            return ForgetReport(store=self.name)
        needles = needles_of([self._text(record) for record in records])
        removal = self._library.remove(target.owner, records)
        self._remains = removal.remains
        return ForgetReport(
            store=self.name,
            removed={"documents": len(removal.documents), "passages": removal.removed_chunks},
            needles=() if isinstance(target, ForgetSubject) else tuple(needles),
        )

    def probe(self, needles: Sequence[str]) -> ForgetProbe:
        """Search the text of every document, and the bytes of the index's files."""
        texts = [self._text(record) for record in self._library.store.documents(self._owner)]
        held = [needle for needle in needles if any(mentions(text, needle) for text in texts)]
        hits = [ForgetHit(store=self.name, place="documents", needle=needle, kind="row") for needle in held]
        hits += self._held_by_others(needles)
        files = files_below(self._index_folder) if self._index_folder.is_dir() else []
        for found in scan_files(files, needles):
            place = f"{found.path} as {found.form}"
            hits.append(ForgetHit(store=self.name, place=place, needle=found.needle, kind="bytes"))
        hits += [
            ForgetHit(store=self.name, place=remark, needle="", kind="bytes") for remark in self._remains
        ]
        checked = (
            "texts of documents",
            f"{len(files)} files of the index",
            "passages, words and vectors by id",
        )
        return ForgetProbe(store=self.name, checked=checked, hits=tuple(hits))

    def _held_by_others(self, needles: Sequence[str]) -> list[ForgetHit]:
        """The files of the index hold the words of all owners; what somebody else has is no trace."""
        left = list(needles)
        hits: list[ForgetHit] = []
        for record in self._library.store.every_document() if left else ():
            if record.owner == self._owner:
                continue
            text = self._text(record)
            found = [needle for needle in left if mentions(text, needle)]
            hits += [
                ForgetHit(store=self.name, place="documents", needle=needle, kind="other_owner")
                for needle in found
            ]
            left = [needle for needle in left if needle not in found]
        return hits

    def _text(self, record: DocumentRecord) -> str:
        document = self._library.store.parsed(record.owner, record.document_id)
        return f"{record.name}\n{record.source}\n{document.text if document else ''}"
