"""Sentences that use a source's own words to say something else must not be shown as supported by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from appliance.retrieval.grounding import SentenceSupport, ground_answer
from tests.unit.retrieval.test_grounding import passage

HALDEN = (
    "The reactor in Halden was opened by Marit Olsen in March 1964 and produced 120 megawatts for the paper mill. "
    "The council of Halden did not extend its licence in 1999, so the reactor was shut down by its owner. "
    "From 1971 to 1978 the mill beat the shipyard in every yearly competition."
)
VIKEN = (
    "The library of Viken lends 45,000 books to 9,300 readers every year. Jonas Lind, who has run it since 2011, "
    "wants to increase the number of volunteers. Its bus reaches 14 villages in the northern valleys."
)
SERVICE = (
    "Der Kundendienst in Bremen beantwortet Anfragen innerhalb von drei Werktagen. Frau Lehmann leitet die Abteilung "
    "seit Oktober 2015. Defekte Geräte werden nicht ausgetauscht, sondern in der Werkstatt in Kiel repariert."
)
ENGLISH = (HALDEN, VIKEN)
GERMAN = (SERVICE,)
CHINESE = (
    "青山图书馆由陈大文于1998年3月创办，馆藏图书超过二十万册。图书馆不向校外人员出借古籍。",
    "红河博物馆由李小明于2004年建成，每年接待游客三十万人。",
)


def support(sentence: str, texts: tuple[str, ...]) -> SentenceSupport:
    passages = [passage(text, number) for number, text in enumerate(texts, start=1)]
    (one,) = ground_answer(sentence, passages).sentences
    return one


@pytest.mark.parametrize(
    "sentence, texts",
    [
        ("Marit Olsen opened the reactor in Halden in March 1964.", ENGLISH),
        ("The reactor produced 120 megawatts for the paper mill.", ENGLISH),
        ("The council of Halden didn't extend the reactor's licence in 1999.", ENGLISH),
        ("The owner shut the reactor down.", ENGLISH),
        ("The mill beat the shipyard from 1971 to 1978.", ENGLISH),
        ("The library's bus reaches 14 villages.", ENGLISH),
        (
            "Jonas Lind has run the library since 2011 and wants to increase the number of volunteers.",
            ENGLISH,
        ),
        (
            "The reactor was opened in March 1964, and the library of Viken lends 45,000 books a year.",
            ENGLISH,
        ),
        ("Der Kundendienst beantwortet Anfragen innerhalb von 3 Werktagen.", GERMAN),
        ("Defekte Geräte werden nicht ausgetauscht.", GERMAN),
        ("青山图书馆由陈大文创办于1998年3月。", CHINESE),
        ("图书馆不向校外人员出借古籍。", CHINESE),
    ],
)
def test_what_a_source_says_in_other_words_or_order_is_supported(
    sentence: str, texts: tuple[str, ...]
) -> None:
    one = support(sentence, texts)
    assert (one.is_supported, one.missing, one.has_other_polarity) == (True, (), False)


@pytest.mark.parametrize(
    "lie, texts, word",
    [
        ("The reactor in Halden was opened by Marit Olsen in April 1964.", ENGLISH, "april"),
        ("The reactor in Halden was opened by Marit Olsen in March 1965.", ENGLISH, "1965"),
        ("The reactor in Halden was opened by Jonas Lind in March 1964.", ENGLISH, "jona"),
        ("The reactor in Viken was opened by Marit Olsen in March 1964.", ENGLISH, "viken"),
        ("The library of Viken lends 9,300 books to 45,000 readers every year.", ENGLISH, "9,300"),
        ("From 1978 to 1971 the mill beat the shipyard.", ENGLISH, "1978"),
        ("From 1971 to 1978 the shipyard beat the mill in every yearly competition.", ENGLISH, "shipyard"),
        ("Jonas Lind wants to decrease the number of volunteers.", ENGLISH, "decrease"),
        ("Its bus reaches 14 villages in the southern valleys.", ENGLISH, "southern"),
        ("The council lends 45,000 books to 9,300 readers every year.", ENGLISH, "council"),
        ("Der Kundendienst in Hamburg beantwortet Anfragen innerhalb von drei Werktagen.", GERMAN, "Hamburg"),
        ("Der Kundendienst beantwortet Anfragen innerhalb von drei Wochen.", GERMAN, "Wochen"),
        ("Frau Lehmann leitet die Abteilung seit November 2015.", GERMAN, "November"),
        ("青山图书馆由李小明于1998年3月创办。", CHINESE, "李小明"),
        ("青山图书馆由陈大文于1998年5月创办。", CHINESE, "5"),
    ],
)
def test_another_number_name_date_or_opposite_in_the_same_place_is_named(
    lie: str, texts: tuple[str, ...], word: str
) -> None:
    one = support(lie, texts)
    assert not one.is_supported
    assert word in one.missing
    assert one.citations == ()


@pytest.mark.parametrize(
    "lie, texts",
    [
        ("The reactor in Halden was not opened by Marit Olsen in March 1964.", ENGLISH),
        ("The council of Halden did extend its licence in 1999.", ENGLISH),
        ("The library of Viken never lends 45,000 books to 9,300 readers.", ENGLISH),
        ("Defekte Geräte werden ausgetauscht.", GERMAN),
        ("Der Kundendienst in Bremen beantwortet Anfragen nicht innerhalb von drei Werktagen.", GERMAN),
        ("图书馆向校外人员出借古籍。", CHINESE),
        ("青山图书馆不是由陈大文于1998年3月创办。", CHINESE),
    ],
)
def test_a_denial_on_one_side_only_is_no_support(lie: str, texts: tuple[str, ...]) -> None:
    one = support(lie, texts)
    assert one.has_other_polarity
    assert not one.is_supported


def test_a_date_may_be_written_in_another_order_but_not_a_range() -> None:
    texts = ("The hall burned down on 3 March 1964 after 20 to 30 minutes and cost $500 to clear.",)
    assert support("On March 3, 1964 the hall burned down.", texts).is_supported
    assert not support("The hall burned down after 30 to 20 minutes.", texts).is_supported


def test_the_same_number_in_another_currency_is_named() -> None:
    texts = ("The hall cost $500 to clear and 20 % of the town paid for it.",)
    assert support("The hall cost $500 to clear.", texts).is_supported
    assert support("The hall cost €500 to clear.", texts).missing == ("500",)
    assert support("The hall cost 500 to clear.", texts).is_supported


def test_not_only_denies_nothing() -> None:
    texts = ("The mill makes not only paper but also board, and sells both in Sweden.",)
    assert support("The mill makes paper and board.", texts).is_supported


def test_a_subject_of_one_source_with_what_another_says_is_not_supported() -> None:
    one = support("The reactor in Halden lends 45,000 books to 9,300 readers every year.", ENGLISH)
    assert not one.is_supported
    one = support(
        "The reactor produced 120 megawatts, and reaches 14 villages in the northern valleys.", ENGLISH
    )
    assert not one.is_supported


def test_numbers_of_two_sources_may_not_change_places() -> None:
    one = support(
        "The reactor produced 14 megawatts, and the bus reaches 120 villages in the valleys.", ENGLISH
    )
    assert not one.is_supported
    assert "120" in one.missing


@pytest.mark.parametrize(
    "lie, name",
    [
        ("The library lends 45,000 books to 9,300 readers every year, and Oslo reaches 14 villages.", "oslo"),
        (
            "Its bus reaches 14 villages, while Bergen lends 45,000 books to 9,300 readers every year.",
            "bergen",
        ),
        ("Trondheim lends books to 9,300 readers every year.", "Trondheim"),
    ],
)
def test_a_name_that_no_source_has_is_named_wherever_its_part_begins(lie: str, name: str) -> None:
    one = support(lie, (VIKEN,))
    assert not one.is_supported
    assert name in one.missing


def test_a_first_word_that_names_whom_a_source_calls_he_or_is_no_name_is_supported() -> None:
    texts = ("Tesla came to America in 1884. Much of his life he lived in a series of New York hotels.",)
    assert support("Tesla lived much of his life in New York hotels.", texts).is_supported
    texts = ("A number of lines in the west of the state have been converted to standard gauge.",)
    assert support(
        "Some lines in the west of the state have been converted to standard gauge.", texts
    ).is_supported


def test_by_far_names_nobody_who_acts() -> None:
    texts = ("From 1971 to 1978 the mill beat the shipyard.",)
    assert not support("From 1971 to 1978 the shipyard beat the mill by far.", texts).is_supported
    assert support("From 1971 to 1978 the shipyard was beaten by the mill.", texts).is_supported


def test_a_number_within_a_name_needs_to_stand_in_the_passage_only() -> None:
    texts = ("Apollo 8 left on a Saturday. The crew saw the far side of the moon after three days.",)
    assert support("The crew of Apollo 8 saw the far side of the moon.", texts).is_supported
    assert not support("The crew of Apollo 9 saw the far side of the moon.", texts).is_supported


def test_each_item_of_a_list_is_a_sentence_and_its_number_is_no_claim() -> None:
    answer = "1. The reactor produced 120 megawatts\n2. The bus reaches 14 villages\n3. The moon is made of old cheese"
    passages = [passage(text, number) for number, text in enumerate(ENGLISH, start=1)]
    grounded = ground_answer(answer, passages)
    assert [one.is_supported for one in grounded.sentences] == [True, True, False]
    assert [one.citations[0].passage for one in grounded.sentences[:2]] == [1, 2]
    assert [answer[one.start : one.end] for one in grounded.sentences] == answer.split("\n")


def test_a_very_long_sentence_is_still_held_to_its_numbers() -> None:
    text = " ".join(f"word{number}x" for number in range(900))
    said, source = f"In 1964 {text}.", f"In 1965 {text}."
    assert support(source, (source,)).is_supported
    assert support(said, (source,)).missing == ("1964",)


PIECES = st.sampled_from(
    [
        "Halden",
        "opened",
        " ",
        "\n",
        "1.",
        "2)",
        "- ",
        "[1]",
        "[9]",
        "。",
        "，",
        "不",
        "书",
        "·",
        "€5",
        "%",
        "not",
        ",",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_every_character_of_an_answer_is_in_one_of_its_sentences(answer: str) -> None:
    sentences = ground_answer(answer, [passage(HALDEN, 1), passage(CHINESE[0], 2)]).sentences
    assert [answer[one.start : one.end] for one in sentences] == [one.text for one in sentences]
    assert "".join("".join(one.text.split()) for one in sentences) == "".join(answer.split())
