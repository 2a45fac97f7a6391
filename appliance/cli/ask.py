"""`appliance ask`: one question, one answer streamed to standard output."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Unpack

import click

from appliance.cli.answering import ShownAnswer, answer_on_screen
from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from appliance.cli.generation import GenerationFlags, generation_options, sampling_of, setting_flags
from appliance.cli.invocation import Invocation
from appliance.cli.screen import AnswerScreen
from appliance.cli.stats import stats_line
from appliance.core.errors import InvalidRequestError, error_of
from appliance.core.events import ModelIdentity
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest
from appliance.core.results import GenerateFailure, GenerateSuccess

if TYPE_CHECKING:
    from appliance.config import Settings


@click.command("ask")
@click.argument("words", nargs=-1, metavar="[QUESTION]")
@generation_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the answer has ended.")
@click.pass_obj
def ask_command(
    invocation: Invocation, *, words: tuple[str, ...], as_json: bool, **flags: Unpack[GenerationFlags]
) -> int:
    """Answer one question and leave.

    Text piped in becomes part of the question: it is appended after a blank line, its last line breaks
    taken away. Without a question, the text piped in is the question.

    \b
    appliance ask "why is the sky blue?"
    cat report.txt | appliance ask "summarise this in one sentence"

    Ctrl+C stops the answer and keeps what was written. Exit codes: 0 answered, 1 failed, 2 wrong usage,
    130 interrupted.
    """
    question = _question(" ".join(words))
    settings = invocation.settings(setting_flags(flags))
    request = _request(question, settings, flags)
    screen = AnswerScreen(shows_text=not as_json, shows_reasoning=flags["shows_reasoning"])
    shown = asyncio.run(_ask(settings, request, screen))
    if as_json:
        click.echo(_json_text(_as_json(shown, request.model)))
    if flags["shows_stats"]:
        screen.note(stats_line(shown))
    return _close(shown, screen, reports_failure=not as_json)


async def _ask(settings: Settings, request: GenerateRequest, screen: AnswerScreen) -> ShownAnswer:
    from appliance.app import build_appliance

    async with build_appliance(settings) as appliance:
        return await answer_on_screen(appliance.gateway, request, screen)


def _close(shown: ShownAnswer, screen: AnswerScreen, *, reports_failure: bool) -> int:
    if shown.is_interrupted:
        screen.note("interrupted")
        return EXIT_INTERRUPTED
    match shown.result:
        case GenerateSuccess(finish_reason="length", usage=usage):
            screen.note(f"note: the answer was cut after {usage.output_tokens} tokens; {_LENGTH_HINT}")
            return EXIT_OK
        case GenerateSuccess():
            return EXIT_OK
        case GenerateFailure(failure=failure):
            if reports_failure:
                raise error_of(failure)
            return EXIT_FAILURE


_LENGTH_HINT = "--max-tokens or the context window (--context) ended it"


def _question(argument: str) -> str:
    try:
        argument.encode()
    except UnicodeEncodeError as exc:
        raise click.UsageError("the question is not valid UTF-8 text") from exc
    piped = _piped_text()
    parts = [part for part in (argument, piped) if part.strip()]
    if not parts:
        raise click.UsageError('nothing was asked; try: appliance ask "why is the sky blue?"')
    return "\n\n".join(parts)


def _piped_text() -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError as exc:
        raise click.UsageError(
            f"standard input is not UTF-8 text: byte {exc.start} is 0x{exc.object[exc.start]:02x}"
        ) from exc


def _request(question: str, settings: Settings, flags: GenerationFlags) -> GenerateRequest:
    system = [SystemMessage(text=flags["system"])] if flags["system"] else []
    try:
        return GenerateRequest(
            conversation=Conversation.of(*system, UserMessage(text=question)),
            model=settings.model,
            sampling=sampling_of(settings.default_sampling(), **flags),
        )
    except InvalidRequestError as exc:
        raise click.UsageError(exc.message) from exc


def _json_text(values: dict[str, object]) -> str:
    """A terminal gets ASCII: JSON escapes what it would obey, and loses nothing by it."""
    return json.dumps(values, ensure_ascii=sys.stdout.isatty())


def _as_json(shown: ShownAnswer, model: str) -> dict[str, object]:
    result = shown.result
    tpot_s = result.timings.tpot_s(result.usage.output_tokens)
    numbers = {
        "usage": None if shown.is_interrupted else asdict(result.usage),
        "timings": {**asdict(result.timings), "tpot_s": tpot_s},
    }
    if isinstance(result, GenerateSuccess):
        return {
            "text": result.message.text,
            "reasoning": result.message.reasoning,
            "finish_reason": result.finish_reason,
            **numbers,
            "model": asdict(result.model),
            "failure": None,
        }
    return {
        "text": result.partial.text,
        "reasoning": result.partial.reasoning,
        "finish_reason": "cancelled" if result.failure.kind == "cancelled" else "error",
        **numbers,
        "model": asdict(ModelIdentity(provider="", name=model)),
        "failure": asdict(result.failure),
    }
