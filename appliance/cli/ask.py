"""`appliance ask`: one question, one answer streamed to standard output."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Unpack

import click

from appliance.cli.answering import ShownAnswer, answer_on_screen
from appliance.cli.document_options import DocumentFlags, ReadingFlags, document_options, reading_options
from appliance.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK
from appliance.cli.generation import GenerationFlags, generation_options, sampling_of, setting_flags
from appliance.cli.invocation import Invocation
from appliance.cli.leaving import note_where_data_goes
from appliance.cli.output_format import AskedForm, FormatFlags, form_of, format_options
from appliance.cli.screen import AnswerScreen
from appliance.cli.stats import stats_line
from appliance.core.errors import InvalidRequestError, error_of
from appliance.core.events import ModelIdentity
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, JsonSchemaFormat, OutputFormat, TextFormat
from appliance.core.results import GenerateFailure, GenerateSuccess

if TYPE_CHECKING:
    from appliance.config import Settings
    from appliance.context.whole import WholeMethod
    from appliance.gateway import FormatCost


class AskFlags(GenerationFlags, FormatFlags, DocumentFlags, ReadingFlags):
    """Every option of `ask` that the request is made of."""


@click.command("ask")
@click.argument("words", nargs=-1, metavar="[QUESTION]")
@generation_options
@format_options
@document_options
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object when the answer has ended.")
@click.pass_obj
def ask_command(
    invocation: Invocation, *, words: tuple[str, ...], as_json: bool, **flags: Unpack[AskFlags]
) -> int:
    """Answer one question and leave.

    Text piped in becomes part of the question: it is appended after a blank line, its last line breaks
    taken away. Without a question, the text piped in is the question.

    \b
    appliance ask "why is the sky blue?"
    cat report.txt | appliance ask "summarise this in one sentence"

    \b
    appliance ask "who wrote Emma?" --schema "name, born int?"
    appliance ask "is this spam? ..." --choice yes,no
    appliance ask "when may I carry over leave?" -c handbook

    With --schema, --choice, --regex or --grammar the answer cannot have another form; what cannot be
    enforced is refused before the model runs. --schema module:Class takes a Pydantic model of the current
    folder: it runs that module's code, lets its validators judge the answer, and prints the answer once it
    is valid. An answer that breaks its rules is written once more, told what is wrong.

    With -c the answer comes from documents, with numbered citations. Every quote is checked against the
    stored text; what cannot be found there is shown as unverified.

    Ctrl+C stops the answer and keeps what was written. Exit codes: 0 answered, 1 failed, 2 wrong usage,
    130 interrupted.
    """
    question = _question(" ".join(words))
    settings = invocation.settings(setting_flags(flags))
    form = form_of(flags)
    if flags["collections"]:
        return _from_documents(settings, question, form, flags, as_json=as_json)
    if flags["reads_all"] or flags["refines"]:
        raise click.UsageError("--all and --refine read documents; name a collection with -c")
    if flags["queries"]:
        raise click.UsageError("--queries searches documents; name a collection with -c")
    request = replace(_request(question, settings, flags), output=form.output)
    screen = AnswerScreen(shows_text=not as_json, shows_reasoning=flags["shows_reasoning"])
    shown, cost = asyncio.run(_ask(settings, request, form, screen))
    if as_json:
        click.echo(_json_text(_as_json(shown, request, cost)))
    if flags["shows_stats"]:
        screen.note(stats_line(shown))
    is_free = isinstance(request.output, TextFormat)
    return _close(shown, screen, is_free=is_free, reports_failure=not as_json)


def _from_documents(
    settings: Settings, question: str, form: AskedForm, flags: AskFlags, *, as_json: bool
) -> int:
    from appliance.cli.document_answers import ask_documents, read_whole

    if not isinstance(form.output, TextFormat):
        raise click.UsageError(
            "an answer from documents has a form of its own; leave out --schema and the like"
        )
    if flags["refines"] and not flags["reads_all"]:
        raise click.UsageError("--refine needs --all")
    if flags["reads_all"] and flags["queries"]:
        raise click.UsageError("--all reads everything; --queries would search for nothing more")
    if flags["reads_all"]:
        method: WholeMethod = "refine" if flags["refines"] else "map_reduce"
        return read_whole(settings, question, flags, method, as_json=as_json)
    return ask_documents(settings, question, flags, queries=flags["queries"], as_json=as_json)


async def _ask(
    settings: Settings, request: GenerateRequest, form: AskedForm, screen: AnswerScreen
) -> tuple[ShownAnswer, FormatCost | None]:
    from appliance.app import build_appliance

    async with build_appliance(settings) as appliance:
        await note_where_data_goes(appliance, request.model, screen)
        shown = await answer_on_screen(appliance.gateway, request, screen, form.answer_type)
        if not isinstance(shown.result, GenerateSuccess):
            return shown, None
        return shown, await appliance.gateway.count_format(request)


def _close(shown: ShownAnswer, screen: AnswerScreen, *, is_free: bool, reports_failure: bool) -> int:
    if shown.is_interrupted:
        screen.note("interrupted")
        return EXIT_INTERRUPTED
    match shown.result:
        case GenerateSuccess(finish_reason="length", usage=usage):
            ending = "cut" if is_free else "closed early"
            screen.note(f"note: the answer was {ending} after {usage.output_tokens} tokens; {_LENGTH_HINT}")
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


def _value_of(text: str, output: OutputFormat) -> object:
    """What a program wants of a valid answer; free text has none."""
    if isinstance(output, TextFormat):
        return None
    value: object = json.loads(text) if isinstance(output, JsonSchemaFormat) else text
    return value


def _as_json(shown: ShownAnswer, request: GenerateRequest, cost: FormatCost | None) -> dict[str, object]:
    result = shown.result
    tpot_s = result.timings.tpot_s(result.usage.output_tokens)
    numbers = {
        "usage": None if shown.is_interrupted else asdict(result.usage),
        "timings": {**asdict(result.timings), "tpot_s": tpot_s},
        "format_in_prompt": None if cost is None else asdict(cost),
    }
    if isinstance(result, GenerateSuccess):
        return {
            "text": result.message.text,
            "value": _value_of(result.message.text, request.output),
            "reasoning": result.message.reasoning,
            "finish_reason": result.finish_reason,
            **numbers,
            "model": asdict(result.model),
            "failure": None,
        }
    return {
        "text": result.partial.text,
        "value": None,
        "reasoning": result.partial.reasoning,
        "finish_reason": "cancelled" if result.failure.kind == "cancelled" else "error",
        **numbers,
        "model": asdict(ModelIdentity(provider="", name=request.model)),
        "failure": asdict(result.failure),
    }
