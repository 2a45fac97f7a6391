"""A setting comes from its strongest source, says which, and a bad one names itself and the way out."""

import tomllib
from pathlib import Path

import pytest

from appliance.config import Settings, load_settings
from appliance.core.errors import ConfigError
from appliance.core.requests import SamplingParams
from tests.conftest import REPOSITORY


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def settings_of(folder: Path, text: str = "", **environment: str) -> Settings:
    return load_settings(environ={"HOME": str(folder), **environment}, config_file=written(folder, text))


def origin_of(settings: Settings, name: str) -> tuple[str, str]:
    return next((found.source, found.origin) for found in settings.resolved if found.name == name)


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    path = written(tmp_path, "# mine\nthreads = 3\nparallel = 3\ntop_k = 3\n")
    environ = {"APPLIANCE_THREADS": "2", "APPLIANCE_PARALLEL": "2"}

    settings = load_settings({"threads": 1, "top_k": None}, environ=environ, config_file=path)

    assert (settings.threads, settings.parallel, settings.top_k, settings.min_p) == (1, 2, 3, 0.05)
    assert origin_of(settings, "threads") == ("flag", "command line")
    assert origin_of(settings, "parallel") == ("environment", "APPLIANCE_PARALLEL")
    assert origin_of(settings, "top_k") == ("file", f"{path}:4")
    assert origin_of(settings, "min_p") == ("default", "default")


def test_folders_follow_xdg_and_ignore_relative_paths(tmp_path: Path) -> None:
    environ = {
        "HOME": "/home/me",
        "XDG_DATA_HOME": "/data",
        "XDG_STATE_HOME": "relative",
        "XDG_RUNTIME_DIR": "/run/me",
    }

    settings = load_settings(environ=environ)

    assert settings.models_dir == Path("/data/appliance/models")
    assert settings.state_dir == Path("/home/me/.local/state/appliance")
    assert settings.runtime_dir == Path("/run/me/appliance")
    assert settings.config_file == Path("/home/me/.config/appliance/config.toml")


def test_without_a_runtime_folder_workers_are_listed_below_the_state(tmp_path: Path) -> None:
    assert load_settings(environ={"HOME": "/home/me"}).runtime_dir == Path(
        "/home/me/.local/state/appliance/run"
    )


def test_the_model_store_moves_with_the_data_unless_stated(tmp_path: Path) -> None:
    moved = settings_of(tmp_path, 'data_dir = "~/elsewhere"')
    stated = settings_of(tmp_path, 'data_dir = "~/elsewhere"', APPLIANCE_MODELS="/weights")

    assert moved.models_dir == tmp_path / "elsewhere" / "models"
    assert stated.models_dir == Path("/weights")


def test_an_empty_variable_is_one_not_set(tmp_path: Path) -> None:
    assert settings_of(tmp_path, "threads = 3", APPLIANCE_THREADS="").threads == 3


@pytest.mark.parametrize(
    "text, value",
    [("0", 0), ("2048", 2048), ('"500MB"', 500_000_000), ('"1.5 GiB"', 1_610_612_736), ('"2kb"', 2000)],
)
def test_sizes_may_carry_a_unit(tmp_path: Path, text: str, value: int) -> None:
    assert settings_of(tmp_path, f"prefix_disk_bytes = {text}").prefix_disk_bytes == value


@pytest.mark.parametrize("text, value", [("yes", True), ("1", True), ("OFF", False), ("false", False)])
def test_booleans_of_the_environment(tmp_path: Path, text: str, value: bool) -> None:
    assert settings_of(tmp_path, APPLIANCE_OFFLINE=text).offline is value


BAD = [
    ('threads = "many"', "config.toml:1: threads is 'many'"),
    ("threads = -1", "threads is -1; a whole number from 0 to 1024"),
    ("threads = 2.5", "threads is 2.5"),
    ("threads = true", "threads is True"),
    ("temperature = nan", "temperature is nan"),
    ("keep_alive_s = -inf", "keep_alive_s is -inf"),
    ('kv_type = "q2"', "one of f16, q8_0, q4_0"),
    ('offline = "maybe"', "true or false"),
    ('prefix_disk_bytes = "lots"', "such as 1073741824, 500MB or 2GiB"),
    ("prefix_disk_bytes = true", "prefix_disk_bytes is True"),
    ('models_dir = "relative/path"', "absolute path"),
    ('model = ""', "non-empty"),
]


@pytest.mark.parametrize("text, why", BAD)
def test_a_bad_value_names_place_key_and_what_is_expected(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, text)

    assert why in caught.value.message


def test_an_unknown_key_names_file_line_and_the_nearest_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_of(tmp_path, "threads = 1\n\ncontex_window = 2048\n")

    assert f"{tmp_path / 'config.toml'}:3: there is no setting 'contex_window'" in caught.value.message
    assert caught.value.hint == "did you mean 'context_window'?"


def test_an_unknown_table_is_refused_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r":1: there is no setting 'engine'"):
        settings_of(tmp_path, "[engine]\nthreads = 1\n")


def test_an_unknown_flag_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'thread'"):
        load_settings({"thread": 3}, environ={"HOME": str(tmp_path)})


def test_a_misspelt_variable_is_reported_and_one_of_another_tool_is_not(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, APPLIANCE_THREAD="3", APPLIANCE_BACKEND="cuda", OTHER_THREADS="3")

    assert settings.unread_environment == (
        "APPLIANCE_THREAD is set but is no setting; did you mean APPLIANCE_THREADS?",
    )


def test_a_named_file_must_exist_and_the_usual_one_need_not(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_settings(environ={"APPLIANCE_CONFIG": str(tmp_path / "none.toml")})

    assert load_settings(environ={"HOME": str(tmp_path)}).threads == 0


@pytest.mark.parametrize(
    "content, why",
    [(b"threads = ", "not valid TOML"), (b"\xff\xfe", "not UTF-8"), (b"a = 1\na = 2", "not valid TOML")],
)
def test_a_file_that_cannot_be_parsed_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=why) as caught:
        load_settings(environ={}, config_file=path)

    assert str(path) in caught.value.message


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(environ={}, config_file=tmp_path)


def test_usual_sampling_is_the_sampling_of_a_request_that_states_none(tmp_path: Path) -> None:
    assert settings_of(tmp_path).default_sampling() == SamplingParams()
    assert settings_of(tmp_path, "max_tokens = 9").default_sampling() == SamplingParams(max_tokens=9)


def test_the_usual_models_have_cards(tmp_path: Path) -> None:
    cards = (REPOSITORY / "models" / "cards").glob("*.toml")
    known = {tomllib.loads(card.read_text(encoding="utf-8"))["id"] for card in cards}

    settings = settings_of(tmp_path)

    assert {settings.model, settings.embedder} <= known


def test_a_small_batch_bounds_what_must_not_be_larger(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "batch_tokens = 128")

    assert (settings.batch_tokens, settings.ubatch_tokens, settings.prefill_chunk_tokens) == (128, 128, 128)
