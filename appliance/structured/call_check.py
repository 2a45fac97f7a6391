"""The exact check of an answer that calls tools: each call's arguments against its tool's schema."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from appliance.structured.json_text import JsonScan, scan_json
from appliance.structured.report import Problem
from appliance.structured.validator import validator_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCheck:
    """The marks around a call, and the schema of the parameters, as JSON text, by the name of the tool."""

    opening: str
    closing: str
    parameters: tuple[tuple[str, str], ...]

    def check(self, text: str) -> tuple[JsonScan | None, list[Problem]]:
        """Return what is wrong with the first call that is not valid, and where its values stand in the text."""
        end = re.escape(self.closing) if self.closing else r"\Z"
        for found in re.finditer(re.escape(self.opening) + "(.*?)" + end, text, re.DOTALL):
            scan, problems = self._check_call(found.group(1))
            if problems:
                return _moved(scan, found.start(1)), problems
        return None, []

    def _check_call(self, body: str) -> tuple[JsonScan, list[Problem]]:
        scan = scan_json(body)
        call = scan.value
        if not scan.is_complete or not isinstance(call, dict):
            return scan, [Problem(pointer="", keyword="", message="a tool call is not whole JSON")]
        if scan.problems:
            return scan, scan.problems
        parameters = dict(self.parameters).get(str(call.get("name")))
        if parameters is None:
            return scan, [Problem(pointer="/name", keyword="enum", message="a call names no tool")]
        problems = validator_of(parameters).problems(call.get("arguments"))
        return scan, [replace(problem, pointer=f"/arguments{problem.pointer}") for problem in problems]


def _moved(scan: JsonScan, by: int) -> JsonScan:
    return replace(
        scan,
        spans={path: (start + by, end + by) for path, (start, end) in scan.spans.items()},
        duplicate_spans=[(start + by, end + by) for start, end in scan.duplicate_spans],
    )
