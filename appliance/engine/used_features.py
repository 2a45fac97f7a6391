"""Which of this processor's features the installed build uses; the memory plan needs them."""

from __future__ import annotations

from appliance.engine.build_record import read_installed_build
from appliance.engine.processor import detect_processor


def read_used_features() -> frozenset[str]:
    """Return the features by the names of /proc/cpuinfo; without a record, a native build is supposed."""
    features = detect_processor().features
    build = read_installed_build()
    return features if build is None else features_of_profile(build.profile, features)


def features_of_profile(profile: str, features: frozenset[str]) -> frozenset[str]:
    """Leave out what a build profile switches off."""
    if profile == "baseline":
        return frozenset()
    if profile == "portable-avx2":
        return frozenset(name for name in features if not name.startswith(("amx", "avx512")))
    if profile == "native-no-amx":
        return frozenset(name for name in features if not name.startswith("amx"))
    return features
