"""Which flags are chosen for which processor and compiler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.core.errors import ConfigError
from appliance.engine.build_profiles import (
    BuildProfile,
    Compiler,
    build_key,
    choose_profiles,
    identify_compiler,
    parse_backend,
)
from appliance.engine.processor import Processor, parse_cpuinfo

COPYRIGHT_OF_GCC = "Copyright (C) 2022 Free Software Foundation, Inc."
GCC = Compiler(command="c++", version="c++ 12.2.0", family="gcc")
CLANG = Compiler(command="c++", version="Apple clang version 17.0.0", family="clang")
AVX2 = frozenset({"sse4_2", "avx", "avx2", "fma", "f16c", "bmi2"})
AMX = AVX2 | {"avx512f", "amx_tile", "amx_int8", "amx_bf16"}


def x86(features: frozenset[str]) -> Processor:
    return Processor(system="linux", architecture="x86_64", name="test", features=features, physical_cores=2)


def names(profiles: tuple[BuildProfile, ...]) -> list[str]:
    return [profile.name for profile in profiles]


def key(profile: BuildProfile, *, processor: Processor, compiler: Compiler = GCC, **own: str) -> str:
    return build_key(
        profile,
        version="1.0",
        backend="cpu",
        processor=processor,
        compiler=compiler,
        environment=own,
        python_tag="cp311",
    )


def test_amx_is_tried_repaired_first_then_left_out_then_ever_more_portable() -> None:
    profiles = choose_profiles(x86(AMX), GCC, "cpu")

    assert names(profiles) == ["native-amx", "native-no-amx", "portable-avx2", "baseline"]
    assert profiles[0].cxx_flags == "-fno-tree-dse -fno-dse"
    assert profiles[1].c_flags == profiles[1].cxx_flags == "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"


def test_flags_that_only_gcc_knows_are_kept_from_clang() -> None:
    assert choose_profiles(x86(AMX), CLANG, "cpu")[0].cxx_flags == ""


def test_a_processor_without_amx_starts_with_a_plain_native_build() -> None:
    profiles = choose_profiles(x86(AVX2), GCC, "cpu")

    assert names(profiles) == ["native", "portable-avx2", "baseline"]
    assert profiles[0].cxx_flags == ""


def test_a_processor_without_avx2_never_gets_avx2() -> None:
    profiles = choose_profiles(x86(frozenset({"sse4_2"})), GCC, "cpu")

    assert names(profiles) == ["native", "baseline"]
    assert "-DGGML_AVX2=OFF" in profiles[1].cmake_arguments


def test_arm_has_a_native_build_and_a_baseline_without_x86_flags() -> None:
    arm = Processor(
        system="linux", architecture="aarch64", name="arm", features=frozenset({"asimd"}), physical_cores=4
    )

    profiles = choose_profiles(arm, GCC, "cpu")

    assert names(profiles) == ["native", "baseline"]
    assert not any("AVX" in argument for profile in profiles for argument in profile.cmake_arguments)


@pytest.mark.parametrize(
    "backend,flag",
    [("cuda", "-DGGML_CUDA=ON"), ("metal", "-DGGML_METAL=ON"), ("vulkan", "-DGGML_VULKAN=ON")],
)
def test_a_gpu_backend_is_switched_on_in_every_profile(backend: str, flag: str) -> None:
    profiles = choose_profiles(x86(AMX), GCC, parse_backend({"APPLIANCE_BACKEND": backend}))

    assert all(flag in profile.cmake_arguments for profile in profiles)


def test_the_backend_is_read_without_regard_to_case_and_is_cpu_by_default() -> None:
    assert parse_backend({"APPLIANCE_BACKEND": " CUDA "}) == "cuda"
    assert parse_backend({"APPLIANCE_BACKEND": ""}) == "cpu"
    assert parse_backend({}) == "cpu"


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="cpu, cuda, metal, vulkan"):
        parse_backend({"APPLIANCE_BACKEND": "rocm"})


def test_a_build_is_shared_only_where_processor_compiler_flags_and_profile_are_the_same() -> None:
    native, portable, _ = choose_profiles(x86(AVX2), GCC, "cpu")
    other_compiler = replace(GCC, version="c++ 14.1.0")

    keys = {
        key(native, processor=x86(AVX2)),
        key(portable, processor=x86(AVX2)),
        key(native, processor=x86(AVX2 | {"avx512f"})),
        key(native, processor=x86(AVX2), compiler=other_compiler),
        key(native, processor=x86(AVX2), CXXFLAGS="-O2"),
    }

    assert len(keys) == 5
    assert key(native, processor=x86(AVX2)) in keys


@pytest.mark.parametrize(
    "output,family",
    [
        (f"c++ (Debian 12.2.0-14+deb12u1) 12.2.0\n{COPYRIGHT_OF_GCC}\n", "gcc"),
        (f"g++ (GCC) 14.2.1 20240912\n{COPYRIGHT_OF_GCC}\n", "gcc"),
        ("Ubuntu clang version 18.1.3 (1ubuntu1)\nTarget: x86_64-pc-linux-gnu\n", "clang"),
        ("Apple clang version 17.0.0 (clang-1700.0.13.5)\nTarget: arm64-apple-darwin\n", "clang"),
        ("zig c++ 0.13\n", "other"),
    ],
)
def test_compilers_are_told_apart_by_what_they_say_of_themselves(output: str, family: str) -> None:
    compiler = identify_compiler("c++", output)

    assert compiler.family == family
    assert compiler.version == output.splitlines()[0]


CPUINFO = """processor\t: 0
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu sse4_2 avx2 amx_tile

processor\t: 1
model name\t: another
flags\t\t: fpu
"""


def test_cpuinfo_of_x86_gives_name_and_features_of_the_first_processor() -> None:
    processor = parse_cpuinfo(CPUINFO, system="linux", architecture="x86_64")

    assert processor.name == "Intel(R) Xeon(R) Processor"
    assert processor.features == {"fpu", "sse4_2", "avx2", "amx_tile"}
    assert processor.has_amx


def test_cpuinfo_of_arm_says_features_and_has_no_name() -> None:
    processor = parse_cpuinfo("processor : 0\nFeatures : fp asimd\n", system="linux", architecture="aarch64")

    assert processor.features == {"fp", "asimd"}
    assert not processor.is_x86


def test_an_unreadable_cpuinfo_leaves_a_processor_without_features() -> None:
    processor = parse_cpuinfo("", system="linux", architecture="x86_64")

    assert processor.features == frozenset()
    assert names(choose_profiles(processor, GCC, "cpu")) == ["native", "baseline"]
