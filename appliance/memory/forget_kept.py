"""What every forgetting goes through behind chats and documents: traces, stored answers, prefixes, files."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from appliance.config import Settings
from appliance.core.forgetting import Forgettable
from appliance.gateway.response_cache import ForgettableAnswers
from appliance.memory.asked import AskedQuestions, ForgettableQuestions
from appliance.memory.forget_files import SearchedFolder, StoreFile
from appliance.memory.mentions import mentions
from appliance.storage.database import Database
from appliance.telemetry.forgetting import ForgettableTraces
from appliance.telemetry.trace_store import TRACES_FILE, TraceStore


def kept_beside(settings: Settings, database: Database, closing: ExitStack) -> list[Forgettable]:
    """Open the stores beside chats and documents, the file of the database last; `closing` closes them."""
    stores: list[Forgettable] = []
    if (settings.state_dir / TRACES_FILE).exists():
        traces = TraceStore(settings.state_dir / TRACES_FILE)
        closing.callback(traces.close)
        stores.append(ForgettableTraces(traces, mentions))
    if (answers := ForgettableAnswers.below(settings.cache_dir)) is not None:
        closing.callback(answers.close)
        stores.append(answers)
    prefixes = settings.state_dir / "prefixes"
    stores.append(SearchedFolder("saved prefixes", prefixes, clear=lambda _: _delete_files(prefixes)))
    stores.append(ForgettableQuestions(AskedQuestions(settings.state_dir), database))
    stores.append(SearchedFolder("state and logs", settings.state_dir))
    stores.append(SearchedFolder("caches", settings.cache_dir))
    stores.append(StoreFile(database))
    return stores


def _delete_files(folder: Path) -> int:
    files = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
    for path in files:
        path.unlink(missing_ok=True)
    return len(files)
