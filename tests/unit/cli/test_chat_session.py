"""A chat keeps what was said, even of an answer that was stopped, and takes back what is asked again."""

import json
from pathlib import Path

import pytest

from appliance.cli.answering import ShownAnswer
from appliance.cli.chat_commands import COMMANDS, run_command
from appliance.cli.chat_session import SETTABLE, ChatSession
from appliance.core.errors import Failure, InvalidRequestError, ModelNotFoundError, StorageError
from appliance.core.events import ModelIdentity
from appliance.core.messages import AssistantMessage
from appliance.core.requests import SamplingParams
from appliance.core.results import GenerateFailure, GenerateSuccess
from appliance.core.usage import Timings, Usage


@pytest.fixture
def session() -> ChatSession:
    return ChatSession(model="m", system="be brief", sampling=SamplingParams())


def answered(text: str) -> ShownAnswer:
    return ShownAnswer(
        result=GenerateSuccess(
            message=AssistantMessage(text=text),
            finish_reason="stop",
            usage=Usage(input_tokens=7, cached_tokens=3, output_tokens=5),
            timings=Timings(ttft_s=0.5, total_s=2.5),
            model=ModelIdentity(provider="scripted", name="m"),
        )
    )


def stopped(text: str) -> ShownAnswer:
    failure = Failure(kind="cancelled", message="interrupted")
    partial = AssistantMessage(text=text)
    timings = Timings(total_s=1.0)
    return ShownAnswer(
        result=GenerateFailure(failure=failure, partial=partial, timings=timings), is_interrupted=True
    )


def said(session: ChatSession) -> list[tuple[str, str]]:
    return [(message.kind, message.text) for message in session.messages]


def ask(session: ChatSession, question: str, shown: ShownAnswer) -> None:
    session.request(question)
    session.take(shown)


def known_model(name: str) -> None:
    if name == "nobody":
        raise ModelNotFoundError("there is no model 'nobody'")


def test_each_request_holds_everything_said_before(session: ChatSession) -> None:
    ask(session, "one?", answered("1"))

    request = session.request("two?")

    assert [(m.kind, m.text) for m in request.conversation.messages] == [
        ("system", "be brief"), ("user", "one?"), ("assistant", "1"), ("user", "two?"),
    ]  # fmt: skip


def test_a_stopped_answer_is_kept_as_far_as_it_came(session: ChatSession) -> None:
    ask(session, "tell", stopped("once upon"))

    assert said(session)[1:] == [("user", "tell"), ("assistant", "once upon")]


def test_an_answer_with_nothing_written_leaves_no_trace_but_can_be_asked_again(session: ChatSession) -> None:
    ask(session, "tell", stopped(""))

    assert said(session) == [("system", "be brief")]
    assert session.take_back() == "tell"


def test_retry_takes_back_one_exchange_and_no_more(session: ChatSession) -> None:
    ask(session, "one?", answered("1"))
    ask(session, "two?", answered("2"))

    assert [session.take_back(), session.take_back()] == ["two?", "two?"]
    assert said(session)[1:] == [("user", "one?"), ("assistant", "1")]


def test_retry_before_any_question_is_refused(session: ChatSession) -> None:
    with pytest.raises(InvalidRequestError, match="nothing was asked"):
        session.take_back()


def test_new_forgets_the_conversation_and_keeps_the_system_message(session: ChatSession) -> None:
    ask(session, "one?", answered("1"))

    run_command(session, "/new", known_model)

    assert said(session) == [("system", "be brief")]


@pytest.mark.parametrize(
    "line, name, value",
    [
        ("/set temperature 0", "temperature", 0.0), ("/set top_k 7", "top_k", 7), ("/set seed 5", "seed", 5),
        ("/set max_tokens 9", "max_tokens", 9), ("/set stop END", "stop", ("END",)),
    ],
)  # fmt: skip
def test_set_changes_one_value(session: ChatSession, line: str, name: str, value: object) -> None:
    run_command(session, line, known_model)

    assert getattr(session.sampling, name) == value


def test_set_none_clears_what_can_be_cleared(session: ChatSession) -> None:
    for line in ("/set seed 5", "/set stop END", "/set seed none", "/set stop none"):
        run_command(session, line, known_model)

    assert session.sampling == SamplingParams()


@pytest.mark.parametrize(
    "line, why",
    [
        ("/set temperature hot", "takes a number, not 'hot'"),
        ("/set temperature -1", "must be between"),
        ("/set top_k 1.5", "takes a number"),
        ("/set warmth 1", "there is no value 'warmth'"),
        ("/set top_k none", "takes a number"),
        ("/nonsense", "there is no command /nonsense"),
        ("/save", "needs a file name"),
    ],
)
def test_a_bad_command_is_refused_and_changes_nothing(session: ChatSession, line: str, why: str) -> None:
    with pytest.raises(InvalidRequestError, match=why):
        run_command(session, line, known_model)

    assert session.sampling == SamplingParams()


def test_a_misspelt_command_names_the_nearest(session: ChatSession) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        run_command(session, "/modle", known_model)

    assert caught.value.hint == "did you mean /model?"


def test_a_model_is_changed_only_to_one_that_is_known(session: ChatSession) -> None:
    with pytest.raises(ModelNotFoundError):
        run_command(session, "/model nobody", known_model)
    assert run_command(session, "/model", known_model) == "m"

    run_command(session, "/model other", known_model)

    assert session.request("hi").model == "other"


def test_system_is_shown_set_and_removed(session: ChatSession) -> None:
    assert run_command(session, "/system", known_model) == "be brief"
    run_command(session, "/system speak of ships only", known_model)
    assert said(session) == [("system", "speak of ships only")]
    run_command(session, "/system none", known_model)
    assert said(session) == []


def test_stats_say_tokens_and_times_and_no_tokens_of_a_stopped_answer(session: ChatSession) -> None:
    assert run_command(session, "/stats", known_model) == "nothing was answered yet"

    ask(session, "one?", answered("1"))
    whole = run_command(session, "/stats", known_model)
    ask(session, "two?", stopped("2"))
    half = run_command(session, "/stats", known_model)

    assert whole == "7 tokens in (3 cached) · 5 out · first after 0.50 s · 2.0 tokens/s · 2.50 s"
    assert half == "interrupted after 1.00 s"


def test_help_and_set_list_everything(session: ChatSession) -> None:
    assert all(command in run_command(session, "/help", known_model) for command in COMMANDS)
    assert all(name in run_command(session, "/set", known_model) for name in SETTABLE)


def test_save_writes_markdown_or_json_and_replaces_no_file(session: ChatSession, tmp_path: Path) -> None:
    ask(session, "one?", answered("1"))

    run_command(session, f"/save {tmp_path / 'talk.md'}", known_model)
    run_command(session, f"/save {tmp_path / 'talk.json'}", known_model)

    assert "## Question\n\none?\n\n## Answer\n\n1\n" in (tmp_path / "talk.md").read_text(encoding="utf-8")
    saved = json.loads((tmp_path / "talk.json").read_text(encoding="utf-8"))
    assert saved["messages"][-1] == {"role": "assistant", "content": "1"}
    with pytest.raises(StorageError, match="exists already"):
        run_command(session, f"/save {tmp_path / 'talk.md'}", known_model)
    with pytest.raises(StorageError, match="cannot be written"):
        run_command(session, f"/save {tmp_path / 'none' / 'talk.md'}", known_model)
