"""A denial counts by what it denies, not by where in a clause it stands."""

from __future__ import annotations

import pytest

from tests.unit.retrieval.test_contradictions import support

MAPS = "The library does not lend old maps to schools."
KARTEN = "Die Bibliothek von Viken verleiht keine alten Karten an Schulen."
MILL = "Die Mühle wurde nie verkauft und hat keinen Turm."
LIFT = "The house of Viken has 3 floors and no lift."
DUPONT = "Anne Dupont est la personne qui dirige la bibliothèque depuis 2011."


@pytest.mark.parametrize(
    "sentence, source",
    [
        ("No, the library does not lend old maps to schools.", MAPS),
        ("The library lends no old maps to schools.", MAPS),
        ("Old maps are not lent to schools by the library.", MAPS),
        ("Die Bibliothek verleiht alte Karten nicht an Schulen.", KARTEN),
        ("Die Mühle hat keinen Turm.", MILL),
        ("Die Mühle wurde nie verkauft.", MILL),
        ("Das Haus hat kein Dach und ist nicht beheizt.", "Das Haus ist nicht beheizt und hat kein Dach."),
        ("The perfume Chanel number 5 is old.", "The perfume Chanel No. 5 is old."),
        ("Anne Dupont dirige la bibliothèque depuis 2011.", DUPONT),
        ("The house of Viken has no lift.", LIFT),
        ("The house of Viken has 3 floors.", LIFT),
        ("The house has a garden.", "The house has no lift but a garden."),
    ],
)
def test_a_denial_may_stand_elsewhere_in_its_clause(sentence: str, source: str) -> None:
    one = support(sentence, (source,))
    assert (one.is_supported, one.has_other_polarity, one.missing) == (True, False, ())


@pytest.mark.parametrize(
    "lie, source",
    [
        ("No, the library lends old maps to schools.", MAPS),
        ("Die Bibliothek verleiht alte Karten an Schulen.", KARTEN),
        ("Die Mühle hat einen Turm.", MILL),
        ("Die Mühle wurde verkauft und hat keinen Turm.", MILL),
        ("Die Mühle wurde nie verkauft und hat einen Turm.", MILL),
        ("The house of Viken has a lift.", LIFT),
        ("The mill does act against fires.", "The mill does not act against fires."),
        ("The mill makes paper but not board.", "The mill makes not paper but board."),
        ("La bibliothèque ne prête pas de cartes.", "La bibliothèque prête des cartes aux écoles."),
    ],
)
def test_a_denial_left_out_added_or_moved_to_another_clause_is_no_support(lie: str, source: str) -> None:
    one = support(lie, (source,))
    assert (one.is_supported, one.has_other_polarity) == (False, True)
