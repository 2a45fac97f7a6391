"""A conversation as Markdown to read: the branch that is shown, with how each answer was made."""

from __future__ import annotations

import time

from appliance.memory.conversations import Conversations
from appliance.memory.turns import Turn

_STATES = {
    "stopped": "stopped before it was whole",
    "failed": "failed",
    "partial": "being written",
    "forgotten": "forgotten",
}


def export_markdown(conversations: Conversations, chat_id: str) -> str:
    """Return the shown branch of a chat as Markdown; other branches are counted, not printed."""
    chat = conversations.chats.get(chat_id)
    branch = conversations.turns.shown_branch(chat_id)
    folds = {summary.last_turn_id: summary for summary in conversations.summaries.of_chat(chat_id)}
    lines = [f"# {chat.title}", "", f"{_day(chat.created_at_s)}, {len(branch)} turns"]
    if hidden := chat.turn_count - len(branch):
        lines[-1] += f"; {hidden} more on other branches (`--format json` exports them all)"
    if chat.system_text:
        lines += ["", "**Instructions**", "", chat.system_text]
    for turn in branch:
        lines += ["", f"## {_heading(turn)}", "", turn.text or "(no text)"]
        if turn.reasoning:
            lines += ["", "<details><summary>Reasoning</summary>", "", turn.reasoning, "", "</details>"]
        for call in turn.tool_calls:
            lines += ["", f"Tool call `{call.name}`:", "", _fenced(call.arguments_json, "json")]
        if turn.id in folds:
            count = len(folds[turn.id].covered_turn_ids)
            lines += ["", f"> The {count} turns above were summarised for later answers:", ">"]
            lines += [f"> {line}" for line in folds[turn.id].text.splitlines()]
    return "\n".join(lines) + "\n"


def _heading(turn: Turn) -> str:
    if turn.role == "tool":
        return f"Tool result: {turn.tool_name}"
    if turn.role != "assistant":
        return {"user": "You", "note": "Note"}[turn.role]
    parts = ["Answer"]
    if turn.answer is not None and turn.answer.model is not None:
        parts.append(turn.answer.model.name)
    if turn.state != "done":
        parts.append(_STATES[turn.state])
    return ", ".join(parts)


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"


def _day(epoch_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(epoch_s))
