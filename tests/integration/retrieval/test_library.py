from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from appliance.core.errors import ConfigError, InvalidRequestError
from appliance.documents.limits import Limits
from appliance.documents.model import ParsedDocument
from appliance.documents.parser import DocumentParser
from appliance.retrieval.chunking import ChunkSettings
from appliance.retrieval.embedder import EmbedderSettings, FastembedEmbedder
from appliance.retrieval.files import find_files
from appliance.retrieval.index import RetrievalIndex
from appliance.retrieval.ingest import Ingestion, IngestReport
from appliance.retrieval.library import Library
from appliance.retrieval.search import DENSE_SHARE, FOREIGN_DENSE_SHARE, Searcher, SearchRequest
from appliance.retrieval.trace import SearchResult

OWNER = "local"


def add(library: Library, *paths: Path, owner: str = OWNER, collection: str = "papers") -> IngestReport:
    return library.ingestion.add(
        find_files([str(path) for path in paths]), owner=owner, collection=collection
    )


def ask(library: Library, question: str, **wanted: object) -> SearchResult:
    return library.searcher.search(SearchRequest(question=question, owner=OWNER, **wanted))  # type: ignore[arg-type]


def outcomes(report: IngestReport) -> dict[str, int]:
    return {
        outcome: report.count(outcome)
        for outcome in ("added", "updated", "unchanged", "failed", "skipped")
        if report.count(outcome)
    }


def test_text_is_found_before_vectors_and_the_search_says_so(library: Library, folder: Path) -> None:
    assert outcomes(add(library, folder)) == {"added": 3}
    result = ask(library, "sick leave note of a doctor")
    assert result.hits[0].chunk.source.endswith("leave.md")
    assert result.hits[0].similarity is None
    assert any("have no vector yet" in note for note in result.trace.notes)
    assert library.fill_vectors().missing == 0
    result = ask(library, "how much holiday may staff have")
    assert result.hits[0].chunk.source.endswith("leave.md")
    assert result.trace.notes == ()


def test_a_second_run_does_nothing_and_every_file_is_accounted_for(library: Library, folder: Path) -> None:
    (folder / "empty.txt").touch()
    (folder / ".secret").write_text("x")
    first = add(library, folder)
    second = add(library, folder)
    assert outcomes(first) == {"added": 3, "failed": 1, "skipped": 1}
    assert outcomes(second) == {"unchanged": 3, "failed": 1, "skipped": 1}
    assert {result.reason for result in second.results if result.outcome == "failed"} == {"empty"}


class RewritingReader:
    """Gives `second.txt` other words after it was hashed and before it is read, and lets `first.txt` wait for that."""

    def __init__(self, parser: DocumentParser) -> None:
        self._parser = parser
        self._is_rewritten = Event()

    def parse(
        self,
        path: Path,
        limits: Limits,
        *,
        on_progress: Callable[[int, int], None],
        is_cancelled: Callable[[], bool],
    ) -> ParsedDocument:
        if path.name == "second.txt":
            path.write_text("Zebras graze on the savanna.\n")
            self._is_rewritten.set()
        assert self._is_rewritten.wait(timeout=60)
        return self._parser.parse(path, limits, on_progress=on_progress, is_cancelled=is_cancelled)


def test_a_file_that_changes_before_it_is_read_is_no_copy_of_what_it_was(
    library: Library, embedder_folder: Path, tmp_path: Path
) -> None:
    for name in ("first.txt", "second.txt"):
        (tmp_path / name).write_text("Llamas live in the mountains.\n")
    meter = FastembedEmbedder.load(embedder_folder, threads=1)
    with DocumentParser(processes=2) as parser:
        ingestion = Ingestion(library.index, RewritingReader(parser), meter, digest=meter.digest, workers=2)
        files = find_files([str(tmp_path / "first.txt"), str(tmp_path / "second.txt")])
        report = ingestion.add(files, owner=OWNER, collection="papers")
    assert outcomes(report) == {"added": 2}
    assert ask(library, "zebras on the savanna").hits[0].chunk.name == "second.txt"


def test_a_changed_file_takes_the_place_of_its_old_text(library: Library, folder: Path) -> None:
    add(library, folder)
    library.fill_vectors()
    (folder / "leave.md").write_text("Zebras graze on the savanna.\n")
    assert outcomes(add(library, folder)) == {"updated": 1, "unchanged": 2}
    library.fill_vectors()
    assert ask(library, "zebras on the savanna").hits[0].chunk.text == "Zebras graze on the savanna."
    assert not any("doctor" in hit.chunk.text for hit in ask(library, "note of a doctor").hits)
    counts = library.store.counts(OWNER)
    assert library.index.words.count() == library.index.vectors.count() == counts.chunks == 3


