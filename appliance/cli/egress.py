"""What `appliance doctor --egress` shows: what may leave this machine, what does now, and what happens sealed off."""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import psutil

from appliance.cli.doctor_rows import Row
from appliance.cli.ps import running_workers
from appliance.config import Settings
from appliance.core.addresses import server_address
from appliance.core.errors import ConfigError

_SECTION = "egress"
_PROBE_S = 120.0
_HERE = ("", "file")


def egress_rows(settings: Settings) -> Iterator[Row]:
    """Yield what an auditor wants to see."""
    yield _offline_row(settings)
    yield _ok("telemetry", "there is none: nothing is reported to the makers of this software")
    yield _pull_row(settings)
    yield from _provider_rows(settings)
    yield _traces_row(settings)
    yield _index_row(settings)
    yield _connections_row(settings)
    yield _sealed_row(settings)


def _offline_row(settings: Settings) -> Row:
    if settings.offline:
        return _ok("offline", "on: every connection to another machine is forbidden")
    return _ok("offline", "off: connections are made for what is listed below, and for nothing else")


def _pull_row(settings: Settings) -> Row:
    if settings.offline:
        return _ok("models", "fetching is forbidden; what is in the store is used")
    return _ok("models", "fetched only by `appliance pull` or a button that says so, never by a question")


def _provider_rows(settings: Settings) -> Iterator[Row]:
    if not settings.providers:
        yield _ok("providers", "none: every model runs on this machine")
    for name, server in settings.providers.items():
        leaves = not server.address.is_here
        if not leaves:
            yield _ok(name, f"{server.address.host} is this machine")
        elif server.is_allowed and not settings.offline:
            yield _warn(name, f"questions may go to {server.address.host}, which was allowed")
        else:
            yield _ok(name, f"{server.address.host} is another machine and not allowed: nothing is sent")


def _traces_row(settings: Settings) -> Row:
    if not settings.otlp_endpoint:
        return _ok("traces", "kept on this machine")
    try:
        address = server_address(settings.otlp_endpoint)
    except ConfigError as exc:
        return _warn("traces", exc.message)
    if address.is_here or not settings.otlp_allow or settings.offline:
        return _ok("traces", f"for {address.host}; nothing leaves this machine")
    return _warn("traces", f"numbers and names go to {address.host}, which was allowed")


def _index_row(settings: Settings) -> Row:
    scheme, separator, _ = settings.index_uri.partition("://")
    if not separator or scheme in _HERE:
        return _ok("documents", "text and index lie on this machine")
    return _warn("documents", f"the search index lies in {settings.index_uri}: passages go there")


def _connections_row(settings: Settings) -> Row:
    """Look at the open sockets of our running processes; a client of a server of ours is no egress."""
    workers = running_workers(settings.runtime_dir / "workers")
    pids = {pid for worker in workers for pid in (worker.pid, worker.parent_pid)} | _our_pids()
    outward = sorted({place for pid in pids for place in _outward(pid)})
    if outward:
        return Row(
            section=_SECTION,
            name="connections",
            status="fail",
            value=f"open now to {', '.join(outward)}",
            remedy="look at the providers and traces above; whatever else connects is a bug of ours",
        )
    return _ok("connections", f"{len(pids)} running processes have none to another machine")


def _our_pids() -> set[int]:
    """Return the processes of this program, this one aside."""
    found: set[int] = set()
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        is_script = any(os.path.basename(word) == "appliance" for word in words[:2])  # noqa: PTH119
        if (is_script or words[1:3] == ["-m", "appliance"]) and process.pid != os.getpid():
            found.add(process.pid)
    return found


def _outward(pid: int) -> list[str]:
    try:
        connections = psutil.Process(pid).net_connections(kind="inet")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []
    served = {one.laddr.port for one in connections if one.status == psutil.CONN_LISTEN}
    # A socket without a peer has an empty tuple in place of its address.
    peers = [getattr(one.raddr, "ip", "") for one in connections if one.laddr.port not in served]
    return [ip for ip in peers if ip and not ipaddress.ip_address(ip).is_loopback]


def _sealed_row(settings: Settings) -> Row:
    """Serve and answer in a network namespace that has nothing but loopback."""
    if shutil.which("unshare") is None:
        return _warn("sealed off", "not tried: there is no `unshare` here")
    command = ["unshare", "-rn", "--", sys.executable, "-m", "appliance.cli.egress_probe"]
    environment = {
        **os.environ,
        "APPLIANCE_MODELS": str(settings.models_dir),
        "APPLIANCE_MODEL": settings.model,
    }
    try:
        finished = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_S, env=environment, check=False
        )
    except subprocess.TimeoutExpired:
        return _warn("sealed off", f"no answer in {_PROBE_S:g} s")
    try:
        found = json.loads(finished.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        reason = (finished.stderr.strip().splitlines() or ["it said nothing"])[-1]
        return _warn("sealed off", f"not tried: {reason[:200]}")
    attempts = found["attempts"]
    if attempts:
        return Row(
            section=_SECTION,
            name="sealed off",
            status="fail",
            value=f"tried to reach {', '.join(attempts)}",
            remedy="this is a bug of ours, please report it",
        )
    return _ok(
        "sealed off", f"{found['model']} answered over HTTP with no network but loopback; no attempt to leave"
    )


def _ok(name: str, value: str) -> Row:
    return Row(section=_SECTION, name=name, status="ok", value=value)


def _warn(name: str, value: str) -> Row:
    return Row(section=_SECTION, name=name, status="warn", value=value)
