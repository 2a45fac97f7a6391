"""What is shown while it is measured: a long answer with every kind of Markdown, and a chat of many turns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

MODEL = "scripted:long"
FIRST_WORDS = "## Part 1"
LAST_WORDS = "This was the whole answer."
_TEXT = (
    "the river carries water from the mountains to the sea and every town beside it has measured how high it"
    " stood in spring when snow melts or after weeks of rain so that a long table of numbers tells what to"
    " expect although no two years are alike"
)
_WORDS = _TEXT.split()


def long_answer(tokens: int) -> str:
    """Return Markdown of about that many words, which the scripted model takes for its tokens."""
    pieces: list[str] = []
    counted = 0
    for piece in _pieces():
        if counted >= tokens:
            break
        pieces.append(piece)
        counted += len(piece.split())
    return "\n\n".join([*pieces, LAST_WORDS])


def long_table(tokens: int) -> str:
    """Return one table of about that many words."""
    head = f"{FIRST_WORDS}\n\n| year | level | note |\n|---:|---:|---|\n"
    # A row has eight words and its bars.
    rows = [
        f"| {1900 + row} | {row * 7 % 31} cm | {_sentence(row, 5)} |" for row in range(max(1, tokens // 12))
    ]
    return head + "\n".join(rows) + f"\n\n{LAST_WORDS}"


def long_code(tokens: int) -> str:
    """Return one block of code of about that many words."""
    return (
        f"{FIRST_WORDS}\n\n```python\n"
        + "\n\n".join(_code(number) for number in range(max(1, tokens // 55)))
        + f"\n```\n\n{LAST_WORDS}"
    )


def script_of(text: str, token_s: float) -> str:
    """Return the script of a model that says it."""
    return (
        f"[[model]]\nname = {json.dumps(MODEL)}\ncontext_window = 200000\n"
        f"[[model.turn]]\nsteps = [{{say = {json.dumps(text)}, token_s = {token_s}}}]\n"
    )


def write_chat(file: Path, turns: int) -> None:
    """Write an export of one chat, which `appliance chats import` takes."""
    nodes: dict[str, dict[str, object]] = {
        "root": {"id": "root", "parent": None, "children": [], "message": None}
    }
    parent = "root"
    for number in range(1, turns + 1):
        name = f"turn-{number}"
        nodes[parent]["children"] = [name]
        message = _message(name, number, LAST_WORDS if number == turns else "")
        nodes[name] = {"id": name, "parent": parent, "children": [], "message": message}
        parent = name
    chat = {"title": "A chat of many turns", "create_time": 1.7e9, "mapping": nodes, "current_node": parent}
    file.write_text(json.dumps([chat]), encoding="utf-8")


def _message(name: str, number: int, last_words: str) -> dict[str, object]:
    is_question = number % 2 == 1
    answer = "\n\n".join(islice(_pieces(), number % 5, number % 5 + 2))
    text = f"Question {number}: {_sentence(number, 12)}" if is_question else f"Answer {number}.\n\n{answer}"
    return {
        "id": name,
        "author": {"role": "user" if is_question else "assistant"},
        "create_time": 1.7e9 + number,
        "content": {"content_type": "text", "parts": [f"{text}\n\n{last_words}".rstrip()]},
    }


def _pieces() -> Iterator[str]:
    for number in count(1):
        yield f"## Part {number}"
        yield _paragraph(number)
        yield "\n".join(f"{place}. {_sentence(number + place, 11)}" for place in range(1, 6))
        yield f"```python\n{_code(number)}\n```"
        yield _paragraph(number + 3)
        yield "| year | level | **note** |\n|---|---|---|\n" + "\n".join(
            f"| {1990 + row} | {row * 7 % 31} cm | {_sentence(row, 3)} |" for row in range(6)
        )
        yield "\n".join(f"- {_sentence(number + place, 8)} `level({place})`" for place in range(4))


def _paragraph(number: int) -> str:
    return " ".join(f"{_sentence(number + place, 14)} It is *measured* **twice**." for place in range(4))


def _sentence(number: int, words: int) -> str:
    chosen = [_WORDS[(number * 7 + place) % len(_WORDS)] for place in range(words)]
    return " ".join(chosen).capitalize() + "."


def _code(number: int) -> str:
    lines = [f"    level_{place} = measure(river, {place * number}, 'spring')" for place in range(10)]
    return "\n".join([f"def levels_{number}(river):", *lines, "    return [level_0, level_9]"])