def test_a_file_that_breaks_keeps_its_old_text_and_says_so(library: Library, folder: Path) -> None:
    add(library, folder)
    (folder / "leave.md").write_bytes(b"")
    report = add(library, folder)
    assert outcomes(report) == {"unchanged": 2, "failed": 1}
    record = next(record for record in library.store.documents(OWNER) if record.name == "leave.md")
    assert (record.state, record.reason) == ("ready", "empty")
    assert ask(library, "sick leave doctor").hits[0].chunk.source.endswith("leave.md")


def test_what_an_older_reader_made_of_a_file_is_read_again_and_that_is_said(
    library: Library, folder: Path
) -> None:
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing")
    add(library, folder)
    assert "unchanged since" in add(library, folder / "broken.pdf").results[0].message
    with library.store.database.transaction() as connection:
        connection.execute("UPDATE documents SET parser = 'markdown/0' WHERE name = 'leave.md'")
        connection.execute("UPDATE documents SET parser = 'all/0' WHERE name = 'broken.pdf'")
    report = add(library, folder)
    assert outcomes(report) == {"updated": 1, "unchanged": 2, "failed": 1}
    messages = {Path(result.source).name: result.message for result in report.results}
    assert messages["leave.md"] == "read again: the reader changed from markdown/0 to markdown/1"
    assert "unchanged since" not in messages["broken.pdf"]
    assert outcomes(add(library, folder)) == {"unchanged": 3, "failed": 1}
    assert library.store.counts(OWNER).chunks == 3


def test_copies_are_skipped_and_a_moved_file_keeps_its_passages(library: Library, folder: Path) -> None:
    add(library, folder)
    shutil.copy(folder / "leave.md", folder / "copy.md")
    report = add(library, folder)
    assert outcomes(report) == {"unchanged": 3, "skipped": 1}
    (folder / "copy.md").unlink()
    (folder / "leave.md").rename(folder / "renamed.md")
    report = add(library, folder)
    assert outcomes(report) == {"unchanged": 3}
    sources = {Path(record.source).name for record in library.store.documents(OWNER)}
    assert sources == {"renamed.md", "frist.txt", "backup.txt"}


def test_owners_and_collections_never_see_each_other(library: Library, folder: Path) -> None:
    add(library, folder / "leave.md", collection="hr")
    add(library, folder / "leave.md", owner="bob", collection="hr")
    add(library, folder / "deep", collection="law")
    library.fill_vectors()
    for mode in ("hybrid", "dense", "text"):
        found = ask(library, "leave days Kündigungsfrist", mode=mode, limit=50)
        assert {hit.chunk.owner for hit in found.hits} == {OWNER}
        only = ask(library, "leave days Kündigungsfrist", mode=mode, collections=("law",))
        assert {hit.chunk.collection for hit in only.hits} == {"law"}
    hostile = ask(library, "leave", collections=("x' OR '1'='1",))
    assert hostile.hits == ()


@pytest.mark.parametrize(
    "question, name", [("Kündigungsfristen", "frist.txt"), ("备份", "backup.txt"), ("EMPLOYEES", "leave.md")]
)
def test_full_text_knows_other_languages(library: Library, folder: Path, question: str, name: str) -> None:
    add(library, folder)
    assert Path(ask(library, question, mode="text").hits[0].chunk.source).name == name


@pytest.mark.parametrize("question", ['"', "a AND (", "*", "' OR 1=1 --", "\x00", "🙂", "the", "x" * 19_000])
def test_any_text_is_a_question(library: Library, folder: Path, question: str) -> None:
    add(library, folder)
    library.fill_vectors()
    for mode in ("hybrid", "dense", "text"):
        assert len(ask(library, question, mode=mode).hits) <= 10


def test_removed_documents_leave_no_trace(library: Library, folder: Path, tmp_path: Path) -> None:
    secret = folder / "secret.txt"
    secret.write_text("The launch code is Quetzalcoatl.\n")
    add(library, folder)
    library.fill_vectors()
    removal = library.remove(OWNER, library.select(OWNER, [str(secret)]))
    assert [record.name for record in removal.documents] == ["secret.txt"]
    assert removal.remains == ()
    assert not any("Quetzalcoatl" in hit.chunk.text for hit in ask(library, "Quetzalcoatl launch code").hits)
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            assert b"uetzalcoatl" not in path.read_bytes().lower(), path


