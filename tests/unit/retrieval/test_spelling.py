"""Numbers and characters that can be written in several ways are compared in one."""

from __future__ import annotations

import unicodedata

import pytest

from appliance.retrieval.spelling import normal_number
from tests.unit.retrieval.test_contradictions import CHINESE, VIKEN, support

ZURICH = "Die Mühle in Zürich gehört Jörg Müller."


@pytest.mark.parametrize(
    "text, written",
    [
        ("1,496.50", "1496.5"),
        ("1.496,5", "1496.5"),
        ("1,00,000", "100000"),
        ("45 000", "45000"),
        ("45\u202f000", "45000"),
        ("9'300", "9300"),
        ("0.125", "0.125"),
        ("0,125", "0.125"),
        ("125", "125"),
        ("1.12.1964", "1.12.1964"),
        ("01.12.1964", "1.12.1964"),
        ("11.2.1964", "11.2.1964"),
        ("1.10.0", "1.10.0"),
        ("11.0.0", "11.0.0"),
        ("10:30", "10:30"),
        ("-5", "-5"),
        ("minus 5", "-5"),
        ("¾", "0.75"),
        ("007", "7"),
    ],
)
def test_a_number_is_written_in_one_way(text: str, written: str) -> None:
    assert normal_number(text) == written


@pytest.mark.parametrize(
    "sentence, source",
    [
        ("The library of Viken lends 45 000 books to 9'300 readers.", VIKEN),
        ("The library of Viken lends 45\u202f000 books to 9\u00a0300 readers.", VIKEN),
        ("The library of Viken lends ٤٥٬٠٠٠ books to readers.", VIKEN),
        ("The library of Viken lends ๔๕,๐๐๐ books to readers.", VIKEN),
        ("青山图书馆由陈大文于１９９８年３月创办。", CHINESE[0]),
        (ZURICH, unicodedata.normalize("NFD", ZURICH)),
        (unicodedata.normalize("NFD", ZURICH), ZURICH),
        ("The lake was at -5 degrees in March.", "The lake was at minus 5 degrees in March."),
        ("The mill ran from 1971 to 1978.", "The mill ran 1971–1978."),
        ("The town sold ¼ of its forest.", "The town sold ¼ of its forest."),
    ],
)
def test_the_same_in_other_digits_marks_or_characters_is_supported(sentence: str, source: str) -> None:
    one = support(sentence, (source,))
    assert (one.is_supported, one.missing) == (True, ())


@pytest.mark.parametrize(
    "lie, source",
    [
        ("The library of Viken lends 45 000 books to 9'400 readers.", VIKEN),
        ("青山图书馆由陈大文于１９９８年５月创办。", CHINESE[0]),
        ("The hall of Viken was opened on 1.12.1964.", "The hall of Viken was opened on 11.2.1964."),
        ("Version 1.10.0 of the program reads old files.", "Version 11.0.0 of the program reads old files."),
        ("The wire is 0.125 inches thick at the end.", "The wire is 125 inches thick at the end."),
        ("The lake was at -5 degrees in March.", "The lake was at 5 degrees in March."),
        ("The lake was at 5 degrees in March.", "The lake was at −5 degrees in March."),
        ("The town sold ¾ of its forest.", "The town sold ¼ of its forest."),
        ("The house of Viken has one chimney.", "The house of Viken has two chimneys."),
        ("A dozen people were hurt in Viken.", "Twenty-one people were hurt in Viken."),
        ("Half of the houses in Viken burned down.", "Two thirds of the houses in Viken burned down."),
        ("Viken grew by 500 million in 1964.", "Viken grew by 500 thousand in 1964."),
        ("Viken wuchs 1964 um 500 Millionen.", "Viken wuchs im Jahr 1964 um 500 Tausend."),
    ],
)
def test_another_number_is_not_supported_however_it_is_written(lie: str, source: str) -> None:
    assert not support(lie, (source,)).is_supported
