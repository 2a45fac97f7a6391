"""Settings, read once and frozen: flag over `APPLIANCE_*` environment over TOML file over default.

Every setting remembers where its value came from, so that a screen can show it. The file is
`$APPLIANCE_CONFIG`, or `appliance/config.toml` under the XDG configuration folder.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import inf, isfinite
from pathlib import Path
from typing import Literal, TypeVar, cast, get_args

from appliance.core.errors import ConfigError
from appliance.core.requests import SamplingParams

Scalar = str | int | float | bool | Path
SourceKind = Literal["flag", "environment", "file", "default"]
FlashAttention = Literal["auto", "on", "off"]
KvType = Literal["f16", "q8_0", "q4_0", "reproducible"]
LogLevel = Literal["debug", "info", "warning", "error"]

ENVIRONMENT_PREFIX = "APPLIANCE_"
CONFIG_FILE_VARIABLE = "APPLIANCE_CONFIG"

_T = TypeVar("_T", bound=Scalar)
_BYTE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_BYTE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True}
_BOOLEANS |= {"false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSetting:
    """One setting as it holds now: its value, where it came from, and what it means."""

    name: str
    value: Scalar
    source: SourceKind
    origin: str
    environment_variable: str
    description: str


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
    index_uri: str
    text_language: str
    context_window: int
    parallel: int
    threads: int
    gpu_layers: int
    flash_attention: FlashAttention
    kv_type: KvType
    keep_alive_s: float
    max_loaded_models: int
    prefix_disk_bytes: int
    offline: bool
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_tokens: int
    log_level: LogLevel
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
    folders = _Folders(environment)
    path, must_exist = _config_path(config_file, environment, folders)
    reader = _Reader(
        flags={name: value for name, value in (flags or {}).items() if value is not None},
        environment=environment,
        file=_TomlFile.read(path, must_exist=must_exist),
        home=folders.home,
    )
    settings = _read_all(reader, folders, path)
    reader.check_names()
    return settings


def _read_all(reader: _Reader, folders: _Folders, path: Path) -> Settings:
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
        index_uri=reader.text(
            "index_uri", "", "where the search index lies: a path or an object store; empty is the data folder"
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
        offline=reader.boolean("offline", False, "forbid every connection to another machine"),
        temperature=reader.number("temperature", usual.temperature, 0.0, 100.0, "0 is greedy"),
        top_p=reader.number("top_p", usual.top_p, 0.0, 1.0, "1 switches the rule off"),
        top_k=reader.integer("top_k", usual.top_k, 0, 2**31 - 1, "0 switches the rule off"),
        min_p=reader.number("min_p", usual.min_p, 0.0, 1.0, "0 switches the rule off"),
        max_tokens=reader.integer(
            "max_tokens", 0, 0, 1 << 24, "longest answer; 0 is what the context window leaves"
        ),
        log_level=reader.choice("log_level", "warning", get_args(LogLevel), "least level that is logged"),
        script=reader.optional_path("script", "file of scripted models, for demonstrations and tests"),
        config_file=path,
        resolved=reader.resolved(),
        unread_environment=reader.unread_environment(),
    )


def variable_of(name: str) -> str:
    """Return the usual environment variable of a setting."""
    return ENVIRONMENT_PREFIX + name.upper()


def nearest(name: str, known: list[str]) -> str:
    """Return a question that names the nearest known name, or nothing."""
    matches = get_close_matches(name, known, n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else ""


class _Folders:
    """Default folders by the XDG base directory specification; relative XDG paths are ignored as it asks."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self.home = Path(environment.get("HOME") or Path.home())
        self.config = self._base("XDG_CONFIG_HOME", ".config")
        self.data = self._base("XDG_DATA_HOME", ".local/share")
        self.cache = self._base("XDG_CACHE_HOME", ".cache")
        self.state = self._base("XDG_STATE_HOME", ".local/state")
        runtime = environment.get("XDG_RUNTIME_DIR", "")
        self.runtime = Path(runtime) / "appliance" if Path(runtime).is_absolute() else None

    def _base(self, variable: str, below_home: str) -> Path:
        stated = self._environment.get(variable, "")
        return (Path(stated) if Path(stated).is_absolute() else self.home / below_home) / "appliance"


