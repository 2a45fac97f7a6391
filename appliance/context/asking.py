"""Answers questions from documents: search, weigh the evidence, build the prompt, answer, and cite in code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from appliance.context.answers import CitationMode, Coverage, DocumentAnswer
from appliance.context.assembling import Looked, answered, refused
from appliance.context.budget import ContextBudget
from appliance.context.builder import BuiltContext, ContextBuilder
from appliance.context.citing import CitationList, cite
from appliance.context.collective import asks_for_all
from appliance.context.counting import RequestCounter
from appliance.context.delimiting import without_tags
from appliance.context.question import DocumentQuestion, check_collections, every_chunk, passage_of
from appliance.context.quoting import (
    LEAST_RELEVANCE,
    QuestionEmbedding,
    SentenceQuote,
    choose_sentences,
    quote_text,
)
from appliance.context.rewriting import QuestionWriter, Wordings
from appliance.context.whole import WholeReader
from appliance.context.wording import (
    ANSWER_PROSE,
    ANSWER_QUOTES,
    PROMPT_ID,
    PROMPT_VERSION,
    question_with,
    system_with,
)
from appliance.core.answer import AnswerInProgress
from appliance.core.errors import ContextOverflowError
from appliance.core.events import StreamEvent
from appliance.core.messages import Conversation, SystemMessage, UserMessage
from appliance.core.requests import GenerateRequest, GrammarFormat
from appliance.core.results import GenerateResult, GenerateSuccess
from appliance.gateway import Gateway
from appliance.retrieval.grounding import weigh_evidence
from appliance.retrieval.library import Library
from appliance.retrieval.quotes import parse_quoted_answer, quote_grammar
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.search import SearchRequest
from appliance.retrieval.trace import SearchResult
from appliance.telemetry import Span, Telemetry

_PROMPT_MARKS = ("</passage", "</documents", "\nQuestion:")
_MODEL_QUOTES = 2
_CODE_QUOTES = 2
# Collections up to this size are tried as a whole when a question is about all of them.
_WHOLE_COLLECTION_PASSAGES = 200

OnEvent = Callable[[StreamEvent], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuestion:
    """A question before the model: what was found and the prompt with its receipt.

    `passages` are the chunks the prompt holds, in its order.
    """

    looked: Looked
    built: BuiltContext
    passages: tuple[StoredChunk, ...]
    mode: CitationMode


class DocumentAsker:
    """Asks one library through one gateway."""

    def __init__(
        self,
        gateway: Gateway,
        library: Library,
        *,
        margin_tokens: int = 0,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._telemetry = telemetry or Telemetry()
        self._gateway = gateway
        self._library = library
        self._margin_tokens = margin_tokens
        self._counter = RequestCounter(gateway.count_tokens)

    async def prepare(self, asked: DocumentQuestion) -> PreparedQuestion:
        """Search and build the prompt; no answer is generated.

        Raises:
            InvalidRequestError: a collection does not exist.
            ContextOverflowError: the question alone does not fit.
            ApplianceError: the model or the index cannot be used.
        """
        with self._telemetry.span("documents", owner=asked.owner) as span:
            return await self._built(asked, await self._looked(asked, span), span)

    async def answer(self, asked: DocumentQuestion, on_event: OnEvent | None = None) -> DocumentAnswer:
        """Answer, or refuse when the documents hold too little; quotes are verified against the stored text.

        Raises:
            InvalidRequestError: a collection does not exist.
            ContextOverflowError: the question alone does not fit.
            ApplianceError: the model or the index cannot be used. A failure while answering is in the answer.
        """
        with self._telemetry.span("documents", owner=asked.owner) as span, self._telemetry.ambient(span):
            looked = await self._looked(asked, span)
            if not looked.evidence.is_enough:
                return refused(asked.question, asked.mode, looked)
            return await self.answer_prepared(asked, await self._built(asked, looked, span), on_event)

    async def answer_prepared(
        self, asked: DocumentQuestion, prepared: PreparedQuestion, on_event: OnEvent | None = None
    ) -> DocumentAnswer:
        """Answer a question that `prepare` made ready, as `answer` does.

        Raises:
            ApplianceError: the model cannot be used. A failure while answering is in the answer.
        """
        if not prepared.looked.evidence.is_enough or not prepared.passages:
            return refused(asked.question, asked.mode, prepared.looked, receipt=prepared.built.receipt)
        result = await self._generate(prepared, on_event)
        return await asyncio.to_thread(self._assemble, asked, prepared, result)

    def whole_reader(self) -> WholeReader:
        """Return a reader of every passage, for questions that the best ones cannot answer."""
        return WholeReader(
            self._gateway,
            self._library,
            self._counter,
            margin_tokens=self._margin_tokens,
            telemetry=self._telemetry,
        )

    async def _looked(self, asked: DocumentQuestion, span: Span) -> Looked:
        await asyncio.to_thread(check_collections, self._library, asked)
        with span.child("retrieve") as step, self._telemetry.ambient(step):
            writer = QuestionWriter(
                self._gateway, model=asked.model, owner=asked.owner, deadline=asked.deadline
            )
            wordings = await writer.wordings(asked.question, asked.history, others=asked.other_wordings)
            looked = await asyncio.to_thread(self._look, asked, wordings)
            step.set(
                {
                    "appliance.retrieve.queries": len(looked.found.trace.queries),
                    "appliance.retrieve.is_rewritten": wordings.question != asked.question,
                    "appliance.retrieve.rewritten_by": wordings.rewritten_by,
                    "appliance.retrieve.searched": looked.found.trace.searched_chunks,
                    "appliance.retrieve.passages": len(looked.chunks),
                    "appliance.retrieve.is_enough": looked.evidence.is_enough,
                }
            )
            if wordings.rewritten_by:
                step.add_content("question.asked", asked.question)
                step.add_content("question.searched_for", wordings.question)
        return looked

    async def _built(self, asked: DocumentQuestion, looked: Looked, span: Span) -> PreparedQuestion:
        with span.child("context") as step:
            prepared = await self._build(asked, looked)
            step.set(
                {
                    "appliance.context.passages": len(prepared.passages),
                    "appliance.context.prompt_tokens": prepared.built.receipt.total_tokens,
                }
            )
        # The answer, which may be asked for later, then stands in the same trace.
        request = replace(prepared.built.request, request_id=span.trace_id)
        return replace(prepared, built=replace(prepared.built, request=request))

    def _look(self, asked: DocumentQuestion, wordings: Wordings) -> Looked:
        found = self._search(asked, wordings)
        evidence = weigh_evidence(found)
        quotes = self._quotes(wordings.question, found) if evidence.is_enough else ()
        if not any(quote.relevance >= LEAST_RELEVANCE for _, quote in quotes):
            evidence = replace(evidence, is_enough=False)
        elif wordings.rewritten_by == "code":
            # The words that were carried over find the passage; which sentence of it is meant, the user's own say.
            quotes = self._quotes(asked.question, found)
        chunks = self._to_read(asked, found)
        coverage = Coverage(
            read_passages=0, all_passages=found.trace.searched_chunks, needs_all=asks_for_all(asked.question)
        )
        return Looked(
            found=found,
            evidence=evidence,
            chunks=tuple(chunks),
            quotes=quotes,
            coverage=coverage,
            rewritten_by=wordings.rewritten_by,
        )

    def _quotes(self, question: str, found: SearchResult) -> tuple[tuple[StoredChunk, SentenceQuote], ...]:
        chosen = choose_sentences(
            question,
            [hit.chunk for hit in found.hits],
            [hit.score for hit in found.hits],
            embedding=self._embedding(),
            limit=_CODE_QUOTES,
        )
        return tuple((found.hits[quote.passage].chunk, quote) for quote in chosen)

    async def _build(self, asked: DocumentQuestion, looked: Looked) -> PreparedQuestion:
        offered = await self._gateway.capabilities(asked.model)
        can_quote = "json_schema" in offered.capabilities and bool(looked.chunks)
        mode: CitationMode = asked.mode if asked.mode != "model" or can_quote else "quotes"
        budget = ContextBudget(
            context_window=offered.context_window,
            reserved_tokens=asked.answer_tokens,
            margin_tokens=self._margin_tokens,
        )
        builder = ContextBuilder(self._counter, budget)
        passages = [passage_of(chunk) for chunk in looked.chunks]
        quotes = [] if mode == "model" else [quote_text(*one) for one in looked.quotes]
        told = looked.found.trace.question
        try:
            built = await builder.build(_request(asked, told, mode, quotes), passages=passages)
        except ContextOverflowError:
            # The quotes repeat words of the passages; the question must not fail for them.
            built = await builder.build(_request(asked, told, mode, ()), passages=passages)
        coverage = replace(looked.coverage, read_passages=len(built.passages))
        return PreparedQuestion(
            looked=replace(looked, coverage=coverage),
            built=built,
            passages=tuple(looked.chunks[place] for place in built.passages),
            mode=mode,
        )

    def _search(self, asked: DocumentQuestion, wordings: Wordings) -> SearchResult:
        found = self._library.searcher.search(
            SearchRequest(
                question=wordings.question,
                owner=asked.owner,
                collections=asked.collections,
                document_ids=asked.document_ids,
                mode=asked.search_mode,
                limit=asked.passages,
            ),
            wordings=wordings.others,
        )
        return replace(found, trace=replace(found.trace, notes=(*wordings.notes, *found.trace.notes)))

    def _to_read(self, asked: DocumentQuestion, found: SearchResult) -> list[StoredChunk]:
        """The best passages; for a question about everything all others behind them, while they are few."""
        chunks = [hit.chunk for hit in found.hits]
        if asks_for_all(asked.question) and found.trace.searched_chunks <= _WHOLE_COLLECTION_PASSAGES:
            known = {chunk.chunk_id for chunk in chunks}
            chunks += [one for one in every_chunk(self._library, asked) if one.chunk_id not in known]
        return chunks

    async def _generate(self, prepared: PreparedQuestion, on_event: OnEvent | None) -> GenerateResult:
        request = prepared.built.request
        if prepared.mode == "model":
            texts = [chunk.text for chunk in prepared.passages]
            grammar = quote_grammar(texts, max_quotes=_MODEL_QUOTES)
            request = replace(request, output=GrammarFormat(grammar=grammar))
        answer = AnswerInProgress()
        async with aclosing(self._gateway.stream(request)) as events:
            async for event in events:
                answer.add(event)
                if on_event is not None:
                    on_event(event)
        return answer.result()

    def _assemble(
        self, asked: DocumentQuestion, prepared: PreparedQuestion, result: GenerateResult
    ) -> DocumentAnswer:
        written = result.message.text if isinstance(result, GenerateSuccess) else result.partial.text
        texts: dict[str, str | None] = {}

        def document_text(document_id: str) -> str | None:
            if document_id not in texts:
                document = self._library.store.parsed(asked.owner, document_id)
                texts[document_id] = None if document is None else document.text
            return texts[document_id]

        listed = CitationList(prepared.passages, document_text)
        for chunk, quote in prepared.looked.quotes:
            listed.add_sentence(chunk, quote)
        prose = without_tags(written)
        if prepared.mode == "model":
            quoted = parse_quoted_answer(written)
            prose = quoted.answer
            for passage, words in quoted.quotes:
                listed.add_model_quote(passage, words)
        cited = cite(prose, prepared.passages, listed)
        return answered(
            asked.question, prepared.mode, prepared.looked, prepared.built.receipt, result, prose, cited
        )

    def _embedding(self) -> QuestionEmbedding:
        embedder = self._library.index.embedder
        return QuestionEmbedding(
            embed=embedder.embed,
            embed_query=embedder.embed_query,
            fits=lambda text: embedder.count_tokens(text) <= embedder.max_input_tokens,
            fits_query=embedder.fits_query,
        )


def _request(
    asked: DocumentQuestion, told: str, mode: CitationMode, quotes: Sequence[str]
) -> GenerateRequest:
    instruction = ANSWER_QUOTES if mode == "model" else ANSWER_PROSE
    return GenerateRequest(
        conversation=Conversation.of(
            SystemMessage(text=system_with(asked.system)),
            UserMessage(text=question_with(asked.question, instruction, quotes, told_in_full=told)),
        ),
        model=asked.model,
        sampling=replace(asked.sampling, max_tokens=asked.answer_tokens, stop=_stops(asked, mode)),
        deadline=asked.deadline,
        owner=asked.owner,
        prompt_id=PROMPT_ID,
        prompt_version=PROMPT_VERSION,
    )


def _stops(asked: DocumentQuestion, mode: CitationMode) -> tuple[str, ...]:
    """Small models go on with the prompt's own marks; prose ends before them. A grammar ends by itself."""
    return asked.sampling.stop if mode == "model" else (*asked.sampling.stop, *_PROMPT_MARKS)[:16]
