"""What a worker is started with, and what it says of the model once loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from appliance.core.errors import InvalidRequestError

KvType = Literal["f16", "q8_0", "q4_0", "reproducible"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParams:
    """How to load one model.

    `context_window` bounds prompt plus answer of one request; `kv_cells` is the number of tokens the KV cache
    holds for all sequences together, running and kept (0: `context_window * parallel`). `kv_type` "reproducible"
    keeps values as f32: half as much memory again and slower prefill, but attention then rounds alike whatever
    else is in the batch or the cache. `threads` 0 is the
    number of physical cores. `gpu_layers` -1 offloads what fits where the build has a GPU backend.
    `prefix_dir` is where KV prefixes are saved between runs (None: nowhere). `prefix_ram_bytes` bounds those of
    other conversations that wait in plain memory, beside the KV cache (0: they stay in it).
    """

    model_path: Path
    model_name: str
    model_digest: str
    context_window: int = 4096
    parallel: int = 4
    kv_cells: int = 0
    threads: int = 0
    batch_tokens: int = 2048
    ubatch_tokens: int = 512
    prefill_chunk_tokens: int = 256
    shared_prefill_chunk_tokens: int = 64
    gpu_layers: int = -1
    flash_attention: Literal["auto", "on", "off"] = "auto"
    kv_type: KvType = "f16"
    chat_template: str = ""
    reasoning_tags: tuple[str, str] | None = None
    prefix_dir: Path | None = None
    prefix_disk_bytes: int = 2 << 30
    prefix_ram_bytes: int = 512 << 20
    kept_sequences: int = 16
    runtime_dir: Path | None = None
    log_dir: Path | None = None

    def __post_init__(self) -> None:
        _check("context_window", self.context_window, 64, 1 << 24)
        _check("parallel", self.parallel, 1, 128)
        _check("kept_sequences", self.kept_sequences, 0, 112)
        _check("kv_cells", self.total_cells, self.context_window, 1 << 28)
        _check("threads", self.threads, 0, 1024)
        _check("batch_tokens", self.batch_tokens, 32, 1 << 16)
        _check("ubatch_tokens", self.ubatch_tokens, 32, self.batch_tokens)
        _check("prefill_chunk_tokens", self.prefill_chunk_tokens, 16, self.batch_tokens)
        _check("shared_prefill_chunk_tokens", self.shared_prefill_chunk_tokens, 1, self.batch_tokens)

    @property
    def total_cells(self) -> int:
        """Cells of the KV cache, one token each."""
        return self.kv_cells or self.context_window * self.parallel

    @property
    def sequence_limit(self) -> int:
        """Sequences that may exist at once, running and kept."""
        return self.parallel + self.kept_sequences


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise InvalidRequestError(f"{name} is {value}; it must be between {low} and {high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Facts of a loaded model and the process that owns it. Each of `end_tokens` ends an answer."""

    pid: int
    model_name: str
    model_digest: str
    architecture: str
    context_window: int
    trained_context: int
    parallel: int
    kv_cells: int
    threads: int
    vocabulary_size: int
    has_chat_template: bool
    reasoning_tags: tuple[str, str] | None
    can_reuse_prefixes: bool
    end_tokens: tuple[int, ...]
    build: str
    load_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStats:
    """What a worker holds and has done, for `ps`, metrics and tests."""

    running: int
    waiting: int
    kept_sequences: int
    kept_tokens: int
    parked_bytes: int
    saved_prefixes: int
    saved_bytes: int
    steps: int
    prefilled_tokens: int
    decoded_tokens: int
    resident_bytes: int
    peak_resident_bytes: int
