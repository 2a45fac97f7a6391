from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from appliance.core.clock import SystemClock
from appliance.core.errors import InvalidRequestError
from appliance.core.events import ModelIdentity, ReasoningDelta, TextDelta, ToolCallDelta
from appliance.core.messages import SystemMessage, ToolMessage, UserMessage
from appliance.core.requests import SamplingParams
from appliance.core.usage import Usage
from appliance.memory.conversations import Conversations
from appliance.memory.importer import import_chats, import_file, read_export
from appliance.memory.journal import AnswerEnd
from appliance.memory.markdown import export_markdown
from appliance.memory.portable import export_json, take_out
from appliance.memory.rows import AnswerDelta
from appliance.memory.schema import CONVERSATIONS
from appliance.memory.turns import Chat, SentRequest, Turn, TurnState
from appliance.storage.database import Database

MODEL = ModelIdentity(provider="p", name="small:1", digest="abc")


def answer(
    conversations: Conversations, chat_id: str, parent: Turn, *deltas: AnswerDelta, state: TurnState = "done"
) -> Turn:
    request = SentRequest(
        model="small:1",
        messages=(SystemMessage(text="be short"), UserMessage(text="literal evidence"), parent.message()),
        sampling=SamplingParams(seed=9, logit_bias={3: -1.0}),
        prompt_id="plain",
        prompt_version="2",
    )
    turn = conversations.turns.begin_answer(chat_id, request, parent_id=parent.id, receipt_json='{"a": 1}')
    journal = conversations.turns.journal(turn.id, SystemClock())
    for delta in deltas:
        journal.append(delta)
    journal.finish(
        AnswerEnd(
            state=state, finish_reason="stop", model=MODEL, usage=Usage(input_tokens=4, output_tokens=2)
        )
    )
    return conversations.turns.get(turn.id)


@pytest.fixture
def full_chat(conversations: Conversations) -> Chat:
    chat = conversations.chats.create(system_text="be short")
    question = conversations.turns.add_user_turn(chat.id, "Où est ``` le café? 日本", parent_id=None)
    answer(conversations, chat.id, question, TextDelta(text="old answer"), state="stopped")
    called = answer(
        conversations,
        chat.id,
        question,
        ReasoningDelta(text="hm"),
        TextDelta(text="I look"),
        ToolCallDelta(index=0, call_id="c1", name="look", arguments_delta='{"a":"```"}'),
    )
    result = conversations.turns.add_tool_turn(
        chat.id, ToolMessage(call_id="c1", name="look", text="found"), parent_id=called.id
    )
    last = answer(conversations, chat.id, result, TextDelta(text="There."))
    conversations.summaries.add(conversations.turns.branch(last.id), "they talked", made_by="small:1")
    conversations.chats.rename(chat.id, "Café talk")
    conversations.chats.pin(chat.id)
    return conversations.chats.get(chat.id)


def facts_of(conversations: Conversations, chat_id: str) -> list[object]:
    taken = take_out(conversations, chat_id)
    place = {portable.turn.id: position for position, portable in enumerate(taken.turns)}
    return [
        taken.title,
        taken.system_text,
        taken.created_at_s,
        taken.is_pinned,
        place[taken.active_turn_id],
        [(summary.text, [place[each] for each in summary.covered_turn_ids]) for summary in taken.summaries],
        [
            (
                place.get(portable.turn.parent_id),
                portable.turn.role,
                portable.turn.state,
                portable.turn.text,
                portable.turn.reasoning,
                portable.turn.tool_calls,
                portable.turn.tool_call_id,
                portable.turn.created_at_s,
                portable.turn.answer,
                portable.request,
                portable.receipt_json,
            )
            for portable in taken.turns
        ],
    ]


def test_the_own_export_comes_back_whole_in_another_store(
    conversations: Conversations, full_chat: Chat, tmp_path: Path
) -> None:
    exported = export_json(conversations, [full_chat.id])
    other = Conversations(Database(tmp_path / "other.db", [CONVERSATIONS]))
    (tmp_path / "export.json").write_text(exported)

    (imported,) = import_file(other, tmp_path / "export.json")

    assert facts_of(other, imported.chat_id) == facts_of(conversations, full_chat.id)
    assert [hit.chat_id for hit in other.search("cafe talk")] == [imported.chat_id]
    assert other.database.check_integrity() == ()


def test_importing_the_same_export_twice_changes_nothing(
    conversations: Conversations, full_chat: Chat, tmp_path: Path
) -> None:
    chats = read_export(export_json(conversations, [full_chat.id]).encode())
    other = Conversations(Database(tmp_path / "other.db", [CONVERSATIONS]))

    first, second, home = (import_chats(each, chats)[0] for each in (other, other, conversations))

    assert first.skipped == ""
    assert second.skipped == home.skipped == "it is here already"
    assert len(other.chats.list_chats("all")) == 1


def test_markdown_shows_the_branch_with_how_it_was_made(
    conversations: Conversations, full_chat: Chat
) -> None:
    text = export_markdown(conversations, full_chat.id)

    assert text.startswith("# Café talk\n")
    assert "Où est ``` le café? 日本" in text
    assert "## Answer, small:1" in text
    assert '````json\n{"a":"```"}\n````' in text
    assert "old answer" not in text
    assert "1 more on other branches" in text
    assert "> they talked" in text


