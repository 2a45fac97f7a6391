"""How a helper process of this package is started: isolated interpreter, clean environment, our code only."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

# `-I` drops the current folder and PYTHONPATH, so the package's own folder is put back by hand, right
# before the site packages and behind the standard library.
_BOOTSTRAP = (
    "import sys; root = sys.argv.pop(1); "
    "place = next((i for i, path in enumerate(sys.path) if path.endswith('-packages')), len(sys.path)); "
    "sys.path.insert(place, root); "
)
_ENTRIES = {
    "child_main": "from appliance.documents.child import main; main()",
    "tesseract_main": "from appliance.documents.tesseract import main; main(sys.argv[1:])",
}


def command(entry: Literal["child_main", "tesseract_main"]) -> list[str]:
    """The command line of a helper process."""
    root = Path(__file__).resolve().parent.parent.parent
    return [sys.executable, "-I", "-X", "utf8", "-c", _BOOTSTRAP + _ENTRIES[entry], str(root)]


def environment() -> dict[str, str]:
    """Nothing of the caller's environment but the search path: no keys, no proxies, no tokens."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}
