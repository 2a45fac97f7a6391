"""Forgetting across all stores, and the receipt that says what was removed and what was searched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from appliance.core.forgetting import (
    ForgetChat,
    ForgetDocument,
    ForgetHit,
    ForgetProbe,
    ForgetReport,
    ForgetSubject,
    Forgettable,
    ForgetTarget,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetReceipt:
    """What a forgetting did. `remains` are finds that contradict it; `elsewhere` are texts that something
    which is kept on purpose has as well, such as another chat with the same sentence.
    """

    target: ForgetTarget
    reports: tuple[ForgetReport, ...]
    probes: tuple[ForgetProbe, ...]
    needle_count: int
    remains: tuple[ForgetHit, ...]
    elsewhere: tuple[ForgetHit, ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that should be gone."""
        return not self.remains

    @property
    def removed_count(self) -> int:
        """How many things were removed from all stores, backups aside."""
        return sum(
            count for report in self.reports for what, count in report.removed.items() if what != "backups"
        )


def forget(target: ForgetTarget, stores: Sequence[Forgettable]) -> ForgetReceipt:
    """Remove a target from every store, then search every store for what was removed.

    Stores whose files hold the rows of others (the database file) come last. A store that fails ends the
    forgetting with its error; running it again goes on, for what is gone already is no error.
    """
    reports = tuple(store.forget(target) for store in stores)
    needles = list(dict.fromkeys(needle for report in reports for needle in report.needles))
    if isinstance(target, ForgetSubject):
        needles = list(dict.fromkeys([target.phrase, *needles]))
    probes = tuple(store.probe(needles) for store in stores)
    remains, elsewhere = _judge(target, [hit for probe in probes for hit in probe.hits])
    return ForgetReceipt(
        target=target,
        reports=reports,
        probes=probes,
        needle_count=len(needles),
        remains=tuple(remains),
        elsewhere=tuple(elsewhere),
    )


def render_receipt(receipt: ForgetReceipt) -> str:
    """Return the receipt as text; it never repeats the forgotten text itself."""
    lines = [f"Forgotten: {_named(receipt.target)}", "", "Removed:"]
    for report in receipt.reports:
        counts = ", ".join(f"{count} {what}" for what, count in sorted(report.removed.items()))
        lines.append(f"  {report.store}: {counts or 'nothing was there'}")
    lines += ["", f"Searched for {receipt.needle_count} removed texts, plain and encoded, in:"]
    for probe in receipt.probes:
        lines.append(f"  {probe.store}: {len(probe.checked)} places, {len(probe.hits)} finds")
        lines += [f"    {place}" for place in probe.checked]
    if receipt.elsewhere:
        lines += ["", "The same words also stand in things that you keep:"]
        lines += sorted({f"  {hit.store}: {hit.place}" for hit in receipt.elsewhere})
    lines += ["", "Result: nothing remains" if receipt.is_clean else "Result: NOT CLEAN, traces remain in:"]
    lines += sorted({f"  {hit.store}: {hit.place}" for hit in receipt.remains})
    lines += [f"Note: {note}" for report in receipt.reports for note in report.notes]
    return "\n".join(lines)


def _judge(target: ForgetTarget, hits: Sequence[ForgetHit]) -> tuple[list[ForgetHit], list[ForgetHit]]:
    """Part the finds into what must not be and what the owner keeps on purpose; others' are not named."""
    kept_by_others = {hit.needle for hit in hits if hit.kind == "other_owner"}
    visible = [
        hit for hit in hits if hit.kind == "row" or (hit.kind == "bytes" and hit.needle not in kept_by_others)
    ]
    if isinstance(target, ForgetSubject):
        return visible, []
    kept = {hit.needle for hit in visible if hit.kind == "row"}
    return [hit for hit in visible if hit.needle not in kept], [hit for hit in visible if hit.needle in kept]


def _named(target: ForgetTarget) -> str:
    match target:
        case ForgetChat():
            return f"chat {target.chat_id}"
        case ForgetDocument():
            return f"document {target.document_id}"
        case ForgetSubject():
            return "a subject"
