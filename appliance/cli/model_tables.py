"""What `list` and `show` print: facts of models, how they fit, and the memory plan as a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from appliance.catalog.catalog import Catalog, LocalModel
from appliance.catalog.free_memory import read_free_bytes
from appliance.catalog.gguf import GgufInfo, read_gguf
from appliance.catalog.load_shape import load_shape
from appliance.catalog.manifest import Manifest
from appliance.catalog.memory_plan import LoadShape, MemoryPlan, plan_memory
from appliance.catalog.store import human_bytes
from appliance.config import Settings
from appliance.core.capabilities import ModelCard
from appliance.core.errors import ApplianceError, ModelNotFoundError
from appliance.engine.used_features import read_used_features

Fit = Literal["yes", "no", "likely", "unlikely", "unknown"]

# Beside its weights a model needs memory for context and runtime; a guess while only the size is known.
_GUESSED_OVERHEAD = 1.2
_GUESSED_RUNTIME_BYTES = 300 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRow:
    """One line of `list`."""

    card: ModelCard
    size_bytes: int
    is_on_disk: bool
    fit: Fit

    def to_values(self) -> dict[str, object]:
        """Return the line for JSON."""
        card = self.card
        return {
            "id": card.id,
            "size_bytes": self.size_bytes,
            "parameters": card.parameters,
            "quantisation": card.quantisation,
            "context_window": card.context_window,
            "capabilities": sorted(card.capabilities),
            "licence": card.licence,
            "is_on_disk": self.is_on_disk,
            "is_verified_here": card.is_verified_here,
            "fit": self.fit,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What `show` knows of a model. Without weights on this machine there is no header and no plan."""

    card: ModelCard
    local: LocalModel | None
    info: GgufInfo | None
    plan: MemoryPlan | None
    problem: str

    def to_values(self) -> dict[str, object]:
        """Return the facts for JSON."""
        values = ListRow(
            card=self.card,
            size_bytes=self.card.size_bytes,
            is_on_disk=self.local is not None,
            fit=_fit(self.plan),
        ).to_values()
        values |= {"description": self.card.description, "homepage": self.card.homepage}
        if self.local is not None:
            values |= {"digest": self.local.digest, "path": str(self.local.path)}
        if self.info is not None:
            values["header"] = _header_values(self.info)
        if self.plan is not None:
            values["memory"] = _plan_values(self.plan)
        if self.problem:
            values["problem"] = self.problem
        return values


def list_rows(catalog: Catalog, settings: Settings) -> list[ListRow]:
    """Return stored models first, then those that can be fetched, each by size."""
    free, features = read_free_bytes(), read_used_features()
    stored = {manifest.card.id: manifest for manifest in catalog.store.manifests()}
    rows = [_stored_row(catalog, settings, manifest, free, features) for manifest in stored.values()]
    rows += [
        ListRow(
            card=card, size_bytes=card.size_bytes, is_on_disk=False, fit=_guessed_fit(card.size_bytes, free)
        )
        for card in catalog.cards.values()
        if card.id not in stored
    ]
    return sorted(rows, key=lambda row: (not row.is_on_disk, row.card.parameters, row.card.id))


def _stored_row(
    catalog: Catalog, settings: Settings, manifest: Manifest, free: int, features: frozenset[str]
) -> ListRow:
    paths = [catalog.store.file_path(file) for file in manifest.files]
    is_whole = all(path.is_file() for path in paths)
    fit = _guessed_fit(manifest.size_bytes, free)
    if is_whole and len(paths) == 1:
        try:
            info = read_gguf(paths[0])
            fit = _fit(
                plan_memory(info, _shape(settings, info, None, None), free_bytes=free, cpu_features=features)
            )
        except ApplianceError:
            fit = "unknown"
    return ListRow(card=manifest.card, size_bytes=manifest.size_bytes, is_on_disk=is_whole, fit=fit)


def show_facts(
    catalog: Catalog, settings: Settings, name: str, context_tokens: int | None, parallel: int | None
) -> ModelFacts:
    """Gather what is known of a model.

    Raises:
        ModelNotFoundError: there is no such model; names the nearest.
    """
    card = catalog.card(name)
    try:
        local = catalog.local(name)
    except ModelNotFoundError as exc:
        return ModelFacts(card=card, local=None, info=None, plan=None, problem=f"{exc.message}; {exc.hint}")
    if not local.is_gguf:
        return ModelFacts(card=card, local=local, info=None, plan=None, problem="")
    info = read_gguf(local.path)
    shape = _shape(settings, info, context_tokens, parallel)
    plan = plan_memory(info, shape, cpu_features=read_used_features())
    problem = ""
    if info.context_length and plan.shape.context_tokens > info.context_length:
        problem = (
            f"the model was trained for {info.context_length} tokens of context; beyond it the text decays"
        )
    return ModelFacts(card=local.card, local=local, info=info, plan=plan, problem=problem)


def _shape(settings: Settings, info: GgufInfo, context_tokens: int | None, parallel: int | None) -> LoadShape:
    usual = min(settings.context_window, info.context_length or settings.context_window)
    return load_shape(settings, context_tokens=context_tokens or usual, parallel=parallel)


