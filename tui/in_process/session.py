"""The appliance in this process, as the session the screens talk to."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from appliance.app import Appliance, build_appliance, open_facts
from appliance.config import Settings
from appliance.config.keys import USUAL_KEYS
from appliance.core.errors import InvalidRequestError
from appliance.core.requests import LOCAL_OWNER, SamplingParams
from appliance.gateway import Gateway
from appliance.memory.asked import AskedQuestions
from appliance.memory.chat_prompt import AnswerChoice, no_facts
from appliance.memory.conversations import Conversations
from appliance.memory.document_scope import DocumentScope
from appliance.memory.fact_recall import FactRecall
from appliance.memory.prompt import PreparePrompt
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.memory.short_term import policy_named
from appliance.storage.database import STORE_FILE, Database
from tui.in_process.bench import BenchOfMachine
from tui.in_process.chats import StoredChats
from tui.in_process.extraction import ExtractionOfDocuments
from tui.in_process.forgetting import ForgettingOfUser
from tui.in_process.library import LibraryOfDocuments
from tui.in_process.log import LogOfMachine
from tui.in_process.memory import MemoryOfUser
from tui.in_process.models import CatalogueOfModels
from tui.rows import SettingRow
from tui.session import ExtractPort, LibraryPort

_WHOLE_NUMBERS = ("top_k", "penalty_last_tokens", "seed", "max_tokens", "reasoning_budget")
_NUMBERS = ("temperature", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")
SETTABLE = (*_NUMBERS, *_WHOLE_NUMBERS)


class ChatLibrary(LibraryPort, Protocol):
    """A library that chats can put questions to."""

    def prompt(self, scope: DocumentScope) -> PreparePrompt: ...

    def scope_of(self, question: str) -> DocumentScope: ...

    def close(self) -> None: ...


class InProcessSession:
    """Builds the appliance when opened; closes models, parsers and the database at the end."""

    def __init__(
        self,
        settings: Settings,
        *,
        library: Callable[[Callable[[], str]], ChatLibrary] | None = None,
        extraction: Callable[[Callable[[], str]], ExtractPort] | None = None,
        on_close: Callable[[], Awaitable[None]] | None = None,
        server: str = "",
    ) -> None:
        self.server = server
        self._settings = settings
        self._on_close = on_close
        self._asked = AskedQuestions(settings.state_dir)
        self._choice = AnswerChoice(
            model=settings.model,
            sampling=settings.default_sampling(),
            memory=policy_named(settings.memory),
        )
        self._appliance: Appliance | None = None
        self._database: Database | None = None
        self._chats: StoredChats | None = None
        self._models: CatalogueOfModels | None = None
        self._memory: MemoryOfUser | None = None
        self._forgetting: ForgettingOfUser | None = None
        own = LibraryOfDocuments(settings, self._gateway, self._choice, forget_prompts=self._forget_prompts)
        self._library: ChatLibrary = library(self._answering) if library else own
        self._opened_library = None if library else own.opened
        self._bench = BenchOfMachine(settings, self._answering)
        self._log = LogOfMachine(settings.state_dir)
        self._extraction: ExtractPort = (
            extraction(self._answering)
            if extraction
            else ExtractionOfDocuments(own, self._gateway, self._choice)
        )

    @property
    def chats(self) -> StoredChats:
        """The chats; the session must be open."""
        assert self._chats is not None
        return self._chats

    @property
    def models(self) -> CatalogueOfModels:
        """The models; the session must be open."""
        assert self._models is not None
        return self._models

    @property
    def library(self) -> ChatLibrary:
        """The documents."""
        return self._library

    @property
    def memory(self) -> MemoryOfUser:
        """The long-term facts; the session must be open."""
        assert self._memory is not None
        return self._memory

    @property
    def forgetting(self) -> ForgettingOfUser:
        """Forgetting; the session must be open."""
        assert self._forgetting is not None
        return self._forgetting

    @property
    def extraction(self) -> ExtractPort:
        """Rows out of documents."""
        return self._extraction

    @property
    def bench(self) -> BenchOfMachine:
        """Measurements."""
        return self._bench

    @property
    def log(self) -> LogOfMachine:
        """What happened."""
        return self._log

    @property
    def model(self) -> str:
        """The model that answers."""
        return self._choice.model

    @model.setter
    def model(self, name: str) -> None:
        self._choice.model = name

    @property
    def sampling(self) -> SamplingParams:
        """How tokens are chosen."""
        return self._choice.sampling

    @property
    def is_offline(self) -> bool:
        """Whether every connection to another machine is forbidden."""
        return self._settings.offline

    @property
    def data_goes_to(self) -> str:
        """The hosts that are sent what is asked, this machine left out."""
        route = self._settings.routes.get(self._choice.model)
        models = [one.model for one in route.candidates] if route else [self._choice.model]
        servers = [self._settings.providers.get(model.partition("/")[0]) for model in models]
        hosts = [one.address.host for one in servers if one is not None and not one.address.is_here]
        return ", ".join(dict.fromkeys(hosts))

    def set_sampling(self, name: str, text: str) -> str:
        """Change one sampling value; `none` clears it. Returns the value as it is now."""
        if name not in SETTABLE:
            raise InvalidRequestError(f"there is no value {name!r}", hint="there are " + ", ".join(SETTABLE))
        self._choice.sampling = _changed(self._choice.sampling, name, text)
        return f"{name} {getattr(self._choice.sampling, name)}"

    async def open(self) -> None:
        """Open the store and wire the appliance. Nothing is loaded yet."""
        path = self._settings.data_dir / STORE_FILE
        self._database = await asyncio.to_thread(Database, path, [CONVERSATIONS, FACTS])
        self._appliance = build_appliance(self._settings)
        conversations = Conversations(self._database)
        facts = open_facts(self._settings, self._database)
        mode = self._settings.facts
        self._memory = MemoryOfUser(facts, conversations, self._gateway, self._choice, mode=mode)
        self._chats = StoredChats(
            conversations,
            self._appliance.gateway,
            self._choice,
            documents=self._library.prompt,
            scope_of=self._library.scope_of,
            recall=no_facts if mode == "off" else FactRecall(facts),
        )
        self._models = CatalogueOfModels(self._settings, self._appliance.gateway)
        self._forgetting = ForgettingOfUser(
            self._settings, self._database, self._opened_library, forget_prompts=self._forget_prompts
        )

    async def close(self) -> None:
        """Unload models, end parsers and close the store."""
        if self._appliance is not None:
            await self._appliance.close()
        await asyncio.to_thread(self._library.close)
        if self._database is not None:
            await asyncio.to_thread(self._database.close)
        if self._on_close is not None:
            await self._on_close()

    async def check_model(self, name: str) -> None:
        """Raise ModelNotFoundError for a name nobody knows."""
        assert self._appliance is not None
        await self._appliance.gateway.capabilities(name)

    async def context_window(self) -> int:
        """Return the window of the model that answers."""
        assert self._appliance is not None
        return (await self._appliance.gateway.capabilities(self._choice.model)).context_window

    def settings_rows(self) -> Sequence[SettingRow]:
        """Return every setting with its source."""
        origin = {setting.name: setting.origin for setting in self._settings.resolved}["keys"]
        keys = [
            SettingRow(
                name=f"keys.{action}",
                value=key,
                origin="default" if key == USUAL_KEYS[action] else origin,
                description=f"the key of the terminal interface for: {action.replace('_', ' ')}",
            )
            for action, key in self._settings.keys.items()
        ]
        rows = [
            SettingRow(
                name=setting.name,
                value=str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value),
                origin=setting.origin,
                description=setting.description,
            )
            for setting in self._settings.resolved
            if setting.name != "keys"
        ]
        return [*rows, *keys]

    def read_history(self) -> list[str]:
        """Return what was asked before, oldest first."""
        return self._asked.read()

    def add_history(self, text: str) -> None:
        """Remember a question."""
        self._asked.add(text)

    async def _forget_prompts(self) -> None:
        if self._appliance is not None:
            await self._appliance.forget_owner(LOCAL_OWNER)

    def _answering(self) -> str:
        return self._choice.model

    def _gateway(self) -> Gateway:
        assert self._appliance is not None
        return self._appliance.gateway


def _changed(sampling: SamplingParams, name: str, text: str) -> SamplingParams:
    try:
        value: float | None = int(text) if name in _WHOLE_NUMBERS else float(text)
    except ValueError as exc:
        if text.lower() != "none" or name not in ("seed", "max_tokens", "reasoning_budget"):
            raise InvalidRequestError(f"{name} takes a number, not {text!r}") from exc
        value = None
    # The field is chosen by name here, which no type can follow; SETTABLE bounds the names.
    changes: dict[str, float | None] = {name: value}
    return dataclasses.replace(sampling, **changes)  # type: ignore[arg-type]
