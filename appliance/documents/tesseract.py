"""Recognises the text of a picture with Tesseract, in a confined process, when it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from appliance.documents import launch
from appliance.documents.limits import Limits
from appliance.documents.reasons import RefusalError

_PICTURE_MEMORY_BYTES = 2 << 30
_LIST_TIMEOUT_S = 20
_PREFERRED_LANGUAGE = "eng"


def find_tesseract() -> str | None:
    """The path of the program, or `None` when it is not installed."""
    return shutil.which("tesseract")


def recognise(picture: bytes, program: str, limits: Limits) -> str:
    """Recognise one picture.

    Raises:
        RefusalError: the program failed or ran past the limit of a page.
    """
    languages = limits.ocr_languages or _default_language(program)
    command = [*launch.command("tesseract_main"), program, "stdin", "stdout", "-l", languages, "--dpi", "220"]
    try:
        done = subprocess.run(
            command,
            input=picture,
            capture_output=True,
            timeout=limits.ocr_page_s,
            env={**launch.environment(), **_tessdata()},
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise RefusalError("deadline", f"recognising a page took more than {limits.ocr_page_s:g} s") from exc
    if done.returncode != 0:
        detail = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise RefusalError("damaged", f"Tesseract failed: {detail[-1] if detail else done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def main(arguments: list[str]) -> None:
    """Become Tesseract, without network and without any right to write."""
    from appliance.documents import sandbox

    sandbox.give_up_privileges()
    sandbox.enter_network_namespace()
    mapped_bytes = sandbox.mapped_bytes()
    folder = str(Path(arguments[0]).resolve().parent)
    sandbox.allow_only(["/usr/bin", folder, os.environ.get("TESSDATA_PREFIX", folder)])
    sandbox.bound_cost(Limits(memory_bytes=_PICTURE_MEMORY_BYTES, deadline_s=600), mapped_bytes)
    os.execv(arguments[0], arguments)  # noqa: S606


def _tessdata() -> dict[str, str]:
    prefix = os.environ.get("TESSDATA_PREFIX")
    return {"OMP_THREAD_LIMIT": "1", **({"TESSDATA_PREFIX": prefix} if prefix else {})}


@cache
def _default_language(program: str) -> str:
    listed = subprocess.run(
        [program, "--list-langs"], capture_output=True, timeout=_LIST_TIMEOUT_S, check=False, text=True
    )
    languages = [line.strip() for line in listed.stdout.splitlines()[1:] if line.strip() not in ("", "osd")]
    if _PREFERRED_LANGUAGE in languages or not languages:
        return _PREFERRED_LANGUAGE
    return languages[0]


if __name__ == "__main__":
    main(sys.argv[1:])
