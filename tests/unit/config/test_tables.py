"""Tables of the file become values; whatever means nothing names place, key and the way out."""

from pathlib import Path

import pytest

from appliance.config import Quota, RouteCandidate, Settings, TokenPrice, load_settings
from appliance.core.errors import ConfigError

FULL = """
[routes.quick]
candidates = ["small", { model = "big", latency = "batch", cost = "high", max_difficulty = 4 }]
privacy = "this_network"
fallback_on = ["timeout"]
cascade = true
stages = { rewrite = "tiny" }

[limits]
queue = 9
concurrency = 3
[limits.owner]
queue = 2
tokens_per_minute = 500
[limits.owners.anna]
requests_per_minute = 7

[retry]
max_attempts = 5
retry_on = ["timeout"]

[prices]
version = "2026-11"
machine_hour = 0.5
[prices.models."far:1b"]
input_million = 2.0
output_million = 6
"""


def settings_of(folder: Path, text: str) -> Settings:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(environ={"HOME": str(folder)}, config_file=path)


def test_every_table_is_read(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, FULL)

    route = settings.routes["quick"]
    assert route.candidates == (
        RouteCandidate(model="small"),
        RouteCandidate(model="big", latency="batch", cost="high", max_difficulty=4),
    )
    assert (route.privacy, route.fallback_on, route.is_cascade) == ("this_network", {"timeout"}, True)
    assert route.stages == {"rewrite": "tiny"}
    assert settings.limits.overall == Quota(queue=9, concurrency=3)
    assert settings.limits.of_owner("ben") == Quota(queue=2, tokens_per_minute=500)
    assert settings.limits.of_owner("anna") == Quota(queue=2, tokens_per_minute=500, requests_per_minute=7)
    assert (settings.retry.max_attempts, settings.retry.retry_on) == (5, {"timeout"})
    assert (settings.prices.version, settings.prices.machine_hour) == ("2026-11", 0.5)
    assert settings.prices.models == {"far:1b": TokenPrice(input=2.0, output=6.0, cached_input=2.0)}


def test_without_tables_nothing_is_routed_priced_or_stored(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "")

    assert settings.routes == {}
    assert settings.prices.is_empty
    assert settings.response_cache is False


def test_a_table_is_listed_among_the_settings_with_its_place(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, FULL)

    listed = next(setting for setting in settings.resolved if setting.name == "routes")
    assert (listed.value, listed.source, listed.origin) == (
        "quick",
        "file",
        f"{tmp_path / 'config.toml'}:2",
    )


BAD = [
    ("routes = 3", "config.toml:1: routes is 3; a table"),
    ("[routes]\nquick = 3", "routes.quick is 3; a table"),
    ("[routes.a]\n", "config.toml:1: routes.a.candidates is not stated; a list of one or more models"),
    ("[routes.a]\ncandidates = []", "routes.a.candidates is []"),
    ("[routes.a]\ncandidates = [1]", "each is the name of a model"),
    ("[routes.a]\ncandidates = ['m', 'm']", "each model may stand once"),
    ("[routes.a]\ncandidates = [{modle = 'm'}]", "routes.a.candidates[0].model is missing"),
    ("[routes.a]\ncandidates = [{model = 'm', max_difficulty = 11}]", "a whole number from 0 to 10"),
    ("[routes.a]\ncandidates = ['m']\nprivacy = 'moon'", "routes.a.privacy is 'moon'; one of this_process"),
    ("[routes.a]\ncandidates = ['m']\nfallback_on = ['malformed_output']", "a list of authentication"),
    ("[routes.a]\ncandidates = ['m']\nstages = {rewrite = ''}", "routes.a.stages.rewrite is ''"),
    ("x = 1\n\n[limits.owners.anna]\nqueue = -1", "config.toml:3: limits.owners.anna.queue is -1"),
    ("[retry]\nmax_attempts = true", "retry.max_attempts is True"),
    ("[retry]\nfirst_wait_s = 9", "retry.longest_wait_s is not stated; at least first_wait_s"),
    ("[prices]\nmachine_hour = nan", "prices.machine_hour is nan"),
    ("[prices]\nmachine_hour = 1", "prices.version is not stated; prices need a version"),
]


@pytest.mark.parametrize("text, why", BAD)
def test_a_bad_table_names_place_key_and_what_is_expected(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, text)

    assert why in caught.value.message


def test_an_unknown_key_of_a_table_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, "[routes.a]\ncandidates = ['m']\nprivcy = 'elsewhere'\n")

    assert caught.value.message == f"{tmp_path / 'config.toml'}:1: there is no routes.a.privcy"
    assert caught.value.hint == "did you mean 'privacy'?"


def test_a_table_cannot_be_a_flag(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="routes is a table"):
        load_settings({"routes": "quick"}, environ={"HOME": str(tmp_path)})
