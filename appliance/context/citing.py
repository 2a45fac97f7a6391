"""Puts an answer and its citations together in code: numbers, verdicts and places never come from the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from appliance.context.answers import AnswerSentence, NumberedCitation, QuoteOrigin
from appliance.context.quoting import SentenceQuote, sentence_around
from appliance.retrieval.grounding import MARKERS, Citation, SentenceSupport, check_quote, ground_answer
from appliance.retrieval.languages import language_of
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.terms import terms_of

DocumentText = Callable[[str], str | None]
"""Returns the stored text of a document by its id, or None when it is gone."""

UNVERIFIED_MARK = "[unverified]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CitedText:
    """Sentences of an answer with their citations, and the text that shows both."""

    text: str
    sentences: tuple[AnswerSentence, ...]
    citations: tuple[NumberedCitation, ...]
    supported_share: float


class CitationList:
    """Numbers citations in the order they are first needed; one place has one number."""

    def __init__(self, passages: Sequence[StoredChunk], document_text: DocumentText) -> None:
        self._passages = passages
        self._document_text = document_text
        self._citations: list[NumberedCitation] = []

    @property
    def citations(self) -> tuple[NumberedCitation, ...]:
        """Every citation by number."""
        return tuple(self._citations)

    def add_model_quote(self, passage: int, quote: str) -> None:
        """Take a quote of the model with the passage it names, widened to its sentence."""
        found = check_quote(quote, passage, self._passages)
        self._add(self._widened(found) if found.verdict != "absent" else found, "model")

    def add_sentence(self, passage: StoredChunk, quote: SentenceQuote) -> None:
        """Take a sentence of a passage that code chose."""
        self._add(
            Citation(
                verdict="verified",
                quote=passage.text[quote.start : quote.end],
                passage=self._number_of(passage),
                claimed_passage=0,
                document_id=passage.document_id,
                source=passage.source,
                place=passage.place_of(passage.start + quote.start, passage.start + quote.end),
                start=passage.start + quote.start,
                end=passage.start + quote.end,
            ),
            "code",
        )

    def numbers_of(self, support: SentenceSupport) -> tuple[int, ...]:
        """Return the numbers of what supports a sentence, taking its citations in; none when unsupported."""
        if not support.is_supported:
            return ()
        numbers = (self._add(one, "code") for one in support.citations if one.verdict != "absent")
        return tuple(dict.fromkeys(number for number in numbers if number))

    def numbers_holding(self, text: str) -> tuple[int, ...]:
        """Return the first citation that has every word and number of a short answer."""
        language = language_of(" ".join(passage.text for passage in self._passages), "english")
        wanted = terms_of(text, language)
        for one in self._citations:
            held = terms_of(one.citation.quote, language)
            if one.is_shown_as_true and wanted.all and wanted.all <= held.all and not wanted.has_negation:
                return (one.number,)
        return ()

    def _add(self, citation: Citation, chosen_by: QuoteOrigin) -> int:
        """Add a citation checked against the stored document; return its number, 0 when it does not hold."""
        checked = _checked(citation, self._document_text)
        for one in self._citations:
            if _is_same_place(one.citation, checked):
                return one.number
        number = len(self._citations) + 1
        self._citations.append(NumberedCitation(number=number, chosen_by=chosen_by, citation=checked))
        return number if checked.verdict != "absent" else 0

    def _number_of(self, passage: StoredChunk) -> int:
        """The place of a passage among those the model saw; 0 when it did not fit."""
        return next(
            (number for number, one in enumerate(self._passages, 1) if one.chunk_id == passage.chunk_id), 0
        )

    def _widened(self, citation: Citation) -> Citation:
        passage = self._passages[citation.passage - 1]
        start, end = sentence_around(
            passage.text, citation.start - passage.start, citation.end - passage.start
        )
        return replace(
            citation,
            quote=passage.text[start:end],
            start=passage.start + start,
            end=passage.start + end,
            place=passage.place_of(passage.start + start, passage.start + end),
        )


def cite(answer: str, passages: Sequence[StoredChunk], listed: CitationList) -> CitedText:
    """Hold each sentence of an answer against the passages and show the numbers of what supports it."""
    grounded = ground_answer(answer, passages)
    sentences = [_sentence(support, listed) for support in grounded.sentences]
    shown: list[str] = []
    position = 0
    for support, sentence in zip(grounded.sentences, sentences, strict=True):
        marks = "".join(f"[{number}]" for number in sentence.numbers) or UNVERIFIED_MARK
        shown += [answer[position : support.start], sentence.text, f" {marks}"]
        position = support.end
    supported = sum(sentence.is_supported for sentence in sentences)
    return CitedText(
        text="".join(shown).strip(),
        sentences=tuple(sentences),
        citations=listed.citations,
        supported_share=supported / len(sentences) if sentences else 0.0,
    )


def _sentence(support: SentenceSupport, listed: CitationList) -> AnswerSentence:
    text = MARKERS.sub("", support.text).strip()
    if text.endswith(("?", "？")):
        numbers: tuple[int, ...] = ()
    else:
        numbers = listed.numbers_of(support) if support.is_claim else listed.numbers_holding(text)
    return AnswerSentence(text=text, numbers=numbers, coverage=support.coverage, missing=support.missing)


def _checked(citation: Citation, document_text: DocumentText) -> Citation:
    """The last word has the stored text: what does not stand there, character by character, is absent."""
    if citation.verdict == "absent":
        return citation
    text = document_text(citation.document_id)
    if text is not None and citation.quote and text[citation.start : citation.end] == citation.quote:
        return citation
    return replace(citation, verdict="absent", passage=0, document_id="", source="", place="", start=0, end=0)


def _is_same_place(first: Citation, second: Citation) -> bool:
    if "absent" in (first.verdict, second.verdict):
        return first.verdict == second.verdict and first.quote == second.quote
    return first.document_id == second.document_id and first.start < second.end and second.start < first.end
