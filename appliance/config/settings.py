"""Every setting, with its default, its range and what it means."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Literal, get_args

from appliance.config.folders import XdgFolders, config_path
from appliance.config.keys import parse_keys
from appliance.config.limits import Limits, parse_limits
from appliance.config.prices import PriceTable, parse_prices
from appliance.config.reader import ResolvedSetting, Scalar, SettingReader, SourceKind
from appliance.config.remote import RemoteServer, parse_remote_servers
from appliance.config.retry import RetryPolicy, parse_retry
from appliance.config.routes import Route, parse_routes
from appliance.config.toml_file import TomlFile
from appliance.core.requests import SamplingParams

FlashAttention = Literal["auto", "on", "off"]
KvType = Literal["f16", "q8_0", "q4_0", "reproducible"]
MemoryPolicyName = Literal["full", "sliding_window", "summary", "hybrid"]
FactMode = Literal["off", "ask", "save"]
LogLevel = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Every setting of the appliance. Built by `load_settings` only."""

    models_dir: Path
    data_dir: Path
    cache_dir: Path
    state_dir: Path
    runtime_dir: Path
    model: str
    embedder: str
    reranker: str
    index_uri: str
    text_language: str
    context_window: int
    parallel: int
    threads: int
    gpu_layers: int
    batch_tokens: int
    ubatch_tokens: int
    prefill_chunk_tokens: int
    flash_attention: FlashAttention
    kv_type: KvType
    keep_alive_s: float
    max_loaded_models: int
    prefix_disk_bytes: int
    prefix_ram_bytes: int
    offline: bool
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    response_cache: bool
    response_cache_ttl_s: float
    response_cache_bytes: int
    providers: Mapping[str, RemoteServer]
    routes: Mapping[str, Route]
    limits: Limits
    retry: RetryPolicy
    prices: PriceTable
    memory: MemoryPolicyName
    facts: FactMode
    keys: Mapping[str, str]
    log_level: LogLevel
    trace_days: float
    trace_disk_bytes: int
    trace_content_owners: str
    otlp_endpoint: str
    otlp_allow: bool
    script: Path | None
    config_file: Path
    resolved: tuple[ResolvedSetting, ...]
    unread_environment: tuple[str, ...]

    def source_of(self, name: str) -> SourceKind:
        """Return where a setting's value came from."""
        return next(setting.source for setting in self.resolved if setting.name == name)

    def default_sampling(self) -> SamplingParams:
        """Return the sampling of a request that states none."""
        return SamplingParams(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            max_tokens=self.max_tokens or None,
        )


def load_settings(
    flags: Mapping[str, Scalar | None] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    config_file: Path | None = None,
) -> Settings:
    """Read every setting from its strongest source.

    Args:
        flags: values given on the command line by setting name; `None` means not given.
        environ: the environment to read; the process's own by default.
        config_file: the file to read instead of the one the environment names; it must exist.

    Raises:
        ConfigError: a setting is unknown, has an unusable value, or the file cannot be read.
    """
    environment = os.environ if environ is None else environ
    folders = XdgFolders(environment)
    path, must_exist = config_path(config_file, environment, folders)
    reader = SettingReader(
        flags={name: value for name, value in (flags or {}).items() if value is not None},
        environment=environment,
        file=TomlFile.read(path, must_exist=must_exist),
        home=folders.home,
    )
    settings = _read_all(reader, folders, path)
    reader.check_names()
    return settings


