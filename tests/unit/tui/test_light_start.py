"""What is imported before the first paint holds no library that takes long to load."""

import subprocess
import sys

HEAVY = (
    "pydantic",
    "numpy",
    "lancedb",
    "pyarrow",
    "fastembed",
    "onnxruntime",
    "httpx",
    "llama_cpp",
    "markdown_it",
)


def test_the_interface_is_imported_without_any_heavy_library() -> None:
    trial = "import sys; import tui.run; print('\\n'.join(sys.modules))"

    finished = subprocess.run(
        [sys.executable, "-c", trial], capture_output=True, text=True, timeout=60, check=True
    )

    assert set(HEAVY) & set(finished.stdout.split()) == set()
