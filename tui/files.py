"""Writes what a user saves: only to a new file, with a message that says why it could not."""

from __future__ import annotations

from pathlib import Path

from appliance.core.errors import InvalidRequestError


def write_new(file: str, text: str) -> Path:
    """Write a text as it is to a file that does not exist yet; return where it lies.

    Raises:
        InvalidRequestError: the file exists, or cannot be written.
    """
    path = Path(file).expanduser().absolute()
    try:
        with path.open("x", encoding="utf-8", newline="") as written:
            written.write(text)
    except FileExistsError as exc:
        raise InvalidRequestError(f"{path} exists already", hint="choose another name") from exc
    except (OSError, ValueError) as exc:
        raise InvalidRequestError(f"{path} cannot be written: {exc}") from exc
    return path
