"""Forgets in traces: those of a chat, those that hold texts about a subject, or all of one owner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

from appliance.core.forgetting import (
    ForgetChat,
    ForgetDocument,
    ForgetProbe,
    ForgetReport,
    ForgetSubject,
    ForgetTarget,
)
from appliance.telemetry.gen_ai import CHAT_ATTRIBUTE
from appliance.telemetry.trace_store import TraceStore

Mentions = Callable[[str, str], bool]


class ForgettableTraces:
    """The trace store as one of the stores that take part in a forgetting.

    Args:
        mentions: says whether a text mentions a phrase; the rule of the forgetting that asks.
    """

    name = "traces"

    def __init__(self, store: TraceStore, mentions: Mentions) -> None:
        self._store = store
        self._mentions = mentions

    def forget(self, target: ForgetTarget) -> ForgetReport:
        """Remove the traces that belong to the target. Of a document, every trace with texts goes, for
        they may quote it.
        """
        count = self._delete(target)
        self._store.scrub()
        return ForgetReport(store=self.name, removed={"traces": count} if count else {})

    def probe(self, needles: Sequence[str]) -> ForgetProbe:  # noqa: ARG002
        """Name the file; its bytes are searched with the folder it lies in."""
        return ForgetProbe(store=self.name, checked=(str(self._store.path),))

    def _delete(self, target: ForgetTarget) -> int:
        match target:
            case ForgetChat():
                chat = (target.owner, f'$."{CHAT_ATTRIBUTE}"', target.chat_id)
                return self._store.delete("owner = ? AND json_extract(attributes, ?) = ?", chat)
            case ForgetDocument():
                return self._store.delete("owner = ? AND content != '{}'", (target.owner,))
            case ForgetSubject():
                return self._forget_mentions(target)
            case _:
                assert_never(target)

    def _forget_mentions(self, target: ForgetSubject) -> int:
        trace_ids = {
            record.trace_id
            for record in self._store.with_content(target.owner)
            if any(self._mentions(text, target.phrase) for text in record.content.values())
        }
        return sum(self._store.delete("trace_id = ?", (trace_id,)) for trace_id in trace_ids)


def forget_owner(store: TraceStore, owner: str) -> int:
    """Remove every trace of an owner; return how many went."""
    count = store.delete("owner = ?", (owner,))
    store.scrub()
    return count


def forget_request(store: TraceStore, owner: str, request_id: str) -> int:
    """Remove the trace of one request; return how many went."""
    count = store.delete("owner = ? AND request_id = ?", (owner, request_id))
    store.scrub()
    return count