def _config_path(given: Path | None, environment: Mapping[str, str], folders: _Folders) -> tuple[Path, bool]:
    if given is not None:
        return given, True
    stated = environment.get(CONFIG_FILE_VARIABLE, "")
    if stated:
        return _expand_home(stated, folders.home), True
    return folders.config / "config.toml", False


def _expand_home(text: str, home: Path) -> Path:
    if text == "~" or text.startswith("~/"):
        return home / text[2:]
    return Path(text)


@dataclass(frozen=True, slots=True)
class _TomlFile:
    """The parsed file and its text, which tells the line of a key."""

    path: Path
    text: str
    values: Mapping[str, object]

    @classmethod
    def read(cls, path: Path, *, must_exist: bool) -> _TomlFile:
        try:
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as exc:
            if must_exist:
                raise ConfigError(f"the configuration file {path} does not exist") from exc
            return cls(path, "", {})
        except UnicodeDecodeError as exc:
            raise ConfigError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from exc
        except OSError as exc:
            raise ConfigError(f"{path} cannot be read: {exc.strerror}") from exc
        try:
            return cls(path, text, tomllib.loads(text))
        except tomllib.TOMLDecodeError as exc:
            raise ConfigError(f"{path} is not valid TOML: {exc}") from exc

    def place(self, key: str) -> str:
        """Return `path:line` of a key, or the path when the line cannot be told."""
        pattern = re.compile(rf"""\s*\[{{0,2}}\s*["']?{re.escape(key)}["']?\s*[\].=]""")
        for number, line in enumerate(self.text.splitlines(), start=1):
            if pattern.match(line):
                return f"{self.path}:{number}"
        return str(self.path)


@dataclass(frozen=True, slots=True)
class _Raw:
    """A value as its source states it. `label` names that source in messages."""

    value: object
    source: SourceKind
    label: str


