"""`appliance facts`: what is remembered of the user; list, confirm, correct, delete, add and propose."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from appliance.cli.chats import json_option
from appliance.cli.invocation import Invocation
from appliance.core.errors import InvalidRequestError
from appliance.core.terminal_text import clean_for_terminal
from appliance.memory.conversations import Conversations
from appliance.memory.facts import Fact, Facts
from appliance.memory.schema import CONVERSATIONS, FACTS
from appliance.storage.database import STORE_FILE, Database

if TYPE_CHECKING:
    from appliance.config import Settings

_SHORT_ID = 8
_SHORTEST_ID = 4


@contextmanager
def _opened(settings: Settings) -> Iterator[tuple[Facts, Conversations]]:
    from appliance.app import open_facts

    database = Database(settings.data_dir / STORE_FILE, [CONVERSATIONS, FACTS])
    try:
        yield open_facts(settings, database), Conversations(database)
    finally:
        database.close()


@click.group("facts", invoke_without_command=True)
@click.pass_context
def facts_command(ctx: click.Context) -> None:
    """Show and change what is remembered of you.

    FACT is an id or its first characters. Facts are proposed after a conversation in your own words; only
    confirmed ones enter prompts, as data. `--set facts=off` keeps them all out. Without a subcommand, facts
    are listed.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_command)


@facts_command.command("list")
@json_option
@click.pass_obj
def list_command(invocation: Invocation, *, as_json: bool = False) -> None:
    """List proposals, then confirmed facts."""
    with _opened(invocation.settings()) as (facts, _):
        listed = [*facts.list_facts("proposed"), *facts.list_facts("confirmed")]
    if as_json:
        _say_json([dataclasses.asdict(fact) for fact in listed])
        return
    if not listed:
        click.echo("nothing is remembered", err=True)
    for fact in listed:
        _say(_row(fact))


@facts_command.command("add")
@click.argument("text")
@json_option
@click.pass_obj
def add_command(invocation: Invocation, *, text: str, as_json: bool) -> None:
    """Save a fact you state outright."""
    with _opened(invocation.settings()) as (facts, _):
        saved = facts.add(text)
    _tell(saved.fact, as_json=as_json)
    _tell_replaced(saved.replaced_text)


@facts_command.command("confirm")
@click.argument("fact")
@json_option
@click.pass_obj
def confirm_command(invocation: Invocation, *, fact: str, as_json: bool) -> None:
    """Save a proposal; a confirmed near-duplicate takes over its words."""
    with _opened(invocation.settings()) as (facts, _):
        saved = facts.confirm(_meant(facts, fact).id)
    _tell(saved.fact, as_json=as_json)
    _tell_replaced(saved.replaced_text)


@facts_command.command("edit")
@click.argument("fact")
@click.argument("text")
@json_option
@click.pass_obj
def edit_command(invocation: Invocation, *, fact: str, text: str, as_json: bool) -> None:
    """Give a fact other words."""
    with _opened(invocation.settings()) as (facts, _):
        corrected = facts.correct(_meant(facts, fact).id, text)
    _tell(corrected, as_json=as_json)


@facts_command.command("delete")
@click.argument("facts_meant", nargs=-1, required=True, metavar="FACT...")
@json_option
@click.pass_obj
def delete_command(invocation: Invocation, *, facts_meant: tuple[str, ...], as_json: bool) -> None:
    """Remove facts and proposals."""
    with _opened(invocation.settings()) as (facts, _):
        meant = [_meant(facts, reference) for reference in facts_meant]
        for fact in meant:
            facts.delete(fact.id)
    if as_json:
        _say_json([fact.id for fact in meant])
        return
    for fact in meant:
        _say(f"deleted {_row(fact)}")


@facts_command.command("propose")
@click.argument("chat")
@click.option("-m", "--model", metavar="NAME", help="Model that points out what is worth remembering.")
@json_option
@click.pass_obj
def propose_command(invocation: Invocation, *, chat: str, model: str | None, as_json: bool) -> None:
    """Look for facts in a chat: phrases of yours, in your own words, to confirm."""
    settings = invocation.settings({"model": model})
    with _opened(settings) as (facts, conversations):
        proposed = asyncio.run(_propose(settings, facts, conversations, chat))
    if as_json:
        _say_json([dataclasses.asdict(fact) for fact in proposed])
        return
    if not proposed:
        click.echo("nothing was found that is worth remembering", err=True)
    for fact in proposed:
        _say(_row(fact))


async def _propose(settings: Settings, facts: Facts, conversations: Conversations, chat: str) -> list[Fact]:
    from appliance.app import build_appliance
    from appliance.memory.fact_proposals import FactPhrases
    from appliance.memory.facts import propose_facts

    turns = conversations.turns.shown_branch(conversations.chats.resolve(chat).id)
    async with build_appliance(settings) as appliance:
        return await propose_facts(facts, turns, FactPhrases(appliance.gateway, model=settings.model))


def _meant(facts: Facts, reference: str) -> Fact:
    wanted = reference.strip().lower()
    held = [*facts.list_facts("proposed"), *facts.list_facts("confirmed")]
    found = [fact for fact in held if len(wanted) >= _SHORTEST_ID and fact.id.startswith(wanted)]
    if len(found) > 1:
        raise InvalidRequestError(
            f"{reference!r} fits {len(found)} facts", hint="give more characters of the id"
        )
    if not found:
        raise InvalidRequestError(f"there is no fact {reference!r}", hint="`appliance facts` lists them")
    return found[0]


def _tell(fact: Fact, *, as_json: bool) -> None:
    if as_json:
        _say_json(dataclasses.asdict(fact))
    else:
        _say(_row(fact))


def _tell_replaced(text: str) -> None:
    if text:
        click.echo(clean_for_terminal(f"took the place of: {text}"), err=True)


def _row(fact: Fact) -> str:
    changed = time.strftime("%Y-%m-%d", time.localtime(fact.updated_at_s))
    state = "to confirm" if fact.state == "proposed" else "confirmed"
    corrected = "  [corrected]" if fact.is_corrected else ""
    return f"{fact.id[:_SHORT_ID]}  {changed}  {state:<10}  {fact.text}{corrected}"


def _say(text: str) -> None:
    click.echo(clean_for_terminal(text))


def _say_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))
