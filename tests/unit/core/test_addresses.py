"""How far away an address leads, and what may be sent there."""

import pytest

from appliance.core.addresses import check_may_send, server_address, through_proxy
from appliance.core.capabilities import Placement
from appliance.core.errors import ConfigError, PolicyRejectionError


@pytest.mark.parametrize(
    "url, placement",
    [
        ("http://127.0.0.1:8080", "this_machine"),
        ("http://127.8.9.1", "this_machine"),
        ("http://localhost:11434/v1", "this_machine"),
        ("http://LOCALHOST.:1", "this_machine"),
        ("http://[::1]:8000", "this_machine"),
        ("http://192.168.1.20:8000", "this_network"),
        ("http://10.1.2.3", "this_network"),
        ("http://[fd00::7]:1", "this_network"),
        ("https://8.8.8.8", "elsewhere"),
        ("https://100.64.0.9", "elsewhere"),
        ("https://api.example.org/v1", "elsewhere"),
        ("https://127.0.0.1.example.org", "elsewhere"),
        ("https://localhost.example.org", "elsewhere"),
        ("https://2130706433", "elsewhere"),
        ("https://127.1", "elsewhere"),
        ("https://[::ffff:8.8.8.8]", "elsewhere"),
    ],
)
def test_the_place_is_derived_from_the_address(url: str, placement: Placement) -> None:
    assert server_address(url).placement == placement


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8080", "ftp://a", "http://", "http://a:0", "http://a:99999", "https://u:p@a", "https://a?b=c",
     "https://a#b", "http://0.0.0.0:80", "http://[::]:80", "https://a b", "http://[::1", "file:///etc/passwd"],
)  # fmt: skip
def test_what_is_no_usable_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        server_address(url)


def test_the_slash_at_the_end_goes_and_the_path_stays() -> None:
    assert server_address(" https://Api.Example.org:443/v1/ ").url == "https://api.example.org:443/v1"


def test_prompts_do_not_cross_the_internet_unencrypted() -> None:
    with pytest.raises(ConfigError, match="unencrypted"):
        server_address("http://api.example.org")


def test_a_name_may_be_stated_to_be_of_this_network_but_not_nearer() -> None:
    assert server_address("http://gpu-box:8000", stated="this_network").placement == "this_network"
    with pytest.raises(ConfigError, match="cannot be this_machine"):
        server_address("http://gpu-box:8000", stated="this_machine")


def test_a_public_address_cannot_be_stated_to_be_near() -> None:
    with pytest.raises(ConfigError, match="elsewhere at the nearest"):
        server_address("https://8.8.8.8", stated="this_network")


def test_a_local_server_may_be_stated_to_lead_further() -> None:
    assert server_address("http://127.0.0.1:9", stated="elsewhere").placement == "elsewhere"


@pytest.mark.parametrize(
    "url, is_allowed, is_offline, is_refused",
    [
        ("http://127.0.0.1", False, True, False),
        ("http://192.168.1.2", False, False, True),
        ("http://192.168.1.2", True, False, False),
        ("http://192.168.1.2", True, True, True),
        ("https://example.org", True, False, False),
    ],
)
def test_leaving_the_machine_needs_permission_and_never_happens_offline(
    url: str, is_allowed: bool, is_offline: bool, is_refused: bool
) -> None:
    def check() -> None:
        check_may_send(
            server_address(url), purpose="x", permission="p", is_allowed=is_allowed, is_offline=is_offline
        )

    if not is_refused:
        check()
        return
    with pytest.raises(PolicyRejectionError):
        check()


@pytest.mark.parametrize(
    ("url", "proxy", "placement"),
    [
        ("http://127.0.0.1:1", "http://localhost:3128", "this_machine"),
        ("http://10.0.0.2", "http://user:word@10.0.0.9:3128", "this_network"),
        ("http://10.0.0.2", "http://203.0.113.7:3128", "elsewhere"),
        ("https://models.example", "http://127.0.0.1:3128", "elsewhere"),
    ],
)
def test_a_proxy_brings_what_is_sent_as_far_as_it_stands(url: str, proxy: str, placement: Placement) -> None:
    assert through_proxy(server_address(url), proxy).placement == placement


@pytest.mark.parametrize(
    "proxy", ["http://203.0.113.7:3128", "http://10.0.0.9", "proxy.example", "http://[::1"]
)
def test_what_is_for_this_machine_does_not_leave_it_through_a_proxy(proxy: str) -> None:
    with pytest.raises(ConfigError, match="proxy"):
        through_proxy(server_address("http://127.0.0.1:8080"), proxy)
