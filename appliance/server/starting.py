"""Puts a server together from an appliance: the store with its tables, users, tokens, audit, documents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from appliance.app import Appliance
from appliance.memory.journal import stop_unfinished_answers
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.server.late_library import LateLibrary
from appliance.server.options import ServeOptions
from appliance.server.own.incoming import remove_left_over
from appliance.server.scorers import embedders_of, rerankers_of
from appliance.server.services import Services
from appliance.server.teams.audit import AuditLog
from appliance.server.teams.tables import TEAMS
from appliance.server.teams.tokens import Tokens
from appliance.server.teams.users import Users
from appliance.storage.database import STORE_FILE, Database


@contextmanager
def opened_services(appliance: Appliance, options: ServeOptions) -> Iterator[Services]:
    """Open what a server needs, and close it at the end. The token of this machine exists afterwards."""
    settings = appliance.settings
    database = Database(settings.data_dir / STORE_FILE, [CONVERSATIONS, FACTS, TEAMS])
    library = LateLibrary(appliance.open_library)
    embedders, rerankers = embedders_of(settings), rerankers_of(settings)
    try:
        stop_unfinished_answers(database)
        remove_left_over(settings.data_dir)
        services = Services(
            appliance=appliance,
            options=options,
            database=database,
            users=Users(database),
            tokens=Tokens(database),
            audit=AuditLog(database),
            library=library,
            embedders=embedders,
            rerankers=rerankers,
        )
        services.users.ensure_local()
        services.tokens.machine_token(settings.state_dir)
        yield services
    finally:
        library.close()
        embedders.close()
        rerankers.close()
        database.close()
