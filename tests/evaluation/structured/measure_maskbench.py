"""Measure acceptance on MaskBench: `python -m tests.evaluation.structured.measure_maskbench FOLDER --step 12`.

FOLDER is `maskbench/data` of https://github.com/guidance-ai/jsonschemabench.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from time import perf_counter

from tests.evaluation.structured.acceptance import Acceptance


def main() -> None:
    """Take every step-th schema in order of its name, and print the counts and what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--step", type=int, default=12)
    parser.add_argument("--start", type=int, default=0)
    arguments = parser.parse_args()
    found, times_s = Acceptance(), []
    for path in sorted(arguments.folder.glob("*.json"))[arguments.start :: arguments.step]:
        benchmark = json.loads(path.read_text(encoding="utf-8"))
        began = perf_counter()
        found.add(
            path.name, benchmark["schema"], [(case["data"], case["valid"]) for case in benchmark["tests"]]
        )
        times_s.append(perf_counter() - began)
    times_s.sort()
    print("\n".join(found.wrong))
    right = found.counts["right schemas"] / max(1, found.counts["schemas"])
    print(dict(found.counts), f"right {right:.1%}")
    print(
        "seconds a schema:",
        *(f"{share:.0%} {times_s[int(share * (len(times_s) - 1))]:.3f}" for share in (0.5, 0.9, 0.99, 1)),
    )


if __name__ == "__main__":
    main()