def _read_all(reader: SettingReader, folders: XdgFolders, path: Path) -> Settings:
    data_dir = reader.folder("data_dir", folders.data, "conversations, collections and other kept data")
    state_dir = reader.folder("state_dir", folders.state, "histories, logs and saved prefixes")
    usual = SamplingParams()
    return Settings(
        data_dir=data_dir,
        models_dir=reader.folder(
            "models_dir", data_dir / "models", "the model store", variable="APPLIANCE_MODELS"
        ),
        cache_dir=reader.folder("cache_dir", folders.cache, "what can be fetched or computed again"),
        state_dir=state_dir,
        runtime_dir=reader.folder(
            "runtime_dir", folders.runtime or state_dir / "run", "sockets and files of running workers"
        ),
        model=reader.text("model", "smollm2:135m-instruct-q4_1", "the model that answers when none is named"),
        embedder=reader.text("embedder", "all-minilm:l6-v2", "the model that embeds text"),
        reranker=reader.text("reranker", "", "the model that orders found passages anew; empty is none"),
        index_uri=reader.text(
            "index_uri",
            "",
            "where the search index lies: a path or an object store; empty is the data folder",
        ),
        text_language=reader.text(
            "text_language", "English", "the language whose word endings and stop words full text knows"
        ),
        context_window=reader.integer(
            "context_window", 4096, 64, 1 << 24, "tokens one conversation may hold, the answer included"
        ),
        parallel=reader.integer("parallel", 4, 1, 64, "requests one model answers at the same time"),
        threads=reader.integer("threads", 0, 0, 1024, "threads that compute; 0 is one per physical core"),
        gpu_layers=reader.integer(
            "gpu_layers", -1, -1, 10_000, "layers on the GPU; -1 is all that fit, 0 is none"
        ),
        batch_tokens=(
            batch_tokens := reader.integer(
                "batch_tokens", 2048, 64, 1 << 16, "most tokens of all sequences that are handed over at once"
            )
        ),
        ubatch_tokens=min(
            batch_tokens,
            reader.integer(
                "ubatch_tokens", 512, 32, 1 << 16, "most tokens in one forward pass; at most batch_tokens"
            ),
        ),
        prefill_chunk_tokens=min(
            batch_tokens,
            reader.integer(
                "prefill_chunk_tokens", 256, 16, 1 << 16, "tokens of a prompt at a time; at most batch_tokens"
            ),
        ),
        flash_attention=reader.choice(
            "flash_attention", "auto", get_args(FlashAttention), "fused attention kernels"
        ),
        kv_type=reader.choice("kv_type", "f16", get_args(KvType), "number format of the KV cache"),
        keep_alive_s=reader.number(
            "keep_alive_s", 300.0, 0.0, inf, "seconds an idle model stays loaded; inf is for ever"
        ),
        max_loaded_models=reader.integer(
            "max_loaded_models", 2, 1, 64, "models one process keeps loaded at the same time"
        ),
        prefix_disk_bytes=reader.byte_size(
            "prefix_disk_bytes", 2**30, "disk that saved prefixes may take; 0 saves none"
        ),
        prefix_ram_bytes=reader.byte_size(
            "prefix_ram_bytes",
            2**29,
            "memory beside the KV cache for prefixes of other conversations; 0: they stay in it and slow it",
        ),
        offline=reader.boolean("offline", False, "forbid every connection to another machine"),
        temperature=reader.number("temperature", usual.temperature, 0.0, 100.0, "0 is greedy"),
        top_p=reader.number("top_p", usual.top_p, 0.0, 1.0, "1 switches the rule off"),
        top_k=reader.integer("top_k", usual.top_k, 0, 2**31 - 1, "0 switches the rule off"),
        min_p=reader.number("min_p", usual.min_p, 0.0, 1.0, "0 switches the rule off"),
        max_tokens=reader.integer(
            "max_tokens", 0, 0, 1 << 24, "longest answer; 0 is what the context window leaves"
        ),
        response_cache=reader.boolean(
            "response_cache", False, "give the stored answer to a question that only has one"
        ),
        response_cache_ttl_s=reader.number(
            "response_cache_ttl_s", 86_400.0, 1.0, 1e9, "seconds an answer stays stored"
        ),
        response_cache_bytes=reader.byte_size(
            "response_cache_bytes", 256 << 20, "disk that stored answers may take"
        ),
        providers=reader.table(
            "providers", parse_remote_servers, "servers that run models elsewhere, by name"
        ),
        routes=reader.table("routes", parse_routes, "names for lists of models that can answer"),
        limits=reader.table("limits", parse_limits, "queue, concurrency, requests and tokens per minute"),
        retry=reader.table("retry", parse_retry, "which failures are tried again, how often and when"),
        prices=reader.table("prices", parse_prices, "prices of tokens, power and machine, with a version"),
        memory=reader.choice(
            "memory",
            "hybrid",
            get_args(MemoryPolicyName),
            "what of a long chat a prompt holds: all or an error, the newest turns, a summary, or summary and newest",
        ),
        facts=reader.choice(
            "facts",
            "ask",
            get_args(FactMode),
            "what you say of yourself: not kept, kept once confirmed, kept at once",
        ),
        keys=reader.table("keys", parse_keys, "keys of the terminal interface, by what they do"),
        log_level=reader.choice("log_level", "warning", get_args(LogLevel), "least level that is logged"),
        trace_days=reader.number("trace_days", 14.0, 0.0, 3650.0, "days that traces are kept; 0 keeps none"),
        trace_disk_bytes=reader.byte_size(
            "trace_disk_bytes", 64 << 20, "disk that traces may take; 0 keeps none"
        ),
        trace_content_owners=reader.text(
            "trace_content_owners", "", "owners whose redacted texts are kept in traces, parted by commas"
        ),
        otlp_endpoint=reader.text("otlp_endpoint", "", "OpenTelemetry collector that traces are sent to"),
        otlp_allow=reader.boolean("otlp_allow", False, "allow otlp_endpoint to be another machine"),
        script=reader.optional_path("script", "file of scripted models, for demonstrations and tests"),
        config_file=path,
        resolved=reader.resolved(),
        unread_environment=reader.unread_environment(),
    )
