"""`appliance context`: the receipt of a prompt, counted by the model's own tokenizer; nothing is generated."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Unpack

import click

from appliance.cli.document_options import DocumentFlags, document_options
from appliance.cli.exit_codes import EXIT_OK
from appliance.cli.generation import GenerationFlags, generation_options, sampling_of, setting_flags
from appliance.cli.invocation import Invocation
from appliance.core.terminal_text import clean_for_terminal

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.context.receipt import ContextReceipt, ReceiptEntry
    from appliance.gateway import Gateway


class ContextFlags(GenerationFlags, DocumentFlags):
    """Every option of `context`."""


@click.command("context")
@click.argument("words", nargs=-1, required=True, metavar="QUESTION")
@generation_options
@document_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def context_command(
    invocation: Invocation, *, words: tuple[str, ...], as_json: bool, **flags: Unpack[ContextFlags]
) -> int:
    """Show what a prompt would hold, section by section, and what would be cut.

    The total is what the engine would compute for `appliance ask` with the same options, to the token. The
    model is loaded for its tokenizer and generates nothing.

    \b
    appliance context "when may I carry over leave?" -c handbook
    """
    settings = invocation.settings(setting_flags(flags))
    question = " ".join(words)
    if not question.strip():
        raise click.UsageError("there is no question")
    receipt = asyncio.run(_receipt(settings, question, flags))
    if as_json:
        click.echo(json.dumps(receipt.to_json(), ensure_ascii=sys.stdout.isatty(), indent=2))
        return EXIT_OK
    for line in receipt_lines(receipt):
        click.echo(clean_for_terminal(line))
    return EXIT_OK


async def _receipt(settings: Settings, question: str, flags: ContextFlags) -> ContextReceipt:
    from appliance.app import build_appliance

    async with build_appliance(settings) as appliance:
        if flags["collections"]:
            from appliance.cli.document_answers import document_question
            from appliance.cli.documents import open_library

            with open_library(settings) as library:
                asked = document_question(settings, question, flags)
                prepared = await appliance.document_asker(library).prepare(asked)
                return prepared.built.receipt
        return await _plain_receipt(settings, question, flags, appliance.gateway)


async def _plain_receipt(
    settings: Settings, question: str, flags: GenerationFlags, gateway: Gateway
) -> ContextReceipt:
    from appliance.context.budget import ContextBudget
    from appliance.context.builder import ContextBuilder
    from appliance.context.counting import RequestCounter
    from appliance.core.messages import Conversation, SystemMessage, UserMessage
    from appliance.core.requests import GenerateRequest

    system = [SystemMessage(text=flags["system"])] if flags["system"] else []
    request = GenerateRequest(
        conversation=Conversation.of(*system, UserMessage(text=question)),
        model=settings.model,
        sampling=sampling_of(settings.default_sampling(), **flags),
    )
    offered = await gateway.capabilities(settings.model)
    budget = ContextBudget(
        context_window=offered.context_window, reserved_tokens=request.sampling.max_tokens or 1
    )
    return (await ContextBuilder(RequestCounter(gateway.count_tokens), budget).build(request)).receipt


def receipt_lines(receipt: ContextReceipt) -> Iterator[str]:
    """Yield a receipt as a table, with the texts that can be cut below their section."""
    yield f"{'section':<10} {'tokens':>7}  {'at most':>7}  texts"
    yield f"{'template':<10} {receipt.template_tokens:>7}  {'':>7}  roles and marks of {receipt.model}"
    for section in receipt.sections:
        if section.name == "answer" and not section.tokens:
            continue  # nobody asked to go on with one
        limit = "" if section.limit_tokens is None else str(section.limit_tokens)
        kept = sum(entry.outcome != "cut" for entry in section.entries)
        texts = f"{kept} of {len(section.entries)}" if section.entries else "none"
        cut = f", {section.cut_tokens} tokens cut" if section.cut_tokens else ""
        yield f"{section.name:<10} {section.tokens:>7}  {limit:>7}  {texts}{cut}"
        if section.limit_tokens is not None:
            yield from (_entry_line(entry) for entry in section.entries)
    reserve = f"{receipt.reserved_tokens} kept free for the answer"
    window = f"of {receipt.context_window}, {reserve}"
    yield f"{'total':<10} {receipt.total_tokens:>7}  {receipt.available_tokens:>7}  {window}"
    if receipt.cached_tokens is not None:
        yield f"{'cached':<10} {receipt.cached_tokens:>7}"


def _entry_line(entry: ReceiptEntry) -> str:
    from appliance.context.receipt import REASONS

    words = {
        "kept": "",
        "shortened": f"shortened by {entry.cut_tokens}: it ",
        "cut": f"CUT {entry.cut_tokens}: it ",
    }
    reason = f"  ({words[entry.outcome]}{REASONS[entry.reason]})" if entry.outcome != "kept" else ""
    return f"  {entry.tokens:>15}           {entry.label}{reason}"
