"""`appliance chats`: list, read, search, order, delete, export and import conversations."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from appliance.cli.invocation import Invocation
from appliance.core.errors import InvalidRequestError
from appliance.core.terminal_text import clean_for_terminal
from appliance.memory.chats import Shelf
from appliance.memory.conversations import Conversations
from appliance.memory.importer import import_file
from appliance.memory.markdown import export_markdown
from appliance.memory.portable import export_json
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.memory.search import ChatHit
from appliance.memory.turns import Chat, Turn
from appliance.storage.database import STORE_FILE, Database

_SHORT_ID = 8

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON value.")


@contextmanager
def open_conversations(invocation: Invocation) -> Iterator[Conversations]:
    """Open the store of the data folder for one command; other programs may have it open too."""
    database = Database(invocation.settings().data_dir / STORE_FILE, [CONVERSATIONS, FACTS])
    try:
        yield Conversations(database)
    finally:
        database.close()


@click.group("chats", invoke_without_command=True)
@click.pass_context
def chats_command(ctx: click.Context) -> None:
    """List, read, search and order conversations.

    CHAT is an id, its first characters, or the exact title. Without a subcommand, chats are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@chats_command.command("list")
@click.option("--archived", "shelf", flag_value="archived", help="List archived chats.")
@click.option("--trash", "shelf", flag_value="trash", help="List deleted chats.")
@click.option("--all", "shelf", flag_value="all", help="List everything but the trash.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@json_option
@click.pass_obj
def list_command(
    invocation: Invocation, *, shelf: Shelf | None = None, limit: int = 50, as_json: bool = False
) -> None:
    """List chats: pinned ones first, then by last use."""
    with open_conversations(invocation) as conversations:
        chats = conversations.chats.list_chats(shelf or "current", limit=limit)
    if as_json:
        _say(json.dumps([dataclasses.asdict(chat) for chat in chats], ensure_ascii=False, indent=2))
        return
    if not chats:
        click.echo("no chats here", err=True)
    for chat in chats:
        _say(chat_row(chat))


@chats_command.command("show")
@click.argument("chat")
@click.option("--branches", is_flag=True, help="Show every branch, not only the one in use.")
@json_option
@click.pass_obj
def show_command(invocation: Invocation, *, chat: str, branches: bool, as_json: bool) -> None:
    """Print a conversation."""
    with open_conversations(invocation) as conversations:
        found = conversations.chats.resolve(chat)
        turns = conversations.turns
        shown = turns.all_turns(found.id) if branches else turns.shown_branch(found.id)
        if as_json:
            listed = [dataclasses.asdict(turn) for turn in shown]
            described = {"chat": dataclasses.asdict(found), "turns": listed}
            _say(json.dumps(described, ensure_ascii=False, indent=2))
            return
        text = "\n\n".join(map(_spoken, shown)) if branches else export_markdown(conversations, found.id)
    _say(text)


@chats_command.command("rename")
@click.argument("chat")
@click.argument("title")
@click.pass_obj
def rename_command(invocation: Invocation, *, chat: str, title: str) -> None:
    """Give a chat another title."""
    with open_conversations(invocation) as conversations:
        renamed = conversations.chats.rename(conversations.chats.resolve(chat).id, title)
    _say(chat_row(renamed))


@chats_command.command("pin")
@click.argument("chat")
@click.option("--off", is_flag=True, help="Let it go from the top.")
@click.pass_obj
def pin_command(invocation: Invocation, *, chat: str, off: bool) -> None:
    """Keep a chat at the top of the list."""
    with open_conversations(invocation) as conversations:
        pinned = conversations.chats.pin(conversations.chats.resolve(chat).id, is_pinned=not off)
    _say(chat_row(pinned))


@chats_command.command("archive")
@click.argument("chat")
@click.option("--off", is_flag=True, help="Bring it back to the list.")
@click.pass_obj
def archive_command(invocation: Invocation, *, chat: str, off: bool) -> None:
    """Put a chat out of sight; search still finds it."""
    with open_conversations(invocation) as conversations:
        archived = conversations.chats.archive(conversations.chats.resolve(chat).id, is_archived=not off)
    _say(chat_row(archived))


@chats_command.command("delete")
@click.argument("chats", nargs=-1, required=True, metavar="CHAT...")
@click.pass_obj
def delete_command(invocation: Invocation, *, chats: tuple[str, ...]) -> None:
    """Move chats to the trash; `appliance chats undo` brings them back.

    To remove a chat for good, with every trace of it, use `appliance forget --chat CHAT`.
    """
    with open_conversations(invocation) as conversations:
        meant = [conversations.chats.resolve(chat) for chat in chats]
        for chat in meant:
            conversations.chats.delete(chat.id)
    for chat in meant:
        _say(f"deleted {chat_row(chat)}")
    click.echo("`appliance chats undo` brings back the last one", err=True)


@chats_command.command("undo")
@click.argument("chat", required=False)
@click.pass_obj
def undo_command(invocation: Invocation, *, chat: str | None) -> None:
    """Bring back a deleted chat; without a name, the one deleted last."""
    with open_conversations(invocation) as conversations:
        meant = conversations.chats.resolve(chat) if chat else conversations.chats.last_deleted()
        if meant is None:
            raise InvalidRequestError("the trash is empty")
        restored = conversations.chats.restore(meant.id)
    _say(f"restored {chat_row(restored)}")


@chats_command.command("search")
@click.argument("query")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True)
@json_option
@click.pass_obj
def search_command(invocation: Invocation, *, query: str, limit: int, as_json: bool) -> None:
    """Find words in all chats and titles; "words in quotes" are a phrase."""
    with open_conversations(invocation) as conversations:
        hits = conversations.search(query, limit=limit)
    if as_json:
        _say(json.dumps([dataclasses.asdict(hit) for hit in hits], ensure_ascii=False, indent=2))
        return
    if not hits:
        click.echo("nothing found", err=True)
    for hit in hits:
        _say(hit_row(hit))


