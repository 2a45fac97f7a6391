"""Telling in which script or language a text is written."""

from __future__ import annotations

import pytest

from appliance.retrieval.languages import language_of, script_language


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("数据库的备份几点进行", "Chinese or Japanese"),
        ("いつバックアップしますか", "Chinese or Japanese"),
        ("Где хранятся копии?", "Cyrillic script"),
        ("متى يتم النسخ الاحتياطي؟", "Arabic script"),
        ("SQL 数据库 backup 备份", ""),
        ("When is the backup?", ""),
        ("Wie lang ist die Frist?", ""),
        ("1234 !?", ""),
        ("", ""),
    ],
)
def test_a_script_is_named_when_most_letters_are_of_it(text: str, name: str) -> None:
    assert script_language(text) == name


def test_a_language_is_told_by_its_function_words_alone() -> None:
    assert language_of("Die Frist ist in der Regel nicht kurz.", "english") == "german"
    assert language_of("Deadline extension", "english") == "english"
    assert language_of("Deadline extension", "french") == "french"
