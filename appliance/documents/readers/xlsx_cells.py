"""How a number in a cell reads: exactly, or as the date or percentage its format makes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from appliance.documents.xml import Element, attribute, children, find

_BUILT_IN_DATES = frozenset((*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)))
_BUILT_IN_PERCENTS = frozenset((9, 10))
_LITERALS = re.compile(r'"[^"]*"|\\.|\[(?!h+\]|m+\]|s+\])[^\]]*\]|_.|\*.', re.I)
_DATE_LETTERS = re.compile(r"[ymdhs]", re.I)
_EPOCH_1900, _EPOCH_1904 = datetime(1899, 12, 30), datetime(1904, 1, 1)  # noqa: DTZ001 - cells have no zone
_MAX_SERIAL = 2_958_466
_EXACT_DIGITS = 15
_MAX_EXPONENT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFormats:
    """Which cell styles show dates and which percentages."""

    dates: frozenset[str]
    percents: frozenset[str]
    uses_1904: bool

    def show(self, value: str, style: str) -> str:
        """The text of a number as a reader of the sheet would quote it, without rounding."""
        try:
            number = Decimal(value)
        except InvalidOperation:
            return value
        if not number.is_finite() or abs(number.adjusted()) > _MAX_EXPONENT:
            return value
        if style in self.dates and 0 <= number < _MAX_SERIAL:
            return self._show_date(number)
        if style in self.percents:
            return _show_number(number * 100) + "%"
        return _show_number(number)

    def _show_date(self, number: Decimal) -> str:
        epoch = _EPOCH_1904 if self.uses_1904 else _EPOCH_1900
        # Excel keeps a 29 February 1900 that never was; serials before it are one day off.
        lotus = timedelta(days=1 if not self.uses_1904 and 0 < number < 60 else 0)
        moment = epoch + lotus + timedelta(seconds=round(float(number) * 86_400))
        if number < 1:
            return moment.time().isoformat()
        if moment.hour == moment.minute == moment.second == 0:
            return moment.date().isoformat()
        return moment.isoformat(sep=" ")


def read_formats(styles: Element | None, *, uses_1904: bool) -> CellFormats:
    """Read the cell styles of a workbook."""
    codes = {
        attribute(item, "numFmtId"): attribute(item, "formatCode")
        for item in children(find(styles, "s:numFmts"), "s:numFmt")
    }
    dates: set[str] = set()
    percents: set[str] = set()
    for index, style in enumerate(children(find(styles, "s:cellXfs"), "s:xf")):
        number = attribute(style, "numFmtId", "0")
        code = _LITERALS.sub("", codes.get(number, ""))
        built_in = int(number) if number.isdigit() and not code else -1
        if built_in in _BUILT_IN_PERCENTS or "%" in code:
            percents.add(str(index))
        elif built_in in _BUILT_IN_DATES or (_DATE_LETTERS.search(code) and "0" not in code.split(".")[0]):
            dates.add(str(index))
    return CellFormats(dates=frozenset(dates), percents=frozenset(percents), uses_1904=uses_1904)


def _show_number(number: Decimal) -> str:
    if number == number.to_integral_value():
        return str(number.quantize(Decimal(1))) if number.adjusted() < 28 else str(number)
    # Binary fractions are stored with 17 digits; Excel itself shows 15.
    if len(number.as_tuple().digits) > _EXACT_DIGITS:
        number = Decimal(f"{number:.{_EXACT_DIGITS}g}")
    return f"{number.normalize():f}"
