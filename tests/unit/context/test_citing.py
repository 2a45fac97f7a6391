from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.context.citing import UNVERIFIED_MARK, CitationList, cite
from appliance.context.quoting import SentenceQuote, choose_sentences, sentence_around
from appliance.retrieval.records import StoredChunk
from tests.unit.context.passages import OFFSET, chunk, stored_text

LEAVE = chunk(1, "Every employee may take thirty days of leave. Unused leave expires at the end of March.")
SICK = chunk(2, "A note of a doctor is needed from the fourth day of illness.", page="page 7")
CHUNKS = [LEAVE, SICK]


def listed(chunks: list[StoredChunk] = CHUNKS) -> CitationList:
    return CitationList(chunks, partial(stored_text, chunks))


def test_supported_sentences_get_numbers_of_verified_spans_and_others_are_marked() -> None:
    cited = cite("Unused leave expires at the end of March. Bonuses double every Friday.", CHUNKS, listed())

    assert cited.text == (
        f"Unused leave expires at the end of March. [1] Bonuses double every Friday. {UNVERIFIED_MARK}"
    )
    [one] = cited.citations
    assert (one.citation.verdict, one.citation.source) == ("verified", "/docs/1.pdf")
    assert LEAVE.text[one.citation.start - OFFSET : one.citation.end - OFFSET] == one.citation.quote
    assert cited.supported_share == 0.5


def test_the_models_own_numbers_are_taken_away_and_replaced_by_code() -> None:
    cited = cite("A doctor's note is needed from the fourth day of illness [1].", CHUNKS, listed())

    assert cited.text.endswith("[1]")
    assert cited.text.count("[") == 1
    assert cited.citations[0].citation.source == "/docs/2.pdf"
    assert cited.citations[0].citation.verdict == "wrong_source"
    assert cited.citations[0].citation.place == "page 7"


def test_a_short_answer_stands_on_the_quote_that_holds_its_words() -> None:
    citations = listed()
    citations.add_model_quote(1, "take thirty days of leave")
    cited = cite("Thirty days.", CHUNKS, citations)

    assert cited.text == "Thirty days. [1]"


@pytest.mark.parametrize(
    "answer", ["No.", "Forty days.", "Not thirty days.", "Is unused leave lost in March?"]
)
def test_a_short_answer_without_its_words_in_a_quote_and_a_question_are_unverified(answer: str) -> None:
    citations = listed()
    citations.add_model_quote(1, "take thirty days of leave")

    assert cite(answer, CHUNKS, citations).text == f"{answer} {UNVERIFIED_MARK}"


def test_a_quote_of_the_model_is_widened_to_its_sentence_and_keeps_one_number() -> None:
    citations = listed()
    citations.add_model_quote(1, "expires at the end")
    citations.add_sentence(
        LEAVE, SentenceQuote(passage=0, start=46, end=len(LEAVE.text), relevance=1.0, score=1.0)
    )

    [one] = citations.citations
    assert one.citation.quote == "Unused leave expires at the end of March."
    assert one.chosen_by == "model"


def test_a_quote_with_the_wrong_number_is_corrected_and_one_that_is_nowhere_is_absent() -> None:
    citations = listed()
    citations.add_model_quote(1, "from the fourth day")
    citations.add_model_quote(2, "from the fifth day")

    first, second = citations.citations
    assert (first.citation.verdict, first.citation.passage, first.citation.claimed_passage) == (
        "wrong_source",
        2,
        1,
    )
    assert (second.citation.verdict, second.citation.document_id) == ("absent", "")
    assert not second.is_shown_as_true


@pytest.mark.parametrize(
    "stored", [None, "", "x" * OFFSET + "Every employee may take thirty nights of leave."]
)
def test_the_stored_document_has_the_last_word(stored: str | None) -> None:
    citations = CitationList(CHUNKS, lambda _: stored)
    citations.add_sentence(LEAVE, SentenceQuote(passage=0, start=0, end=45, relevance=1.0, score=1.0))

    [one] = citations.citations
    assert one.citation.verdict == "absent"
    assert one.citation.source == ""


@given(st.text(max_size=200), st.text(max_size=40), st.integers(0, 9))
def test_whatever_a_model_writes_every_citation_shown_as_true_is_a_span_of_the_document(
    answer: str, quote: str, number: int
) -> None:
    citations = listed()
    citations.add_model_quote(number, quote)
    cited = cite(answer, CHUNKS, citations)

    for one in cited.citations:
        if one.is_shown_as_true:
            text = stored_text(CHUNKS, one.citation.document_id)
            assert text is not None
            assert text[one.citation.start : one.citation.end] == one.citation.quote


def test_code_chooses_the_sentence_that_has_the_questions_words() -> None:
    best = choose_sentences("From which day of illness is a note needed?", CHUNKS, [0.5, 0.5], limit=1)

    assert [(one.passage, one.start, one.end) for one in best] == [(1, 0, len(SICK.text))]


@given(st.lists(st.text(max_size=900), max_size=4), st.text(min_size=1, max_size=40))
def test_chosen_sentences_are_spans_within_the_bound(texts: list[str], question: str) -> None:
    chunks = [chunk(number, text) for number, text in enumerate(texts)]

    for one in choose_sentences(question, chunks, [1.0] * len(chunks), limit=3):
        assert 0 <= one.start < one.end <= len(chunks[one.passage].text)
        assert one.end - one.start <= 400
        assert chunks[one.passage].text[one.start : one.end].strip()


def test_a_span_across_two_sentences_is_widened_to_both_unless_that_is_too_long() -> None:
    text = "One is here. Two is there. Three is gone."
    assert sentence_around(text, 7, 15) == (0, 26)
    long = f"{'a ' * 300}b. Short one."
    assert sentence_around(long, 10, 20) == (10, 20)
