"""A question to documents as a value, and what of a library it is about."""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.context.answers import CitationMode
from appliance.context.parts import Passage
from appliance.core.errors import InvalidRequestError
from appliance.core.messages import Message
from appliance.core.requests import LOCAL_OWNER, Deadline, SamplingParams
from appliance.retrieval.library import Library
from appliance.retrieval.questions import MAX_WORDINGS
from appliance.retrieval.records import StoredChunk
from appliance.retrieval.trace import SearchMode

DEFAULT_ANSWER_TOKENS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuestion:
    """A question to documents, and how it is to be answered.

    `history` are earlier turns, oldest first: a follow-up is told in full from them and searched for as that.
    `other_wordings` is how many wordings of a model are searched for as well.
    """

    question: str
    model: str
    collections: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    mode: CitationMode = "quotes"
    search_mode: SearchMode = "hybrid"
    passages: int = 5
    other_wordings: int = 0
    system: str = ""
    history: tuple[Message, ...] = ()
    sampling: SamplingParams = field(default_factory=lambda: SamplingParams(temperature=0.0))
    deadline: Deadline = field(default_factory=Deadline)
    owner: str = LOCAL_OWNER

    def __post_init__(self) -> None:
        if not 0 <= self.other_wordings <= MAX_WORDINGS:
            raise InvalidRequestError(
                f"{self.other_wordings} other wordings are asked for; it must be between 0 and {MAX_WORDINGS}"
            )

    @property
    def answer_tokens(self) -> int:
        """What is reserved for the answer, and the longest it may become."""
        return self.sampling.max_tokens or DEFAULT_ANSWER_TOKENS


def check_collections(library: Library, asked: DocumentQuestion) -> None:
    """Refuse a collection that does not exist, rather than find nothing in it.

    Raises:
        InvalidRequestError: names the collections there are.
    """
    known = library.store.collections(asked.owner)
    for name in asked.collections:
        if name not in known:
            raise InvalidRequestError(
                f"there is no collection {name!r}",
                hint=f"there are: {', '.join(known)}" if known else "`appliance add PATH -c NAME` makes one",
            )


def every_chunk(library: Library, asked: DocumentQuestion) -> list[StoredChunk]:
    """Return every passage that a question is about, document by document, in order."""
    return [
        chunk
        for record in library.store.documents(asked.owner, asked.collections)
        if not asked.document_ids or record.document_id in asked.document_ids
        for chunk in library.store.chunks_of(asked.owner, record.document_id)
    ]


def passage_of(chunk: StoredChunk) -> Passage:
    """Return a chunk as it goes into a prompt."""
    return Passage(text=chunk.text, source=chunk.name, place=chunk.place)
