"""Libraries that search is built on are kept from telling others about this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_runtime_of_the_embedder_makes_no_device_id_and_gathers_no_events(
    embedder_folder: Path, tmp_path: Path
) -> None:
    program = (
        "import sys; from pathlib import Path; from appliance.retrieval.embedder import FastembedEmbedder; "
        "print(FastembedEmbedder.load(Path(sys.argv[1])).dimension)"
    )
    places = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(embedder_folder)],
        env={**os.environ, "ORT_DISABLE_TELEMETRY": "0", **places},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["384"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
