"""Personal data and secrets leave a text before it is kept; the rest stays readable."""

import pytest

from appliance.telemetry.redaction import LONGEST_CONTENT, redact


@pytest.mark.parametrize(
    "text, kept",
    [
        ("mail jane.doe+x@mail.example.com now", "mail [email] now"),
        ("call +49 (0)30 1234-5678 today", "call [number] today"),
        ("card 4111 1111 1111 1111.", "card [number]."),
        ("IBAN DE89 3704 0044 0532 0130 00 please", "IBAN [iban] please"),
        ("key sk-proj-abcdefghijklmnop1234", "key [secret]"),
        ("password: hunter2 works", "[secret] works"),
        ("host 192.168.17.4 answers", "host [address] answers"),
        ("see https://intra.example/x?token=1 there", "see [url] there"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----", "[key]"),
        ("In 2024 we sold 1,250 chairs in 3 towns.", "In 2024 we sold 1,250 chairs in 3 towns."),
    ],
)
def test_rules_find_what_they_are_for_and_leave_the_rest(text: str, kept: str) -> None:
    assert redact(text) == kept


def test_a_long_text_is_cut_and_says_so() -> None:
    assert redact("word " * LONGEST_CONTENT).endswith(f"[... {4 * LONGEST_CONTENT} more characters]")
