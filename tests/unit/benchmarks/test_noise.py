"""Who used the CPU, and when a figure is called noisy."""

import os
import socket
import subprocess
import sys
import time

import pytest

from benchmarks.noise import CpuUse, listening_pid, process_cpu_s, reasons_for_doubt, watch_cpu


def burn_cpu(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_cpu_of_this_process_is_its_own() -> None:
    with watch_cpu() as use:
        burn_cpu(0.3)

    assert use.own_s >= 0.25
    assert use.own_s <= use.wall_s * 4


def test_cpu_of_a_child_that_ended_is_its_own() -> None:
    code = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"

    with watch_cpu() as use:
        subprocess.run([sys.executable, "-c", code], check=True)

    assert use.own_s >= 0.35


def test_time_stolen_by_other_guests_counts_as_foreign() -> None:
    use = CpuUse(wall_s=1000.0, own_s=5.0, foreign_s=0.0, stolen_s=0.0)
    assert use.foreign_share == 0.0

    use.stolen_s = 500.0
    assert use.foreign_share > 0.0


def test_nothing_measured_has_no_foreign_share() -> None:
    assert CpuUse().foreign_share == 0.0


@pytest.mark.parametrize(
    ("load", "shares", "variations", "word"),
    [
        (100.0, [0.0], [0.0], "busy before"),
        (0.0, [0.01, 0.4], [0.0], "40% in the worst round"),
        (0.0, [0.0], [0.01, 0.3], "vary by up to 30%"),
    ],
)
def test_each_kind_of_noise_is_named(
    load: float, shares: list[float], variations: list[float], word: str
) -> None:
    (reason,) = reasons_for_doubt(load_before=load, foreign_shares=shares, variations=variations)

    assert word in reason


def test_a_quiet_run_raises_no_doubt() -> None:
    assert reasons_for_doubt(load_before=0.0, foreign_shares=[0.01], variations=[0.02]) == []


def test_the_processor_time_of_a_process_is_finer_than_ticks() -> None:
    before_s = process_cpu_s(os.getpid())
    burn_cpu(0.004)

    assert process_cpu_s(os.getpid()) - before_s > 0.0


def test_a_server_on_this_machine_is_found_by_its_port() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]

        assert listening_pid("127.0.0.1", port) == os.getpid()
        assert listening_pid("example.org", port) is None
    assert listening_pid("127.0.0.1", port) is None


def test_what_a_measured_server_uses_is_no_noise() -> None:
    code = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\nprint(1, flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as server:
        assert server.stdout is not None
        with watch_cpu(server.pid) as use:
            server.stdout.readline()
        server.communicate(b"\n")

    assert use.own_s >= 0.35