class _Reader:
    """Reads settings one by one, checks them, and keeps a record of each."""

    def __init__(
        self,
        *,
        flags: Mapping[str, Scalar],
        environment: Mapping[str, str],
        file: _TomlFile,
        home: Path,
    ) -> None:
        self._flags = flags
        self._environment = environment
        self._file = file
        self._home = home
        self._resolved: dict[str, ResolvedSetting] = {}

    def folder(self, name: str, default: Path, description: str, *, variable: str = "") -> Path:
        return self._read(name, default, self._parse_path, description, variable)

    def optional_path(self, name: str, description: str) -> Path | None:
        text = self._read(name, "", lambda value: str(self._parse_path(value)), description)
        return Path(text) if text else None

    def _parse_path(self, value: object) -> Path:
        if not isinstance(value, str | Path) or not str(value).strip() or "\0" in str(value):
            raise ValueError("a path is expected")
        path = _expand_home(str(value), self._home)
        if not path.is_absolute():
            raise ValueError("an absolute path is expected")
        return path

    def text(self, name: str, default: str, description: str) -> str:
        def parse(value: object) -> str:
            if not isinstance(value, str) or not value.strip():
                raise ValueError("a non-empty text is expected")
            return value.strip()

        return self._read(name, default, parse, description)

    def choice(self, name: str, default: _T, choices: tuple[_T, ...], description: str) -> _T:
        listed = ", ".join(str(choice) for choice in choices)

        def parse(value: object) -> _T:
            if value not in choices:
                raise ValueError(f"one of {listed} is expected")
            return value

        return self._read(name, default, parse, f"{description}: {listed}")

    def boolean(self, name: str, default: bool, description: str) -> bool:
        def parse(value: object) -> bool:
            if isinstance(value, bool):
                return value
            if isinstance(value, str) and value.strip().lower() in _BOOLEANS:
                return _BOOLEANS[value.strip().lower()]
            raise ValueError("true or false is expected")

        return self._read(name, default, parse, description)

    def integer(self, name: str, default: int, low: int, high: int, description: str) -> int:
        def parse(value: object) -> int:
            wanted = f"a whole number from {low} to {high} is expected"
            number = _as_number(value, int, wanted)
            if not low <= number <= high:
                raise ValueError(wanted)
            return number

        return self._read(name, default, parse, description)

    def number(self, name: str, default: float, low: float, high: float, description: str) -> float:
        wanted = f"a number from {low:g} to {high:g} is expected"

        def parse(value: object) -> float:
            number = _as_number(value, float, wanted)
            if not low <= number <= high:
                raise ValueError(wanted)
            return number

        return self._read(name, default, parse, description)

    def byte_size(self, name: str, default: int, description: str) -> int:
        return self._read(name, default, _parse_bytes, description)

    def resolved(self) -> tuple[ResolvedSetting, ...]:
        return tuple(self._resolved.values())

    def check_names(self) -> None:
        """Refuse a flag or file key that is no setting."""
        known = list(self._resolved)
        for name in self._flags:
            if name not in self._resolved:
                raise ConfigError(f"there is no setting {name!r}", hint=nearest(name, known) or _LIST_HINT)
        for name in self._file.values:
            if name not in self._resolved:
                message = f"{self._file.place(name)}: there is no setting {name!r}"
                raise ConfigError(message, hint=nearest(name, known) or _LIST_HINT)

    def unread_environment(self) -> tuple[str, ...]:
        """Name variables that look like a misspelt setting; others of our prefix belong to other tools."""
        variables = [setting.environment_variable for setting in self._resolved.values()]
        known = [*variables, CONFIG_FILE_VARIABLE]
        warnings: list[str] = []
        for variable in sorted(self._environment):
            if not variable.startswith(ENVIRONMENT_PREFIX) or variable in known:
                continue
            if close := get_close_matches(variable, known, n=1, cutoff=0.8):
                warnings.append(f"{variable} is set but is no setting; did you mean {close[0]}?")
        return tuple(warnings)

    def _read(
        self,
        name: str,
        default: _T,
        parse: Callable[[object], _T],
        description: str,
        variable: str = "",
    ) -> _T:
        variable = variable or variable_of(name)
        raw = self._raw(name, variable)
        value = default if raw is None else _parse_raw(name, raw, parse)
        self._resolved[name] = ResolvedSetting(
            name=name,
            value=value,
            source=raw.source if raw else "default",
            origin=raw.label if raw else "default",
            environment_variable=variable,
            description=description,
        )
        return value

    def _raw(self, name: str, variable: str) -> _Raw | None:
        if name in self._flags:
            return _Raw(self._flags[name], "flag", "command line")
        if self._environment.get(variable, "") != "":
            return _Raw(self._environment[variable], "environment", variable)
        if name in self._file.values:
            return _Raw(self._file.values[name], "file", self._file.place(name))
        return None


_LIST_HINT = "`appliance config` lists every setting"


def _parse_raw(name: str, raw: _Raw, parse: Callable[[object], _T]) -> _T:
    try:
        return parse(raw.value)
    except ValueError as exc:
        raise ConfigError(f"{raw.label}: {name} is {raw.value!r}; {exc}", setting=name) from exc


def _as_number(value: object, of: type[_Number], wanted: str) -> _Number:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number and not isinstance(value, str):
        raise ValueError(wanted)
    if of is int and isinstance(value, float) and not (isfinite(value) and value.is_integer()):
        raise ValueError(wanted)
    try:
        return of(cast("str | int | float", value))
    except ValueError as exc:
        raise ValueError(wanted) from exc


_Number = TypeVar("_Number", int, float)


def _parse_bytes(value: object) -> int:
    wanted = "a size such as 1073741824, 500MB or 2GiB is expected"
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?B?)", str(value).strip().upper())
    if isinstance(value, bool) or match is None or match[2] not in _BYTE_UNITS:
        raise ValueError(wanted)
    return int(float(match[1]) * _BYTE_UNITS[match[2]])
