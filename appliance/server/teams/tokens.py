"""Tokens: made once, shown once, stored as a hash, with scopes and an end."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from appliance.core.errors import AuthenticationError, InvalidRequestError
from appliance.core.requests import LOCAL_OWNER
from appliance.server.teams.audit import append_entry
from appliance.server.teams.users import Role, User, Users
from appliance.storage.database import Database

Scope = Literal["chat", "documents", "metrics", "admin"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
ALLOWED: dict[Role, frozenset[Scope]] = {
    "member": frozenset(("chat", "documents")),
    "admin": frozenset(SCOPES),
}
TOKEN_FILE = "server-token"  # noqa: S105  the name of a file
_PREFIX = "apl"
_ID_BYTES = 6
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """What is known of a token; the token itself is not."""

    id: str
    user_id: str
    user_name: str
    label: str
    scopes: frozenset[Scope]
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was just made. `text` is shown once and cannot be had again."""

    text: str
    record: TokenRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request, and what the token of the request may do. `owner` scopes everything stored."""

    user: User
    token_id: str
    scopes: frozenset[Scope]

    @property
    def owner(self) -> str:
        """The owner of everything this caller stores and finds."""
        return self.user.id


class Tokens:
    """Makes, lists, revokes and checks tokens. The database must have the TEAMS schema."""

    def __init__(self, database: Database, *, now_s: Callable[[], float] = time.time) -> None:
        self._database = database
        self._users = Users(database, now_s=now_s)
        self._now_s = now_s

    def create(
        self,
        user: User,
        *,
        actor: str,
        label: str = "",
        scopes: Sequence[Scope] = (),
        lifetime_s: float | None = None,
    ) -> NewToken:
        """Make a token; without scopes it gets all of its user's role.

        Raises:
            InvalidRequestError: a scope is beyond the role, or the lifetime is not above 0.
        """
        granted = frozenset(scopes) or ALLOWED[user.role]
        if beyond := sorted(granted - ALLOWED[user.role]):
            raise InvalidRequestError(
                f"{user.name} is a {user.role} and cannot have the scope {beyond[0]!r}",
                hint=f"allowed are: {', '.join(sorted(ALLOWED[user.role]))}",
            )
        if lifetime_s is not None and lifetime_s <= 0:
            raise InvalidRequestError("the lifetime of a token must be above 0")
        now_s = self._now_s()
        token_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        expires_at_s = None if lifetime_s is None else now_s + lifetime_s
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO tokens (id, user_id, label, secret_sha256, scopes, created_at_s, expires_at_s) "
                "VALUES (?, ?, ?, ?, ?, ?, ?)",
                (token_id, user.id, label, _hash(secret), " ".join(sorted(granted)), now_s, expires_at_s),
            )
            details = {"user": user.name, "scopes": " ".join(sorted(granted))}
            append_entry(connection, now_s, actor, "token.created", token_id, details)
        record = next(record for record in self.list_tokens() if record.id == token_id)
        return NewToken(text=f"{_PREFIX}_{token_id}_{secret}", record=record)

    def list_tokens(self, user: User | None = None) -> list[TokenRecord]:
        """Return the tokens, newest first, of one user or of all."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT tokens.id, user_id, users.name, label, scopes, tokens.created_at_s, expires_at_s, "
                "revoked_at_s FROM tokens JOIN users ON users.id = user_id ORDER BY tokens.rowid DESC"
            ).fetchall()
        records = [_record(row) for row in rows]
        return [record for record in records if user is None or record.user_id == user.id]

    def revoke(self, token_id: str, *, actor: str) -> None:
        """Make a token useless from now on.

        Raises:
            InvalidRequestError: there is no such token, or it is revoked already.
        """
        with self._database.transaction() as connection:
            revoked = connection.execute(
                "UPDATE tokens SET revoked_at_s = ? WHERE id = ? AND revoked_at_s IS NULL",
                (self._now_s(), token_id),
            )
            if revoked.rowcount == 0:
                raise InvalidRequestError(
                    f"there is no token {token_id!r} to revoke", hint="`appliance token list` shows them"
                )
            append_entry(connection, self._now_s(), actor, "token.revoked", token_id)

    def check(self, text: str) -> Caller:
        """Return who a token stands for.

        Raises:
            AuthenticationError: it is unknown, wrong, expired or revoked.
        """
        prefix, _, rest = text.partition("_")
        token_id, _, secret = rest.partition("_")
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT secret_sha256, user_id, scopes, expires_at_s, revoked_at_s FROM tokens WHERE id = ?",
                (token_id,),
            ).fetchone()
        # An unknown id costs the same comparison as a wrong secret.
        expected = row[0] if row else "0" * 64
        if not hmac.compare_digest(_hash(secret), expected) or prefix != _PREFIX or row is None:
            raise AuthenticationError(
                "the token is not valid", hint="`appliance token` shows the one of this machine"
            )
        if row[4] is not None:
            raise AuthenticationError("the token was revoked", hint="ask an administrator for another")
        if row[3] is not None and self._now_s() >= row[3]:
            raise AuthenticationError("the token has expired", hint="ask an administrator for another")
        user = self._users.by_id(row[1])
        if user is None:
            raise AuthenticationError("the user of this token was removed")
        scopes = frozenset(_scopes(row[2])) & ALLOWED[user.role]
        return Caller(user=user, token_id=token_id, scopes=scopes)

    def machine_token(self, folder: Path) -> str:
        """Return the token of this machine's user, made at the first call and kept in a private file."""
        path = folder / TOKEN_FILE
        kept = _read(path)
        if kept and self._is_good(kept):
            return kept
        user = self._users.ensure_local()
        token = self.create(user, actor=LOCAL_OWNER, label="this machine").text
        _write_private(path, token)
        return token

    def _is_good(self, text: str) -> bool:
        try:
            self.check(text)
        except AuthenticationError:
            return False
        return True


def _hash(secret: str) -> str:
    """A plain hash is enough: the secret is 256 random bits, which nobody can guess from it."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _scopes(text: str) -> list[Scope]:
    return [scope for scope in SCOPES if scope in text.split()]


def _record(
    row: tuple[str, str, str, str, str, float, float | None, float | None],
) -> TokenRecord:
    return TokenRecord(
        id=row[0],
        user_id=row[1],
        user_name=row[2],
        label=row[3],
        scopes=frozenset(_scopes(row[4])),
        created_at_s=row[5],
        expires_at_s=row[6],
        revoked_at_s=row[7],
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