OPENAI = [
    {
        "title": "Trip",
        "create_time": 1700000000.5,
        "update_time": 1700000100.0,
        "conversation_id": "conv-1",
        "current_node": "a2",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["sys"]},
            "sys": {
                "id": "sys",
                "parent": "root",
                "children": ["q"],
                "message": {
                    "author": {"role": "system"},
                    "content": {"content_type": "text", "parts": [""]},
                    "metadata": {"is_visually_hidden_from_conversation": True},
                },
            },
            "q": {
                "id": "q",
                "parent": "sys",
                "children": ["a1", "a2"],
                "message": {
                    "author": {"role": "user"},
                    "create_time": 1700000001.0,
                    "content": {
                        "content_type": "multimodal_text",
                        "parts": [{"content_type": "image_asset_pointer"}, "Where to?"],
                    },
                },
            },
            "a1": {
                "id": "a1",
                "parent": "q",
                "children": [],
                "message": {
                    "author": {"role": "assistant"},
                    "status": "finished_successfully",
                    "content": {"content_type": "text", "parts": ["Rome"]},
                    "metadata": {"model_slug": "gpt-4o"},
                },
            },
            "a2": {
                "id": "a2",
                "parent": "q",
                "children": [],
                "message": {
                    "author": {"role": "assistant"},
                    "status": "in_progress",
                    "content": {"content_type": "text", "parts": ["Oslo \ud800!"]},
                    "metadata": {"model_slug": "gpt-4o"},
                },
            },
        },
    }
]


def test_an_openai_export_keeps_branches_models_and_the_shown_one(conversations: Conversations) -> None:
    (imported,) = import_chats(conversations, read_export(json.dumps(OPENAI).encode()))

    shown = conversations.turns.shown_branch(imported.chat_id)
    assert [turn.text for turn in shown] == ["[image_asset_pointer not imported]\nWhere to?", "Oslo \ufffd!"]
    assert [turn.state for turn in shown] == ["done", "stopped"]
    assert shown[1].answer.model.name == "gpt-4o"
    assert [turn.text for turn in conversations.turns.all_turns(imported.chat_id)][1] == "Rome"
    assert conversations.chats.get(imported.chat_id).created_at_s == 1700000000.5
    assert imported.remarks == ("image_asset_pointer left out",)


def test_the_zip_that_openai_sends_is_read(conversations: Conversations, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps(OPENAI))

    (imported,) = import_file(conversations, tmp_path / "export.zip")

    assert imported.title == "Trip"


def test_an_open_webui_export_keeps_branches_and_flags(conversations: Conversations) -> None:
    export = [
        {
            "id": "w1",
            "pinned": True,
            "archived": False,
            "created_at": 1700000000,
            "updated_at": 1700000001,
            "chat": {
                "title": "Cooking",
                "params": {"system": "be a cook"},
                "history": {
                    "currentId": "m2",
                    "messages": {
                        "m2": {
                            "id": "m2",
                            "parentId": "m1",
                            "role": "assistant",
                            "content": "Salt",
                            "model": "q",
                        },
                        "m1": {
                            "id": "m1",
                            "parentId": None,
                            "role": "user",
                            "content": "What?",
                            "files": [{}],
                        },
                        "m3": {
                            "id": "m3",
                            "parentId": "m1",
                            "role": "assistant",
                            "content": "Pep",
                            "done": False,
                        },
                    },
                },
            },
        }
    ]

    (imported,) = import_chats(conversations, read_export(json.dumps(export).encode()))

    chat = conversations.chats.get(imported.chat_id)
    assert (chat.title, chat.is_pinned, chat.system_text, chat.turn_count) == (
        "Cooking",
        True,
        "be a cook",
        3,
    )
    shown = conversations.turns.shown_branch(chat.id)
    assert [turn.text for turn in shown] == ["What?\n[1 attached files not imported]", "Salt"]
    assert conversations.turns.branches_at(shown[1].id).shown == 0


def test_a_loop_of_parents_in_an_export_is_left_out_and_said(conversations: Conversations) -> None:
    looped = json.loads(json.dumps(OPENAI))
    looped[0]["mapping"]["a1"]["parent"] = "a1"

    (imported,) = import_chats(conversations, read_export(json.dumps(looped).encode()))

    assert imported.turn_count == 2
    assert "1 messages left out whose parents form a loop" in imported.remarks
    assert conversations.database.check_integrity() == ()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b"{}",
        b"\xff\xfe\x00",
        b'[{"mapping": 3}]',
        b'[{"chat": null}]',
        b"PK\x03\x04 broken",
        b"[" * 100_000,
        b'{"format": "appliance-chats", "version": 99, "chats": []}',
        b'{"format": "appliance-chats", "version": 1, "chats": [{"title": 4}]}',
    ],
)
def test_what_is_no_export_is_refused_with_a_typed_error(data: bytes) -> None:
    with pytest.raises(InvalidRequestError):
        read_export(data)


def test_an_own_export_with_a_broken_tree_is_refused(conversations: Conversations, full_chat: Chat) -> None:
    document = json.loads(export_json(conversations, [full_chat.id]))
    document["chats"][0]["turns"].reverse()

    with pytest.raises(InvalidRequestError, match="place in its tree"):
        read_export(json.dumps(document).encode())


def test_a_zip_without_conversations_is_refused() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("other.json", "[]")

    with pytest.raises(InvalidRequestError, match=r"no conversations\.json"):
        read_export(buffer.getvalue())
