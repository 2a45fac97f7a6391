"""`python -m appliance.prompts FOLDER`: adds the digests of new templates to the list beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from appliance.core.errors import ApplianceError
from appliance.prompts.library import seal_prompts


def main(arguments: list[str]) -> int:
    """Seal the folder; return the exit code."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m appliance.prompts FOLDER\n")
        return 2
    try:
        added = seal_prompts(Path(arguments[0]))
    except ApplianceError as exc:
        sys.stderr.write(f"error: {exc.message}\nhint: {exc.hint}\n")
        return 1
    sys.stdout.write("".join(f"added {label}\n" for label in added))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
