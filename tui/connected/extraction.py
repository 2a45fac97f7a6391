"""Rows out of the documents of a running appliance, one document a request, so that they come one by one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import cast, get_args

from appliance.core.errors import ApplianceError, Failure
from appliance.jobs.columns import columns_of
from appliance.jobs.evidence import FieldEvidence, Verdict
from appliance.jobs.extract import ExtractEvent, PartBegun, RowDone
from appliance.jobs.rows import ExtractedRow
from appliance.structured.json_text import JsonValue
from appliance.structured.python_types import format_of_argument
from tui.connected.server import ServerConnection, objects, texts, usage_of, whole


class ExtractionOfServer:
    """`ExtractPort` over HTTP."""

    def __init__(self, server: ServerConnection, model: Callable[[], str]) -> None:
        self._server = server
        self._model = model

    async def columns(self, schema: str) -> tuple[str, ...]:
        """Return the fields a schema names."""
        return (await asyncio.to_thread(lambda: columns_of(format_of_argument(schema)))).names

    async def run(
        self, schema: str, instruction: str, document_ids: Sequence[str]
    ) -> AsyncGenerator[ExtractEvent, None]:
        """Yield a row for each document; one that fails is a row that says why."""
        asked = json.loads((await asyncio.to_thread(format_of_argument, schema)).schema_json)
        for place, document_id in enumerate(document_ids, start=1):
            yield PartBegun(
                document_id=document_id,
                name=document_id[:8],
                document=place,
                documents=len(document_ids),
                part=1,
                parts=1,
            )
            row = await self._row(asked, instruction, document_id)
            yield RowDone(row=row, document=place, documents=len(document_ids))

    async def _row(self, schema: object, instruction: str, document_id: str) -> ExtractedRow:
        body: dict[str, object] = {
            "schema": schema,
            "instruction": instruction,
            "document_ids": [document_id],
            "model": self._model().partition("/")[2],
        }
        try:
            told = objects((await self._server.post("/v1/extractions", body)).get("data"))
            return _row_of(told[0] if told else {}, document_id)
        except ApplianceError as exc:
            failure = exc.to_failure()
            return ExtractedRow(document_id=document_id, name=document_id[:8], source="", failure=failure)


def _row_of(told: dict[str, object], document_id: str) -> ExtractedRow:
    values, failure = told.get("values"), told.get("failure")
    return ExtractedRow(
        document_id=document_id,
        name=str(told.get("name", document_id[:8])),
        source=str(told.get("source", "")),
        values=values if isinstance(values, dict) else {},
        evidence=tuple(_evidence_of(one) for one in objects(told.get("evidence"))),
        problems=texts(told.get("problems")),
        notes=texts(told.get("notes")),
        parts=whole(told.get("parts")),
        usage=usage_of(told.get("usage")),
        receipts=tuple(objects(told.get("receipts"))),
        failure=Failure(kind="internal", message=str(failure.get("message", "")))
        if isinstance(failure, dict)
        else None,
    )


def _evidence_of(told: dict[str, object]) -> FieldEvidence:
    verdicts: tuple[Verdict, ...] = get_args(Verdict)
    verdict: Verdict = next((one for one in verdicts if one == told.get("verdict")), "absent")
    # What came as JSON is a JSON value.
    value = cast("JsonValue", told.get("value"))
    return FieldEvidence(
        path=str(told.get("path", "")),
        value=value,
        verdict=verdict,
        quote=str(told.get("quote", "")),
        place=str(told.get("place", "")),
        start=whole(told.get("start")),
        end=whole(told.get("end")),
    )
