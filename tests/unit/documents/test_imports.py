from __future__ import annotations

import subprocess
import sys

from tests.conftest import REPOSITORY

PARSERS = ("pypdfium2", "msoffcrypto", "charset_normalizer", "markdown_it", "appliance.documents.readers")


def test_the_program_itself_never_loads_a_file_parser() -> None:
    imports = "import sys, appliance.documents.parser, appliance.documents.discovery"
    script = f"{imports}; print(*(set(sys.modules) & set({PARSERS})))"
    finished = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )

    assert finished.stdout.split() == []