@chats_command.command("export")
@click.argument("chats", nargs=-1, metavar="[CHAT...]")
@click.option("--all", "every", is_flag=True, help="Export every chat but the trash.")
@click.option(
    "--format", "form", type=click.Choice(["markdown", "json"]), default="markdown", show_default=True
)
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="Write a new file.")
@click.pass_obj
def export_command(
    invocation: Invocation, *, chats: tuple[str, ...], every: bool, form: str, output: Path | None
) -> None:
    """Export chats: Markdown to read, JSON with every branch to import again."""
    with open_conversations(invocation) as conversations:
        if every:
            chat_ids = [chat.id for chat in conversations.chats.list_chats("all", limit=-1)]
        else:
            chat_ids = [conversations.chats.resolve(chat).id for chat in chats]
        if not chat_ids and not every:
            raise click.UsageError("name a chat, or use --all")
        text = _exported(conversations, chat_ids, form)
    if output is None:
        click.echo(text if form == "json" else clean_for_terminal(text), nl=False)
        return
    _write_new(output, text)
    click.echo(f"{len(chat_ids)} {'chat' if len(chat_ids) == 1 else 'chats'} written to {output}", err=True)


@chats_command.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def import_command(invocation: Invocation, *, file: Path, as_json: bool) -> None:
    """Import chats: an own JSON export, OpenAI's conversations.json or zip, an Open WebUI export."""
    with open_conversations(invocation) as conversations:
        imported = import_file(conversations, file)
    if as_json:
        _say(json.dumps([dataclasses.asdict(chat) for chat in imported], ensure_ascii=False, indent=2))
        return
    for chat in imported:
        fate = f"skipped, {chat.skipped}" if chat.skipped else f"{chat.turn_count} turns"
        remarks = f" ({'; '.join(chat.remarks)})" if chat.remarks else ""
        _say(f"{chat.chat_id[:_SHORT_ID]:<{_SHORT_ID}}  {chat.title}: {fate}{remarks}")
    click.echo(f"{sum(not chat.skipped for chat in imported)} of {len(imported)} chats imported", err=True)


def chat_row(chat: Chat) -> str:
    """Return a chat as lists show it."""
    marks = [name for name, holds in (("pinned", chat.is_pinned), ("archived", chat.is_archived)) if holds]
    used = time.strftime("%Y-%m-%d %H:%M", time.localtime(chat.updated_at_s))
    suffix = f"  [{', '.join(marks)}]" if marks else ""
    return f"{chat.id[:_SHORT_ID]}  {used}  {chat.turn_count:>4} turns  {chat.title}{suffix}"


def hit_row(hit: ChatHit) -> str:
    """Return a found turn with the chat it stands in."""
    aside = "" if hit.is_shown else "  (on another branch)"
    return f"{hit.chat_id[:_SHORT_ID]}  {hit.chat_title}{aside}\n    {hit.role or 'title'}: {hit.excerpt}"


def _exported(conversations: Conversations, chat_ids: Sequence[str], form: str) -> str:
    if form == "json":
        return export_json(conversations, chat_ids) + "\n"
    return "\n".join(export_markdown(conversations, chat_id) for chat_id in chat_ids)


def _write_new(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as exc:
        raise InvalidRequestError(f"{path} exists already", hint="give another file name") from exc
    except OSError as exc:
        raise InvalidRequestError(f"{path} cannot be written: {exc.strerror}") from exc


def _spoken(turn: Turn) -> str:
    below = f" below {turn.parent_id[:_SHORT_ID]}" if turn.parent_id else ""
    state = "" if turn.state == "done" else f", {turn.state}"
    return f"[{turn.id[:_SHORT_ID]}{below}] {turn.role}{state}:\n{turn.text}"


def _say(text: str) -> None:
    click.echo(clean_for_terminal(text))
