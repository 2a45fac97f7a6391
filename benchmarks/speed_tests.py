"""What the engine's speed is measured on, in llama-bench's terms: tests, and ways of loading a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from typing import Literal

from appliance.catalog.catalog import LocalModel
from appliance.core.errors import InvalidRequestError
from appliance.engine.params import EngineParams, KvType
from appliance.engine.processor import detect_processor
from benchmarks.fingerprint import usable_cores
from benchmarks.records import Scalar

FlashAttention = Literal["auto", "on", "off"]
CONTEXT_STEP_TOKENS = 256
MOST_TOKENS = 1 << 20
_SHARED_CHUNK_TOKENS = 64

# The conversation is written as it stands, so that a prompt has the tokens that were asked for and no more.
BARE_TEMPLATE = "{%- for message in messages -%}{{ message.content }}{%- endfor -%}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedTest:
    """`pp512 @ d1024`: process 512 prompt tokens behind 1024; `tg128`: generate 128 tokens."""

    kind: Literal["pp", "tg"]
    tokens: int
    depth_tokens: int = 0

    @property
    def label(self) -> str:
        """The name llama-bench prints."""
        depth = f" @ d{self.depth_tokens}" if self.depth_tokens else ""
        return f"{self.kind}{self.tokens}{depth}"

    @property
    def context_tokens(self) -> int:
        """Most tokens in the KV cache during the test."""
        return self.tokens + self.depth_tokens + 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadChoice:
    """How a model is loaded. 0 threads is one a core; 0 tokens of context is as many as a test needs."""

    threads: int
    batch_tokens: int = 2048
    ubatch_tokens: int = 512
    prefill_chunk_tokens: int = 256
    flash_attention: FlashAttention = "auto"
    kv_type: KvType = "f16"
    gpu_layers: int = -1
    context_tokens: int = 0

    def params(self, local: LocalModel, context_tokens: int) -> EngineParams:
        """Parameters of an engine for one sequence of so many tokens, or of those that are chosen if they are more.

        Raises:
            InvalidRequestError: a value is out of range.
        """
        return EngineParams(
            model_path=local.path,
            model_name=local.id,
            model_digest=local.digest,
            context_window=self.window(local, context_tokens),
            parallel=1,
            kept_sequences=2,
            threads=self.threads,
            batch_tokens=self.batch_tokens,
            ubatch_tokens=self.ubatch_tokens,
            prefill_chunk_tokens=min(self.prefill_chunk_tokens, self.batch_tokens),
            shared_prefill_chunk_tokens=min(_SHARED_CHUNK_TOKENS, self.batch_tokens),
            gpu_layers=self.gpu_layers,
            flash_attention=self.flash_attention,
            kv_type=self.kv_type,
            chat_template=BARE_TEMPLATE,
        )

    def window(self, local: LocalModel, context_tokens: int) -> int:
        """Tokens of context that are loaded for a test of so many."""
        wanted = max(context_tokens, self.context_tokens, CONTEXT_STEP_TOKENS)
        window = -(-wanted // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS
        trained = local.card.context_window
        return min(window, trained) if trained >= context_tokens else window

    def configuration(self) -> Mapping[str, Scalar]:
        """The choice as it stands in a record; a context that the test decides is none."""
        return {name: value for name, value in asdict(self).items() if name != "context_tokens" or value}


def speed_tests(prompts: Sequence[int], outputs: Sequence[int], depths: Sequence[int]) -> list[SpeedTest]:
    """Every test of the sizes given, 0 leaving one out, in llama-bench's order.

    Raises:
        InvalidRequestError: a size cannot be measured, or nothing is left.
    """
    for tokens in (*prompts, *outputs, *depths):
        if not 0 <= tokens <= MOST_TOKENS:
            raise InvalidRequestError(f"{tokens} tokens cannot be measured; use 0 to {MOST_TOKENS}")
    kinds: tuple[tuple[Literal["pp", "tg"], Sequence[int]], ...] = (("pp", prompts), ("tg", outputs))
    tests = [
        SpeedTest(kind=kind, tokens=tokens, depth_tokens=depth)
        for depth in dict.fromkeys(depths)
        for kind, sizes in kinds
        for tokens in dict.fromkeys(sizes)
        if tokens
    ]
    if not tests:
        raise InvalidRequestError("there is nothing to measure", hint="give -p, -n or both a size above 0")
    return tests


def usual_threads() -> int:
    """As many as the engine takes when none are stated: physical cores this process may use."""
    return max(1, min(detect_processor().physical_cores, usable_cores()))


def load_choices(
    *,
    threads: Sequence[int],
    batches: Sequence[int],
    ubatches: Sequence[int],
    flash: Sequence[FlashAttention],
    kv_types: Sequence[KvType],
    gpu_layers: Sequence[int],
) -> list[LoadChoice]:
    """Every combination; a micro-batch of 0 leaves the engine's own sizes."""
    choices = []
    for count, batch, ubatch, attention, kv_type, layers in product(
        threads, batches, ubatches, flash, kv_types, gpu_layers
    ):
        usual = LoadChoice(threads=count)
        choices.append(
            LoadChoice(
                threads=count,
                batch_tokens=batch,
                ubatch_tokens=min(ubatch or usual.ubatch_tokens, batch),
                prefill_chunk_tokens=min(ubatch or usual.prefill_chunk_tokens, batch),
                flash_attention=attention,
                kv_type=kv_type,
                gpu_layers=layers,
            )
        )
    return list(dict.fromkeys(choices))
