from __future__ import annotations

from dataclasses import replace

import pytest
from llguidance import LLMatcher, LLTokenizer

from appliance.core.errors import InvalidRequestError
from appliance.retrieval.grounding import REFUSAL, GroundedAnswer, check_quote, ground_answer, weigh_evidence
from appliance.retrieval.quotes import find_quote, parse_quoted_answer, quote_grammar
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.terms import terms_of
from appliance.retrieval.trace import SearchHit, SearchMode, SearchResult, SearchTrace

LEAVE = (
    "Every employee may take thirty days of leave a year. Unused days expire at the end of March. "
    "The head of department, Maria Keller, approves longer absences."
)
BACKUP = "The database is backed up at two in the morning. Copies are kept for 90 days in Zürich."


def passage(text: str, number: int, *, start: int = 0) -> StoredChunk:
    return StoredChunk(
        chunk_id=number,
        document_id=f"d{number}",
        owner="local",
        collection="c",
        source=f"/docs/{number}.pdf",
        name=f"{number}.pdf",
        title="",
        ordinal=0,
        start=start,
        end=start + len(text),
        text=text,
        heading_path=(),
        prefix="",
        token_count=10,
        segments=((start, "page 3"), (start + 53, "page 4")),
    )


PASSAGES = (passage(LEAVE, 1, start=100), passage(BACKUP, 2))


def ground(answer: str) -> GroundedAnswer:
    return ground_answer(answer, PASSAGES)


def test_a_faithful_sentence_is_cited_with_its_exact_span_and_page() -> None:
    answer = ground("An employee may take 30 days of leave each year.")
    (citation,) = answer.citations
    assert citation.verdict == "verified"
    assert citation.quote == "Every employee may take thirty days of leave a year."
    assert (citation.start, citation.end) == (100, 100 + len(citation.quote))
    assert (citation.source, citation.place) == ("/docs/1.pdf", "page 3")
    assert answer.supported_share == 1.0


def test_a_citation_on_the_next_page_names_that_page() -> None:
    (citation,) = ground("Unused leave days expire at the end of March.").citations
    assert citation.place == "page 4"


@pytest.mark.parametrize(
    "lie, missing",
    [
        ("An employee may take 31 days of leave a year.", ("31",)),
        ("Copies of the database are kept for 90 days in Geneva.", ("geneva",)),
        ("The head of department, Anna Keller, approves longer absences.", ("anna",)),
    ],
)
def test_a_changed_number_or_name_is_not_supported(lie: str, missing: tuple[str, ...]) -> None:
    (sentence,) = ground(lie).sentences
    assert not sentence.is_supported
    assert sentence.missing == missing
    assert sentence.citations == ()


def test_a_denied_statement_is_not_supported() -> None:
    (sentence,) = ground("Unused days do not expire at the end of March.").sentences
    assert sentence.has_other_polarity
    assert not sentence.is_supported


def test_what_no_source_says_is_not_supported_and_lowers_the_share() -> None:
    answer = ground("Unused days expire at the end of March. Penguins cannot fly over the Atlantic.")
    assert [sentence.is_supported for sentence in answer.sentences] == [True, False]
    assert answer.supported_share == 0.5


def test_a_wrong_source_number_is_corrected_and_marked() -> None:
    (citation,) = ground("Unused days expire at the end of March [2].").citations
    assert (citation.verdict, citation.claimed_passage, citation.passage) == ("wrong_source", 2, 1)
    (citation,) = ground("Unused days expire at the end of March. [1]").citations
    assert citation.verdict == "verified"


@pytest.mark.parametrize("markers", ["[2][1]", "[2] [1]", "[1-2]", "[2, 1]"])
def test_several_markers_after_a_full_stop_belong_to_the_sentence_before(markers: str) -> None:
    answer = ground(
        f"Unused days expire at the end of March. {markers} Copies are kept for 90 days in Zürich."
    )
    assert [one.text.endswith(markers) for one in answer.sentences] == [True, False]
    assert [one.verdict for one in answer.citations] == ["verified", "verified"]


def test_a_source_number_that_does_not_exist_is_absent() -> None:
    (sentence,) = ground("Penguins swim in the Atlantic [7].").sentences
    (citation,) = sentence.citations
    assert (citation.verdict, citation.passage, citation.claimed_passage) == ("absent", 0, 7)


def test_one_sentence_may_stand_on_two_sources() -> None:
    answer = ground(
        "Unused days expire at the end of March, and database copies are kept for 90 days in Zürich."
    )
    assert {citation.passage for citation in answer.citations} == {1, 2}


def test_small_talk_claims_nothing() -> None:
    answer = ground("Sure! Yes.")
    assert not any(sentence.is_claim for sentence in answer.sentences)
    assert answer.supported_share == 1.0


def test_an_answer_in_german_or_chinese_is_aligned() -> None:
    german = passage(
        "Die Kündigungsfrist beträgt drei Monate zum Quartalsende. Sie gilt für beide Seiten.", 1
    )
    chinese = passage("数据库的备份每天凌晨两点进行。日志保存九十天。", 2)
    answer = ground_answer("Die Frist der Kündigung ist 3 Monate zum Quartalsende.", [german])
    assert answer.citations[0].quote.startswith("Die Kündigungsfrist")
    answer = ground_answer("数据库备份每天凌晨两点进行。", [chinese])
    assert answer.citations[0].quote == "数据库的备份每天凌晨两点进行。"


