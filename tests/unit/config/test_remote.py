"""The table of servers is read strictly, and what it says of a host decides what may be sent there."""

from pathlib import Path

import pytest

from appliance.config import load_settings
from appliance.config.remote import RemoteModel, RemoteServer
from appliance.core.errors import ConfigError


def servers(folder: Path, text: str) -> dict[str, RemoteServer]:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return dict(load_settings(environ={"HOME": str(folder)}, config_file=path).providers)


def test_a_server_is_read_with_everything_that_is_stated(tmp_path: Path) -> None:
    text = """
    [providers.gpu-box]
    url = "https://gpu.example:8443/v1/"
    allow = true
    place = "this_network"
    api_key_env = "GPU_KEY"
    stall_s = 60
    models = ["qwen3:8b", {name = "big", context_window = 8192, capabilities = ["tools"]}]
    headers = {X-Team = "blue"}
    """

    server = servers(tmp_path, text)["gpu-box"]

    assert (server.address.url, server.address.placement) == ("https://gpu.example:8443/v1", "this_network")
    assert (server.is_allowed, server.api_key_env, server.stall_s) == (True, "GPU_KEY", 60.0)
    assert server.models == (
        RemoteModel(name="qwen3:8b"),
        RemoteModel(name="big", context_window=8192, capabilities=frozenset(("chat", "tools"))),
    )
    assert server.extra_headers == (("X-Team", "blue"),)


def test_without_a_table_there_is_no_server_and_without_permission_none(tmp_path: Path) -> None:
    assert servers(tmp_path, "") == {}
    assert not servers(tmp_path, '[providers.a]\nurl = "https://a.example"')["a"].is_allowed


@pytest.mark.parametrize(
    "body, said",
    [
        ("", "url is missing"),
        ('url = "gpu:80"', "no URL"),
        ('url = "http://gpu.example"', "unencrypted"),
        ('url = "http://127.0.0.1"\nurll = 1', "urll"),
        ('url = "http://127.0.0.1"\nallow = "yes"', "true or false"),
        ('url = "http://127.0.0.1"\nplace = "moon"', "this_machine"),
        ('url = "https://8.8.8.8"\nplace = "this_machine"', "cannot be this_machine"),
        ('url = "http://127.0.0.1"\nmodels = ["a", "a"]', "once"),
        ('url = "http://127.0.0.1"\nmodels = [7]', "name of a model"),
        ('url = "http://127.0.0.1"\nmodels = [{name = "a", capabilities = ["fly"]}]', "a list of"),
        ('url = "http://127.0.0.1"\nheaders = {Authorization = "x"}', "api_key_env"),
        ('url = "http://u:p@127.0.0.1"', "password"),
        ('url = "http://127.0.0.1"\nstall_s = 0', "a number from"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, body: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        servers(tmp_path, f"[providers.box]\n{body}")

    assert said in caught.value.message + caught.value.hint


def test_a_key_in_the_place_of_its_variable_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        servers(tmp_path, '[providers.box]\nurl = "http://127.0.0.1"\napi_key_env = "sk-secret-123"')

    assert "sk-secret-123" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", ["llama_cpp", "scripted", "Box", '"a/b"', '""'])
def test_a_name_that_would_be_mistaken_for_something_else_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be the name"):
        servers(tmp_path, f'[providers.{name}]\nurl = "http://127.0.0.1"')


def test_a_proxy_elsewhere_of_a_server_of_this_machine_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"providers\.box: .* would leave this machine through the proxy"):
        servers(
            tmp_path, '[providers.box]\nurl = "http://127.0.0.1:8080"\nproxy = "http://user:word@203.0.113.7"'
        )