def _fit(plan: MemoryPlan | None) -> Fit:
    if plan is None:
        return "unknown"
    return "yes" if plan.fits else "no"


def _guessed_fit(size_bytes: int, free: int) -> Fit:
    if not size_bytes:
        return "unknown"
    return "likely" if size_bytes * _GUESSED_OVERHEAD + _GUESSED_RUNTIME_BYTES <= free else "unlikely"


def table_text(rows: list[ListRow]) -> str:
    """Write the list for people."""
    header = ("NAME", "SIZE", "PARAMETERS", "QUANT", "CONTEXT", "ON DISK", "FITS")
    cells = [header] + [
        (
            row.card.id,
            human_bytes(row.size_bytes) if row.size_bytes else "?",
            human_count(row.card.parameters) if row.card.parameters else "?",
            row.card.quantisation or "?",
            str(row.card.context_window or "?"),
            "yes" if row.is_on_disk else "no",
            row.fit,
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(header))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def show_text(facts: ModelFacts) -> str:
    """Write a model's facts for people."""
    card = facts.card
    pairs = [
        ("name", card.id),
        ("what", card.description),
        ("family", card.family),
        ("parameters", human_count(card.parameters) if card.parameters else "?"),
        ("quantisation", card.quantisation or "?"),
        ("context window", f"{card.context_window} tokens" if card.context_window else "?"),
        ("licence", card.licence),
        ("capabilities", ", ".join(sorted(card.capabilities))),
        ("page", card.homepage),
        (
            "checked here",
            "yes" if card.is_verified_here else "no: its weights were not fetched by the makers",
        ),
    ]
    if facts.local is not None:
        pairs += [("sha256", facts.local.digest or "not hashed"), ("path", str(facts.local.path))]
    lines = [f"{name:<16}{value}" for name, value in pairs if value]
    if facts.plan is not None:
        lines += ["", *_plan_lines(facts.plan)]
    if facts.problem:
        lines += ["", facts.problem]
    return "\n".join(lines)


def _plan_lines(plan: MemoryPlan) -> list[str]:
    shape = plan.shape
    parts = [
        ("weights, mapped", plan.weights_bytes),
        ("weights, reordered for this processor", plan.repacked_bytes),
        (f"KV cache ({shape.key_type}, {shape.cells} cells)", plan.kv_cache_bytes),
        ("compute buffers", plan.compute_bytes),
        ("worker, libraries, vocabulary", plan.runtime_bytes),
        ("total", plan.total_bytes),
        ("free now", plan.free_bytes),
    ]
    if plan.gpu_bytes:
        parts += [("on the GPU", plan.gpu_bytes), ("free on the GPU", plan.gpu_free_bytes)]
    heading = (
        f"memory for {shape.sequences} x {shape.context_tokens} tokens of context (predicted peak, resident)"
    )
    verdict = "fits" if plan.fits else "does not fit"
    largest = plan.largest_context_tokens
    return [
        heading,
        *(f"  {name:<40}{human_bytes(size):>10}" for name, size in parts),
        f"  {verdict}; the largest context that fits is {largest} tokens for each of {shape.sequences}",
        f"  beside it, as conversations come: up to {human_bytes(shape.prefix_ram_bytes)} of prefixes",
    ]


def _plan_values(plan: MemoryPlan) -> dict[str, object]:
    return {
        "context_tokens": plan.shape.context_tokens,
        "parallel": plan.shape.sequences,
        "kv_cells": plan.shape.cells,
        "weights_bytes": plan.weights_bytes,
        "repacked_bytes": plan.repacked_bytes,
        "kv_cache_bytes": plan.kv_cache_bytes,
        "compute_bytes": plan.compute_bytes,
        "runtime_bytes": plan.runtime_bytes,
        "total_bytes": plan.total_bytes,
        "free_bytes": plan.free_bytes,
        "gpu_bytes": plan.gpu_bytes,
        "gpu_free_bytes": plan.gpu_free_bytes,
        "fits": plan.fits,
        "prefix_ram_bytes": plan.shape.prefix_ram_bytes,
        "largest_context_tokens": plan.largest_context_tokens,
    }


def _header_values(info: GgufInfo) -> dict[str, object]:
    return {
        "gguf_version": info.version,
        "architecture": info.architecture,
        "context_length": info.context_length,
        "block_count": info.block_count,
        "embedding_length": info.embedding_length,
        "vocabulary_size": info.vocabulary_size,
        "tokenizer": info.tokenizer_model,
        "quantisation": info.quantisation,
        "parameters": info.parameters,
        "tensor_count": info.tensor_count,
        "tensor_bytes": info.tensor_bytes,
        "sliding_window": info.sliding_window,
        "expert_count": info.expert_count,
        "has_chat_template": bool(info.chat_template),
    }


def human_count(count: int) -> str:
    """Write a number of parameters for people."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f}B"
    return f"{count / 1e6:.0f}M"
