"""What a parser process is told about a file besides its bytes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from appliance.documents.limits import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One file to read; the file itself travels as an open descriptor."""

    name: str
    size_bytes: int
    password: str | None
    has_ocr: bool
    limits: Limits

    def to_json(self) -> bytes:
        """Encode for the control socket."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, message: bytes) -> Job:
        """Decode what `to_json` wrote."""
        values = json.loads(message)
        return cls(**{**values, "limits": Limits(**values["limits"])})
