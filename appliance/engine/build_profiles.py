"""Decides which flags to compile llama.cpp with on a processor, fastest first, safest last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from appliance.core.errors import ConfigError
from appliance.engine.processor import Processor

Backend = Literal["cpu", "cuda", "metal", "vulkan"]
CompilerFamily = Literal["gcc", "clang", "other"]

BACKEND_VARIABLE = "APPLIANCE_BACKEND"

# gcc removes stores that fill the AMX tile configuration as dead ones, and the first prompt then dies.
_REPAIR_AMX = "-fno-tree-dse -fno-dse"
_WITHOUT_AMX = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
_X86_FEATURES = ("AVX", "AVX2", "BMI2", "FMA", "F16C")
_BUILD_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS")
_X86_FLAGS_OF_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProfile:
    """One way to compile: its name, what it is good for, and the flags."""

    name: str
    description: str
    cmake_arguments: tuple[str, ...]
    c_flags: str = ""
    cxx_flags: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiler:
    """The C++ compiler found: its command, the first line of its version, and which one it is."""

    command: str
    version: str
    family: CompilerFamily


def identify_compiler(command: str, version_output: str) -> Compiler:
    """Read what a compiler says of itself. `c++` and, on macOS, `g++` do not tell by their names.

    gcc names itself after the command it was called by; its copyright line gives it away.
    """
    lowered = version_output.lower()
    family: CompilerFamily = "other"
    if "clang" in lowered:
        family = "clang"
    elif "free software foundation" in lowered:
        family = "gcc"
    return Compiler(command=command, version=version_output.partition("\n")[0].strip(), family=family)


def parse_backend(environment: Mapping[str, str]) -> Backend:
    """Read the backend from the environment; nothing means `cpu`.

    Raises:
        ConfigError: it is not one of the known backends.
    """
    stated = environment.get(BACKEND_VARIABLE, "").strip().lower() or "cpu"
    if stated in get_args(Backend):
        return cast("Backend", stated)
    raise ConfigError(
        f"{BACKEND_VARIABLE} is {stated!r}; one of {', '.join(get_args(Backend))} is expected",
        hint=f"unset {BACKEND_VARIABLE} for a build that runs on the processor",
    )


def choose_profiles(processor: Processor, compiler: Compiler, backend: Backend) -> tuple[BuildProfile, ...]:
    """List the profiles to try on this machine, in order; each is safer and slower than the one before."""
    shared = ("-DLLAVA_BUILD=OFF", "-DLLAMA_OPENSSL=OFF", *_backend_arguments(backend))
    variants = _x86_profiles(processor, compiler) if processor.is_x86 else _other_profiles()
    return tuple(
        BuildProfile(
            name=profile.name,
            description=profile.description,
            cmake_arguments=(*profile.cmake_arguments, *shared),
            c_flags=profile.c_flags,
            cxx_flags=profile.cxx_flags,
        )
        for profile in variants
    )


def build_key(
    profile: BuildProfile,
    *,
    version: str,
    backend: Backend,
    processor: Processor,
    compiler: Compiler,
    environment: Mapping[str, str],
    python_tag: str,
) -> str:
    """Name a build so that two builds share a name only where one can stand for the other."""
    facts = {
        "arguments": profile.cmake_arguments,
        "flags": (profile.c_flags, profile.cxx_flags),
        "processor": (processor.system, processor.architecture, sorted(processor.features)),
        "compiler": compiler.version,
        "own_flags": {name: environment.get(name, "") for name in _BUILD_VARIABLES},
        "python": python_tag,
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return f"{version}-{backend}-{profile.name}-{digest[:12]}"


def _x86_profiles(processor: Processor, compiler: Compiler) -> list[BuildProfile]:
    profiles: list[BuildProfile] = []
    if processor.has_amx:
        profiles.append(_native_with_amx(compiler))
        profiles.append(
            BuildProfile(
                name="native-no-amx",
                description="every feature of this processor but its matrix tiles (AMX)",
                cmake_arguments=("-DGGML_NATIVE=ON",),
                c_flags=_WITHOUT_AMX,
                cxx_flags=_WITHOUT_AMX,
            )
        )
    else:
        profiles.append(_NATIVE)
    if processor.features >= _X86_FLAGS_OF_AVX2:
        profiles.append(
            BuildProfile(
                name="portable-avx2",
                description="AVX2 only, as processors since 2013 have it",
                cmake_arguments=("-DGGML_NATIVE=OFF", *(f"-DGGML_{name}=ON" for name in _X86_FEATURES)),
            )
        )
    profiles.append(
        BuildProfile(
            name="baseline",
            description="SSE 4.2 only, for any 64-bit x86 processor since 2009; slow",
            cmake_arguments=(
                "-DGGML_NATIVE=OFF",
                "-DGGML_SSE42=ON",
                *(f"-DGGML_{name}=OFF" for name in _X86_FEATURES),
            ),
        )
    )
    return profiles


def _native_with_amx(compiler: Compiler) -> BuildProfile:
    return BuildProfile(
        name="native-amx",
        description="every feature of this processor, matrix tiles (AMX) included",
        cmake_arguments=("-DGGML_NATIVE=ON",),
        cxx_flags=_REPAIR_AMX if compiler.family == "gcc" else "",
    )


def _other_profiles() -> list[BuildProfile]:
    baseline = BuildProfile(
        name="baseline",
        description="the least that this architecture guarantees; slow",
        cmake_arguments=("-DGGML_NATIVE=OFF",),
    )
    return [_NATIVE, baseline]


_NATIVE = BuildProfile(
    name="native",
    description="every feature of this processor",
    cmake_arguments=("-DGGML_NATIVE=ON",),
)


def _backend_arguments(backend: Backend) -> tuple[str, ...]:
    return {
        "cpu": (),
        "cuda": ("-DGGML_CUDA=ON",),
        "metal": ("-DGGML_METAL=ON",),
        "vulkan": ("-DGGML_VULKAN=ON",),
    }[backend]
