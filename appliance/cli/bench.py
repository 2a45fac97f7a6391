"""`appliance bench`: how fast a model is here, how good, and whether something changed."""

from __future__ import annotations

from benchmarks.commands.group import bench_command

__all__ = ["bench_command"]