@pytest.mark.parametrize(
    "quote, claimed, verdict, place",
    [
        ("Unused days expire", 1, "verified", 1),
        ("Unused  days\nexpire", 1, "near", 1),
        ("Unused days expire", 2, "wrong_source", 1),
        ("Unused days", 0, "verified", 1),
        ("Unused days never expire", 1, "absent", 0),
        ("unused days expire", 1, "absent", 0),
        ("   ", 1, "absent", 0),
    ],
)
def test_a_quote_gets_its_verdict_from_the_text(quote: str, claimed: int, verdict: str, place: int) -> None:
    citation = check_quote(quote, claimed, PASSAGES)
    assert (citation.verdict, citation.passage) == (verdict, place)
    if place:
        text = PASSAGES[place - 1].text
        start = citation.start - PASSAGES[place - 1].start
        assert text[start : start + len(citation.quote)] == citation.quote


def test_hyphenation_at_a_line_end_is_near_and_the_shown_quote_is_the_documents() -> None:
    text = "The depart-\nment of  finance\napproves it."
    found = find_quote("department of finance approves", text)
    assert found is not None
    assert not found.is_exact
    assert text[found.start : found.end] == "depart-\nment of  finance\napproves"


def test_the_grammar_lets_a_model_write_words_of_a_passage_and_nothing_else() -> None:
    grammar = quote_grammar(['He said "no\nmore" rules \\ today.', "数据库的备份每天凌晨两点进行。", " "])
    assert accepts(grammar, '[1] said "no more" rules\nAnswer: None [1]')
    assert accepts(grammar, "[2] 备份每天凌晨\n[1] rules \\ today.\nAnswer: x")
    assert accepts(grammar, "no quote\nAnswer: I cannot say")
    assert not accepts(grammar, "[1] said no more rules\nAnswer: x")
    assert not accepts(grammar, "[2] rules \\ today.\nAnswer: x")
    assert not accepts(grammar, "[3] x\nAnswer: x")
    with pytest.raises(InvalidRequestError):
        quote_grammar(["", "  "])


def accepts(grammar: str, text: str) -> bool:
    tokenizer = LLTokenizer("byte")
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_lark(grammar))
    tokens = tokenizer.tokenize_str(text)
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


def test_a_quoted_answer_is_taken_apart_even_when_it_was_cut_off() -> None:
    whole = parse_quoted_answer("[1] some words\n[2] others\nAnswer: Yes [1].\nMore.")
    assert whole.quotes == ((1, "some words"), (2, "others"))
    assert whole.answer == "Yes [1].\nMore."
    cut = parse_quoted_answer("[1] some words\n[2] oth")
    assert (cut.quotes, cut.answer) == (((1, "some words"),), "")
    assert parse_quoted_answer("no quote\nAnswer: x").quotes == ()


def result(question: str, similarity: float | None, mode: SearchMode = "hybrid") -> SearchResult:
    trace = SearchTrace(
        mode=mode, fusion="weighted", dense_share=0.7, question=question, queries=(question,), candidates=(),
        missing_words=0, missing_vectors=0, searched_chunks=1, duration_s=0.0, notes=(),
    )  # fmt: skip
    return SearchResult(hits=(SearchHit(chunk=PASSAGES[0], score=1.0, similarity=similarity),), trace=trace)


def test_far_passages_are_no_evidence_and_the_refusal_says_what_was_looked_at() -> None:
    evidence = weigh_evidence(result("Who won the cup?", 0.1))
    assert not evidence.is_enough
    assert evidence.refusal == f"{REFUSAL} Looked at: /docs/1.pdf page 3 to page 4."
    assert weigh_evidence(result("How much leave?", 0.7)).is_enough


def test_without_vectors_shared_words_are_the_evidence() -> None:
    assert weigh_evidence(result("When do unused days expire?", None)).is_enough
    assert not weigh_evidence(result("Which penguin won the world cup final?", None)).is_enough


def test_a_likeness_that_the_embedder_cannot_judge_is_little_evidence() -> None:
    alike = result("Which penguin won the world cup final?", 0.95)
    foreign = replace(alike, trace=replace(alike.trace, is_foreign=True))
    assert weigh_evidence(alike).is_enough
    assert not weigh_evidence(foreign).is_enough


def test_what_holds_a_chinese_question_together_is_no_term_of_it() -> None:
    assert terms_of("数据库的备份是什么时候？", "english").content == {"数据", "据库", "备份", "时候"}


def test_a_denial_is_no_term_in_any_language() -> None:
    spanish, swedish = terms_of("Nunca tuvo torre.", "spanish"), terms_of("Ingen port finns.", "swedish")
    assert (spanish.has_negation, len(spanish.content)) == (True, 2)
    assert (swedish.has_negation, len(swedish.content)) == (True, 2)
