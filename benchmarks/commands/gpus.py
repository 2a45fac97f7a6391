"""`bench gpus`."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command("gpus")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def gpus_command(*, as_json: bool) -> int:
    """List NVIDIA GPUs as their driver describes them: memory, use, clocks, power, energy, slowdowns.

    The makers of this software tested it with answers in the form that NVIDIA documents, and not on such a GPU.
    """
    from benchmarks.nvidia import read_gpus

    gpus = read_gpus()
    if as_json:
        click.echo(json.dumps({"gpus": [asdict(gpu) for gpu in gpus]}, indent=2))
        return 0
    if not gpus:
        click.echo("no NVIDIA GPU whose driver answers")
    for gpu in gpus:
        power = "power not told" if gpu.power_w is None else f"{gpu.power_w:.0f} W"
        use = "use not told" if gpu.utilisation_percent is None else f"{gpu.utilisation_percent} % busy"
        slowed = f", slowed by {', '.join(gpu.slowdowns)}" if gpu.slowdowns else ""
        free = (
            "memory not told"
            if gpu.free_bytes is None or gpu.total_bytes is None
            else f"{gpu.free_bytes / 2**30:.1f} of {gpu.total_bytes / 2**30:.1f} GiB free"
        )
        click.echo(f"{gpu.index} {gpu.name}, driver {gpu.driver}: {free}, {use}, {power}{slowed}")
    return 0
