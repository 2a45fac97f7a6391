"""Declared facts of a model: what it can do, and the card that says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Capability = Literal[
    "chat",
    "json_schema",
    "tools",
    "parallel_tools",
    "reasoning",
    "vision",
    "embed",
    "rerank",
    "streaming_usage",
    "logprobs",
    "raw_prompt",
    "open_turn",
]

Pooling = Literal["mean", "cls"]
"""How an embedder makes one vector of those of its tokens."""

Placement = Literal["this_process", "this_machine", "this_network", "elsewhere"]
"""Where a model runs and its prompts go, nearest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsFile:
    """One file of a model: its name, size in bytes and sha256. Empty sha256 means not checked by us."""

    name: str
    size_bytes: int
    sha256: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCard:
    """What is known of a model before its weights are read. Zero or empty means not known.

    An embedder that tells questions from passages was trained with `query_prefix` and `passage_prefix` before
    its texts. `languages` are those an embedder was made for, in English words; none stands for many.
    """

    id: str
    family: str
    parameters: int
    quantisation: str
    context_window: int
    licence: str
    capabilities: frozenset[Capability]
    files: tuple[WeightsFile, ...]
    description: str = ""
    homepage: str = ""
    chat_template: str = ""
    reasoning_tags: tuple[str, str] | None = None
    embedding_dimension: int = 0
    max_input_tokens: int = 0
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: Pooling = "mean"
    languages: tuple[str, ...] = ()
    is_verified_here: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCapabilities:
    """What a provider can do with the model it is asked about. `placement` is where its data goes;
    `digest` is the sha256 of its weights, empty where nobody can vouch for them; `parallel` is how many
    requests the model answers at the same time, 0 where that is not known.
    """

    capabilities: frozenset[Capability]
    context_window: int
    placement: Placement
    digest: str = ""
    parallel: int = 0
