"""One trace rebuilds the path of a question to documents: search, prompt, and every step of the answer."""

from appliance.context.asking import DocumentAsker
from appliance.context.question import DocumentQuestion
from appliance.core.clock import VirtualClock
from appliance.gateway import Gateway
from appliance.providers.script import Say, ScriptedModel
from appliance.providers.scripted import ScriptedProvider
from appliance.retrieval.library import Library
from appliance.telemetry import Telemetry
from appliance.telemetry.spans import SpanRecord
from appliance.telemetry.trace_tree import TraceNode, trees_of

QUESTION = DocumentQuestion(
    question="How many days may be carried over?", model="m", collections=("handbook",)
)


class Sink:
    """Keeps the records of ended spans."""

    def __init__(self) -> None:
        self.records: list[SpanRecord] = []

    def take(self, record: SpanRecord) -> None:
        self.records.append(record)

    def close(self) -> None:
        return


def asker(library: Library, sink: Sink) -> DocumentAsker:
    clock = VirtualClock()
    telemetry = Telemetry(clock, sink=sink)
    model = ScriptedModel(name="m", turns=((Say(text="Five days."),),))
    gateway = Gateway([ScriptedProvider([model], clock)], clock, telemetry=telemetry)
    return DocumentAsker(gateway, library, telemetry=telemetry)


def names(node: TraceNode) -> list[str]:
    return [child.record.name for child in node.children]


async def test_an_answer_stands_below_the_search_that_it_came_from(library: Library) -> None:
    sink = Sink()

    await asker(library, sink).answer(QUESTION)

    (tree,) = trees_of(sink.records)
    assert (tree.record.name, names(tree)) == ("documents", ["retrieve", "context", "chat"])
    assert "attempt" in names(tree.children[2])
    assert int(tree.children[0].record.attributes["appliance.retrieve.passages"]) > 0
    assert "carried" not in repr(sink.records)


async def test_an_answer_that_is_asked_for_later_stands_in_the_same_trace(library: Library) -> None:
    sink = Sink()
    asking = asker(library, sink)

    prepared = await asking.prepare(QUESTION)
    await asking.answer_prepared(QUESTION, prepared)

    assert len({record.trace_id for record in sink.records}) == 1
    assert [tree.record.name for tree in trees_of(sink.records)] == ["documents", "chat"]


async def test_every_part_that_is_read_stands_in_one_trace(library: Library) -> None:
    sink = Sink()

    await asker(library, sink).whole_reader().read(QUESTION)

    (tree,) = trees_of(sink.records)
    assert tree.record.name == "documents"
    assert tree.record.attributes["appliance.method"] == "map_reduce"
    assert set(names(tree)) == {"chat"}
