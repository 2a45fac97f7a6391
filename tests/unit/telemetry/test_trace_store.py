"""Traces are kept within an age and a size, found by a prefix of an id, and forgotten for good."""

import time
from pathlib import Path

import pytest

from appliance.core.errors import InvalidRequestError, StorageError
from appliance.core.forgetting import ForgetChat, ForgetDocument, ForgetSubject
from appliance.memory.byte_scan import scan_files
from appliance.memory.mentions import mentions
from appliance.telemetry.forgetting import ForgettableTraces, forget_owner, forget_request
from appliance.telemetry.gen_ai import CHAT_ATTRIBUTE
from appliance.telemetry.spans import AttributeValue, SpanRecord
from appliance.telemetry.trace_store import TraceStore


def record(trace: str, span: str = "1", parent: str = "", **changes: object) -> SpanRecord:
    values: dict[str, object] = {
        "trace_id": trace.ljust(32, "0"),
        "span_id": span.rjust(16, "0"),
        "parent_id": parent and parent.rjust(16, "0"),
        "name": "request",
        "owner": "ada",
        "request_id": f"req-{trace}",
        "start_ns": time.time_ns(),
        "duration_ns": 5,
        "status": "ok",
        "attributes": {},
        "content": {},
        **changes,
    }
    return SpanRecord(**values)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> TraceStore:
    return TraceStore(tmp_path / "traces.db")


def test_a_record_comes_back_as_it_was(store: TraceStore) -> None:
    attributes: dict[str, AttributeValue] = {"text": "ü\n", "count": 3, "share": 0.5, "flag": True}
    given = record("aa", attributes=attributes, content={"prompt": "[email]"}, status="error")

    store.export([given])

    assert store.trace("aa") == [given]


def test_a_trace_is_found_by_the_first_characters_of_its_id_or_of_its_requests(store: TraceStore) -> None:
    store.export([record("ab1"), record("ab1", "2", "1"), record("ab2")])

    assert [found.span_id[-1] for found in store.trace("AB1")] == ["1", "2"]
    assert [found.trace_id[:3] for found in store.trace("req-ab2")] == ["ab2"]


@pytest.mark.parametrize(
    "identifier, said", [("ab", "2 traces"), ("zz", "no trace"), ("", "no trace"), ("%", "no trace")]
)
def test_an_id_that_names_no_single_trace_is_refused(store: TraceStore, identifier: str, said: str) -> None:
    store.export([record("ab1"), record("ab2")])

    with pytest.raises(InvalidRequestError, match=said):
        store.trace(identifier)


def test_traces_of_another_owner_are_not_found(store: TraceStore) -> None:
    store.export([record("ab1"), record("ab2", owner="bob")])

    assert [found.owner for found in store.trace("ab", owner="bob")] == ["bob"]
    assert [found.owner for found in store.recent(limit=9, owner="bob")] == ["bob"]


def test_the_latest_requests_come_newest_first_and_without_their_parts(store: TraceStore) -> None:
    now_ns = time.time_ns()
    store.export([record(f"a{n}", start_ns=now_ns + n) for n in range(4)] + [record("a3", "2", "1")])

    assert [found.trace_id[:2] for found in store.recent(limit=2)] == ["a3", "a2"]


def test_old_traces_go_whole(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", keep_days=1)
    old_ns = time.time_ns() - 2 * 86_400 * 10**9
    store.export([record("aa", start_ns=old_ns), record("aa", "2", "1"), record("bb")])

    store.prune()

    assert [found.trace_id[:2] for found in store.recent(limit=9)] == ["bb"]
    with pytest.raises(InvalidRequestError):
        store.trace("aa")


def test_the_oldest_traces_go_when_there_is_too_much_and_the_file_shrinks(tmp_path: Path) -> None:
    store = TraceStore(tmp_path / "traces.db", keep_bytes=200_000)
    now_ns = time.time_ns()

    store.export([record(f"{n:08x}", start_ns=now_ns + n, attributes={"a": "x" * 200}) for n in range(3000)])

    kept = store.recent(limit=5000)
    assert 100 < len(kept) < 1000
    assert kept[0].trace_id.startswith(f"{2999:08x}")
    store.close()
    assert (tmp_path / "traces.db").stat().st_size < 300_000


def test_two_processes_worth_of_stores_share_a_file(tmp_path: Path) -> None:
    first, second = TraceStore(tmp_path / "traces.db"), TraceStore(tmp_path / "traces.db")

    first.export([record("aa")])
    second.export([record("bb")])

    assert len(first.recent(limit=9)) == len(second.recent(limit=9)) == 2


def test_only_its_user_may_read_the_file(tmp_path: Path, store: TraceStore) -> None:
    assert store.path.stat().st_mode & 0o077 == 0


def test_a_file_that_is_no_store_is_a_typed_error_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "traces.db").write_bytes(b"not a database" * 100)

    with pytest.raises(StorageError) as caught:
        TraceStore(tmp_path / "traces.db")

    assert "may be removed" in caught.value.hint


def test_forgetting_a_chat_removes_its_traces_of_this_owner_only(store: TraceStore) -> None:
    store.export(
        [
            record("aa", attributes={CHAT_ATTRIBUTE: "chat-1"}),
            record("bb", attributes={CHAT_ATTRIBUTE: "chat-2"}),
            record("cc", attributes={CHAT_ATTRIBUTE: "chat-1"}, owner="bob"),
        ]
    )

    report = ForgettableTraces(store, mentions).forget(ForgetChat(chat_id="chat-1", owner="ada"))

    assert report.removed == {"traces": 1}
    assert {found.trace_id[:2] for found in store.recent(limit=9)} == {"bb", "cc"}


def test_forgetting_a_subject_removes_traces_with_texts_about_it_and_their_bytes(store: TraceStore) -> None:
    store.export(
        [
            record("aa", content={"prompt": "Where is  JÁNE doe?"}),
            record("bb", content={"prompt": "Where is Janet Doern?"}),
        ]
    )

    ForgettableTraces(store, mentions).forget(ForgetSubject(phrase="jane doe", owner="ada"))

    assert [found.trace_id[:2] for found in store.recent(limit=9)] == ["bb"]
    files = list(store.path.parent.glob("traces.db*"))
    assert scan_files(files, ["JÁNE doe"]) == []
    assert len(scan_files(files, ["Janet Doern"])) == 1


def test_forgetting_a_document_removes_every_trace_that_holds_texts(store: TraceStore) -> None:
    store.export([record("aa", content={"prompt": "quoted"}), record("bb")])

    ForgettableTraces(store, mentions).forget(ForgetDocument(document_id="d1", owner="ada"))

    assert [found.trace_id[:2] for found in store.recent(limit=9)] == ["bb"]


def test_an_owner_or_a_request_can_be_forgotten(store: TraceStore) -> None:
    store.export([record("aa"), record("bb"), record("cc", owner="bob")])

    assert forget_request(store, "ada", "req-aa") == 1
    assert forget_request(store, "ada", "req-cc") == 0
    assert [found.trace_id[:2] for found in store.recent(limit=9, owner="ada")] == ["bb"]
    assert forget_owner(store, "ada") == 1
    assert [found.owner for found in store.recent(limit=9)] == ["bob"]
