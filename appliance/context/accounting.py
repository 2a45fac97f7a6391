"""Attributes the tokens of a prompt to its sections so that they add up to the total exactly.

Tokens join across borders, so a section's own count depends on what stands around it. The prompt is therefore
filled section by section, from the bare template on, and each section is charged what the count grew by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from appliance.context.counting import TokenCounter
from appliance.context.parts import PromptParts
from appliance.context.receipt import SECTION_ORDER, SectionName
from appliance.core.messages import SystemMessage, UserMessage


async def account(parts: PromptParts, counter: TokenCounter) -> tuple[int, dict[SectionName, int]]:
    """Return the template's tokens and those of each section; together they are the prompt's tokens."""
    stages = _stages(parts)
    _, current = next(stages)
    template_tokens = before = await counter.count_request(current.to_request())
    tokens: dict[SectionName, int] = dict.fromkeys(SECTION_ORDER, 0)
    for name, stage in stages:
        if stage == current:
            continue
        current = stage
        count = await counter.count_request(stage.to_request())
        tokens[name] = max(0, count - before)
        # A template may drop text of its own when a section comes; then the template has become smaller.
        template_tokens += min(0, count - before)
        before = count
    return template_tokens, tokens


def _stages(parts: PromptParts) -> Iterator[tuple[SectionName, PromptParts]]:
    """Yield the bare template, then the prompt as it grows; the first name stands for nothing."""
    stage = replace(
        parts,
        request=replace(parts.request, tools=(), tool_choice="auto"),
        system=None if parts.system is None else SystemMessage(text=""),
        facts=(),
        summary="",
        turns=(),
        passages=(),
        question=UserMessage(text=""),
        after=(),
    )
    yield "system", stage
    stage = replace(stage, system=parts.system)
    yield "system", stage
    stage = replace(stage, request=parts.request)
    yield "tools", stage
    stage = replace(stage, facts=parts.facts)
    yield "memory", stage
    stage = replace(stage, summary=parts.summary)
    yield "summary", stage
    if parts.question is None:
        yield "turns", parts
        return
    after = parts.after if parts.open_turn is None else parts.after[:-1]
    stage = replace(stage, turns=parts.turns, after=after)
    yield "turns", stage
    stage = replace(stage, passages=parts.passages)
    yield "documents", stage
    yield "question", replace(parts, after=after)
    yield "answer", parts