def test_selectors_are_ids_paths_folders_names_and_patterns(library: Library, folder: Path) -> None:
    add(library, folder)
    one = library.select(OWNER, ["leave.md"])[0]
    assert library.select(OWNER, [one.document_id[:8]]) == [one]
    assert [record.name for record in library.select(OWNER, [str(folder / "deep")])] == ["frist.txt"]
    assert len(library.select(OWNER, ["*.txt"])) == 2
    with pytest.raises(InvalidRequestError, match="no document matches"):
        library.select(OWNER, ["nothing.pdf"])


def test_vectors_of_another_embedder_are_refused_until_a_reindex(
    library: Library, folder: Path, embedder_folder: Path
) -> None:
    add(library, folder)
    library.fill_vectors()
    other = FastembedEmbedder.load(embedder_folder, settings=EmbedderSettings(pooling="cls"))
    index = RetrievalIndex(
        library.store, uri=str(library.store.database.path.parent / "index"), embedder=other
    )
    index.check()
    request = SearchRequest(question="sick leave", owner=OWNER)
    with pytest.raises(ConfigError) as refused:
        Searcher(index).search(request)
    assert "reindex" in refused.value.hint
    with pytest.raises(ConfigError):
        index.fill_vectors()
    text_only = SearchRequest(question="sick leave", owner=OWNER, mode="text")
    assert Searcher(index).search(text_only).hits[0].chunk.name == "leave.md"
    index.begin_anew()
    index.fill_words()
    index.fill_vectors()
    assert Searcher(index).search(request).hits[0].chunk.name == "leave.md"


def test_other_chunk_rules_cut_the_stored_text_anew(
    open_library: Callable[[], Library], tmp_path: Path, embedder_folder: Path, folder: Path
) -> None:
    first = open_library()
    (folder / "long.txt").write_text("One more sentence stands here. " * 80)
    add(first, folder)
    before = first.store.counts(OWNER).chunks
    first.close()
    with Library.open(
        tmp_path / "data", embedder_folder, chunking=ChunkSettings(max_tokens=64), threads=1
    ) as second:
        second.check()
        shutil.rmtree(folder)
        assert second.reindex() == 4
        second.fill_vectors()
        assert second.store.counts(OWNER).chunks > before
        assert second.index.words.count() == second.index.vectors.count() == second.store.counts(OWNER).chunks


def test_an_index_that_vanished_or_tore_is_repaired_from_sqlite(
    open_library: Callable[[], Library], folder: Path, tmp_path: Path
) -> None:
    library = open_library()
    add(library, folder)
    library.fill_vectors()
    library.close()
    manifests = sorted(
        (tmp_path / "data/index/words.lance/_versions").glob("*.manifest"), key=os.path.getmtime
    )
    manifests[-1].write_bytes(b"")
    healed = open_library()
    assert ask(healed, "sick leave", mode="text").hits[0].chunk.name == "leave.md"
    healed.close()
    shutil.rmtree(tmp_path / "data/index")
    again = open_library()
    assert ask(again, "sick leave", mode="text").hits[0].chunk.name == "leave.md"
    assert again.store.counts(OWNER).missing_vectors == 3
    again.fill_vectors()
    assert again.index.vectors.count() == 3


