"""What routes work with, and how a route gets it and its caller."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from appliance.app import Appliance
from appliance.memory.conversations import Conversations
from appliance.retrieval.opening import PassageEmbedder
from appliance.retrieval.rerank import ClosableReranker
from appliance.server.late_library import LateLibrary
from appliance.server.options import ServeOptions
from appliance.server.own.exchange import Exchanges
from appliance.server.problems import RefusedError
from appliance.server.running import Running
from appliance.server.scorers import LateModels, check_no_file
from appliance.server.teams.audit import AuditLog
from appliance.server.teams.tokens import Caller, Scope, Tokens
from appliance.server.teams.users import Users
from appliance.storage.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything a route may need; made once for a server."""

    appliance: Appliance
    options: ServeOptions
    database: Database
    users: Users
    tokens: Tokens
    audit: AuditLog
    library: LateLibrary
    embedders: LateModels[PassageEmbedder]
    rerankers: LateModels[ClosableReranker]
    exchanges: Exchanges = field(default_factory=Exchanges)
    running: Running = field(default_factory=Running)
    now_s: Callable[[], float] = time.time

    def model(self, stated: str | None) -> str:
        """Return the model a request means; without a name, or with `default`, the one the server was started with.

        Raises:
            ModelNotFoundError: it is the path of a file; only the operator of the machine may name those.
        """
        settings = self.appliance.settings
        if stated is None or stated in ("default", settings.model):
            return settings.model
        if stated.partition("/")[0] not in settings.providers:
            check_no_file(stated)
        return stated

    def conversations(self, caller: Caller) -> Conversations:
        """Return the door to the conversations of a caller; those of others do not exist behind it."""
        return self.conversations_of(caller.owner)

    def conversations_of(self, owner: str) -> Conversations:
        """Return the door to the conversations of one owner."""
        return Conversations(self.database, owner=owner, now_s=self.now_s)


def services_of(request: Request) -> Services:
    """Return the services of the server that got a request."""
    return cast(Services, request.app.state.services)


def needs(scope: Scope) -> Callable[[Request], Caller]:
    """Return a dependency that lets in callers whose token has a scope."""

    def caller_with_scope(request: Request) -> Caller:
        caller = cast(Caller, request.state.caller)
        if scope not in caller.scopes:
            raise RefusedError(
                f"this token lacks the scope {scope!r}",
                status=403,
                code="missing_scope",
                hint="`appliance token create --scope` makes one that has it",
            )
        return caller

    return caller_with_scope


ServicesOf = Annotated[Services, Depends(services_of)]
ChatCaller = Annotated[Caller, Depends(needs("chat"))]
DocumentCaller = Annotated[Caller, Depends(needs("documents"))]
AdminCaller = Annotated[Caller, Depends(needs("admin"))]

# For routes that let a caller in without asking who it is.
NEEDS_CHAT = Depends(needs("chat"))
NEEDS_DOCUMENTS = Depends(needs("documents"))
NEEDS_METRICS = Depends(needs("metrics"))
