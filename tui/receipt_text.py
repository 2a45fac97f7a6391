"""Reads the receipt of a prompt and writes it for people; a receipt of an unknown shape is shown as it is."""

from __future__ import annotations

import json
from dataclasses import dataclass

from appliance.core.usage import Timings, Usage
from appliance.memory.turns import Turn
from tui.rows import ReceiptView


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the prompt and the tokens it takes."""

    name: str
    tokens: int


def sections_of(receipt_json: str) -> tuple[Section, ...]:
    """Return the sections a receipt lists, in order, the template's own tokens first; none where it lists none.

    What of an answer was written already when it was gone on with is left out: the answer's own tokens count it.
    """
    facts = _facts(receipt_json)
    listed = facts.get("sections")
    if not isinstance(listed, list):
        return ()
    template_tokens = facts.get("template_tokens")
    sections = [Section(name="template", tokens=template_tokens)] if isinstance(template_tokens, int) else []
    for item in listed:
        if not isinstance(item, dict):
            continue
        name, tokens = item.get("name"), item.get("tokens")
        if isinstance(name, str) and isinstance(tokens, int) and name != "answer":
            sections.append(Section(name=name, tokens=tokens))
    return tuple(sections)


def receipt_lines(turn: Turn, view: ReceiptView) -> list[str]:
    """Return everything known of how an answer was made."""
    lines = [*_usage_lines(turn), *_receipt_lines(view.receipt_json)]
    if view.model:
        lines += ["", "Sampling", f"  {view.model} · {view.sampling}"]
    lines += ["", f"The exact messages sent ({len(view.messages)})"]
    if not view.messages:
        lines.append("  not known, as for an imported answer")
    for role, text in view.messages:
        lines += ["", f"── {role} · {len(text):,} characters", text]
    return lines


def _usage_lines(turn: Turn) -> list[str]:
    if turn.answer is None:
        return ["This turn is no answer."]
    usage, timings = turn.answer.usage, turn.answer.timings
    model = turn.answer.model
    lines = ["Answer"]
    if model is not None:
        digest = f" · sha256 {model.digest[:16]}" if model.digest else ""
        lines.append(f"  {model.name} by {model.provider}{digest}")
    lines.append(f"  ended: {turn.answer.finish_reason or 'not known'} · state: {turn.state}")
    return [*lines, "", "Tokens", *_token_lines(usage), "", "Times", *_time_lines(usage, timings)]


def _token_lines(usage: Usage) -> list[str]:
    fresh = usage.input_tokens - usage.cached_tokens
    lines = [f"  prompt {usage.input_tokens:,}: {usage.cached_tokens:,} reused, {fresh:,} computed"]
    thinking = f", {usage.reasoning_tokens:,} of them thinking" if usage.reasoning_tokens else ""
    lines.append(f"  answer {usage.output_tokens:,}{thinking}")
    if usage.drafted_tokens:
        lines.append(f"  drafted {usage.drafted_tokens:,}, accepted {usage.accepted_tokens:,}")
    return lines


def _time_lines(usage: Usage, timings: Timings) -> list[str]:
    phases = [
        ("queue", timings.queue_s),
        ("load", timings.load_s),
        ("prefill", timings.prefill_s),
        ("decode", timings.decode_s),
        ("first token", timings.ttft_s),
        ("total", timings.total_s),
    ]
    lines = [f"  {name:<12}{seconds:>9.3f} s" for name, seconds in phases if seconds]
    if tpot_s := timings.tpot_s(usage.output_tokens):
        lines.append(f"  {'speed':<12}{1 / tpot_s:>9.1f} tokens/s")
    return lines or ["  none were measured"]


def _receipt_lines(receipt_json: str) -> list[str]:
    facts = _facts(receipt_json)
    if not facts:
        return ["", "Receipt", "  none was kept"]
    lines = ["", "Receipt: what the prompt holds, and what was left out"]
    for section in _listed_sections(facts):
        lines += _section_lines(section)
    for name, value in facts.items():
        # What the engine reused is told by the usage; when the prompt was built it was not known.
        if value is None or (name == "sections" and _listed_sections(facts)):
            continue
        lines += _fact_lines(name, value, "  ")
    return lines


def _listed_sections(facts: dict[str, object]) -> list[dict[str, object]]:
    listed = facts.get("sections")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _section_lines(section: dict[str, object]) -> list[str]:
    entries = section.get("entries")
    if not section.get("tokens") and not entries:
        return []
    limit = section.get("limit_tokens")
    most = "never cut" if limit is None else f"at most {_scalar(limit)}"
    lines = [f"  {section.get('name', '?')!s:<12}{_scalar(section.get('tokens')):>8} tokens · {most}"]
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict):
            reason = str(entry.get("reason", "")).replace("_", " ")
            cut = f" · {_scalar(entry['cut_tokens'])} left out" if entry.get("cut_tokens") else ""
            head = f"{entry.get('outcome', '')!s:<10}{_scalar(entry.get('tokens')):>8}"
            lines.append(f"    {head}{cut} · {reason} · {entry.get('label', '')}")
    return lines


def _fact_lines(name: str, value: object, indent: str) -> list[str]:
    label = name.replace("_", " ")
    match value:
        case dict():
            inner = [
                line for key, item in value.items() for line in _fact_lines(str(key), item, indent + "  ")
            ]
            return [f"{indent}{label}", *inner]
        case list() if not value:
            return [f"{indent}{label}: nothing"]
        case list() if len(value) == 1 and isinstance(value[0], str):
            return [f"{indent}{label}: {value[0]}"]
        case "":
            return [f"{indent}{label}: nobody" if name.endswith("_by") else f"{indent}{label}: nothing"]
        case list():
            return [f"{indent}{label}", *(f"{indent}  {_in_one_line(item)}" for item in value)]
        case _:
            return [f"{indent}{label}: {_scalar(value)}"]


def _in_one_line(item: object) -> str:
    if not isinstance(item, dict):
        return _scalar(item)
    return " · ".join(f"{str(key).replace('_', ' ')} {_scalar(value)}" for key, value in item.items())


def _scalar(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case list():
            return f"{len(value)}"
        case str() | float():
            return str(value)
        case _:
            return json.dumps(value, ensure_ascii=False)


def _facts(receipt_json: str) -> dict[str, object]:
    try:
        facts = json.loads(receipt_json) if receipt_json else {}
    except ValueError:
        return {"text": receipt_json}
    return facts if isinstance(facts, dict) else {"receipt": facts}