def test_stopping_keeps_what_was_done_and_the_next_run_goes_on(library: Library, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.mkdir()
    for number in range(12):
        (many / f"{number:02}.txt").write_text(f"Fact number {number} is about topic {number}.\n")
    done: list[str] = []

    class Counting:
        def on_wait(self, pid: int) -> None: ...

        def on_pages(self, source: str, done: int, total: int) -> None: ...

        def on_file(self, result: object) -> None:
            done.append("file")

    report = library.ingestion.add(
        find_files([str(many)]),
        owner=OWNER,
        collection="m",
        listener=Counting(),
        should_stop=lambda: len(done) >= 3,
    )
    assert report.is_stopped
    stored = library.store.counts(OWNER).documents
    assert 3 <= stored < 12
    assert outcomes(library.ingestion.add(find_files([str(many)]), owner=OWNER, collection="m")) == {
        "unchanged": stored,
        "added": 12 - stored,
    }


def test_the_trace_tells_where_each_passage_came_from_and_why_it_was_cut(
    library: Library, folder: Path
) -> None:
    add(library, folder)
    library.fill_vectors()
    result = ask(library, "sick leave note", limit=1)
    kept, *cut = result.trace.candidates
    assert (kept.final_rank, kept.cut, kept.text_rank, kept.dense_rank) == (1, None, 1, 1)
    assert {candidate.cut for candidate in cut} == {"limit"}
    assert result.trace.searched_chunks == 3


def test_other_wordings_are_searched_as_well(library: Library, folder: Path) -> None:
    add(library, folder)
    request = SearchRequest(question="notice period", owner=OWNER, mode="text")
    assert library.searcher.search(request).hits == ()
    result = library.searcher.search(request, wordings=["Kündigungsfrist", "notice period", " "])
    assert result.trace.queries == ("notice period", "Kündigungsfrist")
    assert result.hits[0].chunk.name == "frist.txt"


def test_neighbours_and_bounds_per_document(library: Library, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text(
        "\n\n".join(f"Tigers of kind {number} hunt. " * 30 for number in range(6))
    )
    add(library, tmp_path / "long.txt")
    result = ask(library, "tigers hunt", mode="text", per_document=1, neighbours=1)
    (hit,) = result.hits
    assert hit.before or hit.after
    assert all(abs(chunk.ordinal - hit.chunk.ordinal) == 1 for chunk in (*hit.before, *hit.after))
    assert {candidate.cut for candidate in result.trace.candidates if not candidate.final_rank} == {
        "per_document"
    }


def test_versions_stay_bounded_when_a_file_changes_often(
    library: Library, folder: Path, tmp_path: Path
) -> None:
    for number in range(12):
        (folder / "leave.md").write_text(f"Version {number} of the policy.\n")
        add(library, folder / "leave.md")
    library.index.purge()
    versions = list((tmp_path / "data/index/words.lance/_versions").glob("*.manifest"))
    assert len(versions) <= 3
    assert library.index.words.count() == 1


def test_the_index_is_closed_to_other_users_of_the_machine_even_in_an_open_data_folder(
    open_library: Callable[[], Library], tmp_path: Path
) -> None:
    index = tmp_path / "data" / "index"
    index.mkdir(parents=True)
    index.chmod(0o755)
    open_library()
    assert index.stat().st_mode & 0o777 == 0o700


class ShortestFirst:
    """A reranker that likes short passages, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def score(self, question: str, passages: Sequence[str]) -> list[float]:
        self.asked.append(question)
        return [1.0 / len(passage) for passage in passages]


def test_a_reranker_has_the_last_word_and_the_trace_says_so(library: Library, folder: Path) -> None:
    add(library, folder)
    library.fill_vectors()
    reranker = ShortestFirst()
    request = SearchRequest(question="thirty days of leave a year", owner=OWNER, limit=3)
    plain = library.searcher.search(request)
    anew = Searcher(library.index, reranker=reranker).search(request)

    assert reranker.asked == [request.question]
    lengths = [len(hit.chunk.embedded_text) for hit in anew.hits]
    assert lengths == sorted(lengths)
    assert [hit.chunk.name for hit in anew.hits] != [hit.chunk.name for hit in plain.hits]
    assert anew.trace.candidates[0].reranker_score == anew.hits[0].score == 1.0 / lengths[0]


@pytest.mark.parametrize(
    ("question", "language"),
    [("Wie lang ist die Kündigungsfrist?", "German"), ("数据库的备份几点进行？", "Chinese or Japanese")],
)
def test_meaning_weighs_little_where_the_embedder_does_not_know_the_language(
    library: Library, folder: Path, question: str, language: str
) -> None:
    add(library, folder)
    library.fill_vectors()
    asked = SearchRequest(question=question, owner=OWNER)

    english = Searcher(library.index, languages=("English",))

    assert english.search(asked).trace.dense_share == FOREIGN_DENSE_SHARE
    assert any(language in note for note in english.search(asked).trace.notes)
    assert english.search(replace(asked, dense_share=0.6)).trace.dense_share == 0.6
    assert Searcher(library.index).search(asked).trace.dense_share == DENSE_SHARE


def test_meaning_keeps_its_weight_for_questions_in_the_language_of_the_embedder(
    library: Library, folder: Path
) -> None:
    add(library, folder)
    library.fill_vectors()
    asked = SearchRequest(question="How many days of leave are there?", owner=OWNER)

    found = Searcher(library.index, languages=("English",)).search(asked)

    assert found.trace.dense_share == DENSE_SHARE
    assert found.trace.notes == ()
