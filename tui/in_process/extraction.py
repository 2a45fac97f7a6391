"""Extraction of the terminal interface: rows out of documents of the library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from typing import TYPE_CHECKING

from appliance.core.requests import LOCAL_OWNER, JsonSchemaFormat
from tui.in_process.library import LibraryOfDocuments

if TYPE_CHECKING:
    from collections.abc import Callable

    from appliance.gateway import Gateway
    from appliance.jobs.extract import ExtractEvent, ExtractTask
    from appliance.memory.chat_prompt import AnswerChoice


class ExtractionOfDocuments:
    """`ExtractPort` over the library and the model that answers."""

    def __init__(
        self, library: LibraryOfDocuments, gateway: Callable[[], Gateway], choice: AnswerChoice
    ) -> None:
        self._library = library
        self._gateway = gateway
        self._choice = choice

    async def columns(self, schema: str) -> tuple[str, ...]:
        """Return the fields a schema names."""
        from appliance.jobs.columns import columns_of

        return columns_of(await asyncio.to_thread(_format, schema)).names

    async def run(
        self, schema: str, instruction: str, document_ids: Sequence[str]
    ) -> AsyncGenerator[ExtractEvent, None]:
        """Yield a row for each document."""
        from appliance.jobs.extract import Extractor

        library = await asyncio.to_thread(self._library.opened)
        wanted = set(document_ids)
        documents = [one for one in library.store.documents(LOCAL_OWNER) if one.document_id in wanted]
        task = await asyncio.to_thread(self._task, schema, instruction)
        async with aclosing(Extractor(self._gateway(), library.store).run(task, documents)) as events:
            async for event in events:
                yield event

    def _task(self, schema: str, instruction: str) -> ExtractTask:
        from appliance.jobs.extract import DEFAULT_ANSWER_TOKENS, ExtractTask

        choice = self._choice
        sampling = replace(
            choice.sampling,
            temperature=0.0,
            max_tokens=choice.sampling.max_tokens or DEFAULT_ANSWER_TOKENS,
        )
        return ExtractTask(
            output=_format(schema), model=choice.model, instruction=instruction, sampling=sampling
        )


def _format(schema: str) -> JsonSchemaFormat:
    from appliance.structured.python_types import format_of_argument

    # A module named as `module:Class` may print while it is imported, into a terminal that is drawn on.
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        return format_of_argument(schema)
