"""Secrets are found in every form, and what holds none is left alone."""

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.engine.context import Append, Delete, Discard, Operation, Set
from pipeline.engine.driver import redact_conclusion, redact_outcome
from pipeline.engine.outcome import Failure, FailureClass, Outcome, Status
from pipeline.engine.ports import Conclusion
from pipeline.redaction import (
    PATTERNS_ONLY,
    Redactor,
    Secret,
    redactor_of,
    secret_values,
    unfinished_key,
)

VALUE = 's3cr3t/+&é"x y'
REDACTOR = Redactor((Secret("MY_TOKEN", VALUE),))
LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="[]", exclude_categories=["Cs", "Cc"]), max_size=30)
VALUES = st.text(st.characters(codec="utf-8", exclude_characters="[]", exclude_categories=["Cs", "Cc"]), min_size=8)
BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"] * 3)
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\nabcdEFGH12==\n-----END RSA PRIVATE KEY-----"
KEYS = {
    "anthropic": "sk-ant-api03-abcdefGHIJKL0123456789",
    "openai": "sk-proj-0123456789abcdefghij",
    "github": "ghp_" + "aB3" * 12,
    "github_oauth": "gho_" + "aB3" * 12,
    "github_fine": "github_pat_11ABCDEFG0123456789_abcdefghij",
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "aws_session": "ASIAIOSFODNN7EXAMPLE",
    "google": "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
    "slack_bot": "xoxb-123456789012-abcdefGHIJ",
    "slack_user": "xoxp-123456789012-abcdefGHIJ",
    "gitlab": "glpat-0123456789abcdefGHIJ",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
    "private_key": KEY,
    "private_key_in_json": json.dumps(KEY)[1:-1],
    "private_key_in_a_difference": "+" + KEY.replace("\n", "\n+"),
    "encrypted_key": KEY.replace("\nMII", "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nMII", 1),
}
HARMLESS = [
    "the task-runner-of-the-disk-2000-and-more is a risk-assessment-2024-01-01-of-ours",
    "sk-folding-cube-and-more-spinners",
    "see -----BEGIN PRIVATE KEY----- in the manual, then go on\n[STATUS: success]",
    "Authorization: Bearer <token>",
    "authorization is needed for the bearer of this",
    "AKIA is short, eyJ too, and ghp_ and xoxb-12 and AIza",
    "src/pipeline/engine/redaction.py::test_a_long_name_of_a_test_function_0123456789",
]


def printed(value: str) -> dict[str, str]:
    """A value in the forms it gets printed in."""
    data = value.encode()
    return {
        "as it is": value,
        "JSON": json.dumps(value),
        "JSON in UTF-8": json.dumps({"key": value}, ensure_ascii=False),
        "JSON with slashes": json.dumps(value).replace("/", "\\/"),
        "address": quote(value),
        "address, whole": quote(value, safe=""),
        "form": quote_plus(value),
        **{f"base64 after {n}": b64encode(b"?" * n + data + b"?" * m).decode() for n in range(4) for m in range(3)},
        "base64 for addresses": urlsafe_b64encode(data).decode(),
    }


@pytest.mark.parametrize("form", printed(VALUE))
def test_a_known_value_is_found_in_every_form(form: str) -> None:
    """Of base64, the few characters that it shares with its neighbours may stay."""
    clean = REDACTOR.text(f"before {printed(VALUE)[form]} after")
    assert "[redacted MY_TOKEN]" in clean
    assert len(clean) <= len('before {"key": "[redacted MY_TOKEN]"} after') + 8


@given(VALUES, LETTERS, LETTERS)
def test_no_form_of_any_value_survives(value: str, before: str, after: str) -> None:
    """Whatever the value is and wherever it stands, in text and in bytes."""
    redactor = Redactor((Secret("X", value),))
    assume("[redacted X]" in redactor.text(value))  # not a piece of the mark itself
    for text in printed(value).values():
        whole = before + text + after
        assert value not in redactor.text(whole)
        assert value.encode() not in redactor.data(whole.encode())
        assert text not in redactor.text(whole)


@given(st.lists(VALUES, max_size=3), LETTERS, st.sampled_from([*KEYS.values(), ""]))
def test_what_is_redacted_stays_as_it_is(values: list[str], text: str, key: str) -> None:
    """Redacting twice is redacting once."""
    redactor = Redactor(tuple(Secret(f"V{number}", value) for number, value in enumerate(values)))
    once = redactor.text(" ".join([text, key, *values]))
    assert redactor.text(once) == once
    assert redactor.data(once.encode()) == once.encode()


@given(st.lists(VALUES, max_size=3), LETTERS)
def test_what_holds_no_secret_is_the_same_object(values: list[str], text: str) -> None:
    """Nothing is copied, and nothing is changed."""
    assume(not any(value in text for value in values))
    redactor = Redactor(tuple(Secret("X", value) for value in values))
    given_: dict[str, Any] = {"a": [text, (1, text)], text: None}
    assert redactor.text(text) is text
    assert redactor.value(given_) is given_


@given(st.binary())
def test_bytes_that_are_no_text_are_kept(data: bytes) -> None:
    """Around a secret, every byte stays."""
    assume(VALUE.encode() not in data + b"|" + data)
    assert REDACTOR.data(data) == data
    assert REDACTOR.data(data + VALUE.encode() + data) == data + b"[redacted MY_TOKEN]" + data


@pytest.mark.parametrize("kind", KEYS)
def test_well_known_keys_are_found(kind: str) -> None:
    """By their looks alone, and whole."""
    assert PATTERNS_ONLY.text(f"x={KEYS[kind]}; y") in ("x=[redacted]; y", "x=+[redacted]; y")
    assert PATTERNS_ONLY.data(f'"{KEYS[kind]}"\n'.encode()) in (b'"[redacted]"\n', b'"+[redacted]"\n')
    assert PATTERNS_ONLY.text(f'"key:\\n{KEYS[kind]}"') in ('"key:\\n[redacted]"', '"key:\\n+[redacted]"')


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "Basic", "token"])
def test_the_token_of_a_header_is_found(scheme: str) -> None:
    """The header and its scheme stay."""
    assert PATTERNS_ONLY.text(f"> Authorization: {scheme} abc.DEF-12= x") == f"> Authorization: {scheme} [redacted] x"
    assert PATTERNS_ONLY.text(f'"authorization":"{scheme} abcdefgh"') == f'"authorization":"{scheme} [redacted]"'


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_resembles_a_key_is_left(text: str) -> None:
    """Words that begin like a key, and talk about keys."""
    assert PATTERNS_ONLY.text(text) is text or PATTERNS_ONLY.text(text) == text


def test_a_private_key_without_its_end_is_found() -> None:
    """A text that was cut in a key holds most of it; what follows a key is no part of it."""
    assert PATTERNS_ONLY.text(KEY[:150]) == "[redacted]"
    assert PATTERNS_ONLY.text(f"a {KEY}\nand so on") == "a [redacted]\nand so on"
    cut = KEY[: KEY.index("abcd")]
    assert PATTERNS_ONLY.text(f"{cut}this went wrong") == "[redacted]\nthis went wrong"


def test_the_longest_value_goes_first() -> None:
    """A secret that begins with another leaves no rest of itself."""
    redactor = Redactor((Secret("A", "password-1"), Secret("B", "password-1-and-more")))
    assert redactor.text("password-1-and-more password-1") == "[redacted B] [redacted A]"


def test_each_line_of_a_value_is_one() -> None:
    """Output is looked at line by line; short lines would be found everywhere."""
    redactor = Redactor((Secret("K", "0123456789abcdef\n}\nshort line"),))
    assert redactor.text("0123456789abcdef } short line") == "[redacted K] } short line"
    assert redactor.text("0123456789abcdef\n}\nshort line") == "[redacted K]"


@pytest.mark.parametrize("name", ["ünlaut", "HUNTER222", "AKIAIOSFODNN7EXAMPLE", "a b"])
def test_a_name_that_is_no_name_is_not_shown(name: str) -> None:
    """Nor is one that holds a secret itself."""
    redactor = Redactor((Secret(name, "hunter-222"), Secret("X", "HUNTER222")))
    assert redactor.text("hunter-222") == "[redacted]"


def test_a_value_that_is_a_word_of_the_mark_is_left() -> None:
    """Else the marks themselves would be redacted."""
    assert Redactor((Secret("X", "redacted"),)).text("[redacted] redacted") == "[redacted] redacted"


def test_a_redactor_does_not_tell() -> None:
    """What is printed of it by mistake names variables only."""
    assert VALUE not in repr(REDACTOR)
    assert "MY_TOKEN" in repr(REDACTOR)


def test_a_nested_value_is_redacted_whole() -> None:
    """Keys too; what is no text is kept, and so are the kinds of its containers."""
    nested = {"a": [VALUE, 1], VALUE: (VALUE, None), "b": {"c": True}}
    mark = "[redacted MY_TOKEN]"
    clean = REDACTOR.value(nested)
    assert clean == {"a": [mark, 1], mark: (mark, None), "b": {"c": True}}
    assert clean["b"] is nested["b"]


def test_everything_a_stage_says_is_redacted() -> None:
    """Every field that holds words of a stage, and no other."""
    outcome = Outcome(
        status=Status.FAIL,
        reason=f"r {VALUE}",
        response=f"s {VALUE}",
        failure=Failure(kind=FailureClass.AGENT, digest=VALUE, exit_code=3, stdout_tail=VALUE, stderr_tail=VALUE),
        updates={"k": [VALUE]},
        preferred_label=VALUE,
        preferred_next=VALUE,
        notes=(VALUE, "n"),
        duration=2.0,
    )
    clean = redact_outcome(REDACTOR, outcome)
    mark = "[redacted MY_TOKEN]"
    assert "s3cr3t" not in clean.model_dump_json()
    assert (clean.reason, clean.response, clean.notes, clean.updates) == (
        f"r {mark}",
        f"s {mark}",
        (mark, "n"),
        {"k": [mark]},
    )
    assert clean.failure == Failure(
        kind=FailureClass.AGENT, digest=mark, exit_code=3, stdout_tail=mark, stderr_tail=mark
    )
    assert (clean.status, clean.duration) == (Status.FAIL, 2.0)


def test_an_outcome_without_secrets_is_the_same() -> None:
    """With a failure and without."""
    for failure in (None, Failure(kind=FailureClass.TIMEOUT, digest="too slow by far")):
        outcome = Outcome(status=Status.FAIL, response="nothing to hide", failure=failure)
        assert redact_outcome(REDACTOR, outcome) == outcome


def test_only_the_failure_may_hold_a_secret() -> None:
    """It is redacted also when all else is clean."""
    outcome = Outcome(status=Status.FAIL, failure=Failure(kind=FailureClass.AGENT, digest=VALUE))
    clean = redact_outcome(REDACTOR, outcome)
    assert clean.failure is not None
    assert clean.failure.digest == "[redacted MY_TOKEN]"


@pytest.mark.parametrize(
    ("operation", "clean"),
    [
        (Set("k", {"a": VALUE}), Set("k", {"a": "[redacted MY_TOKEN]"})),
        (Append("k", VALUE), Append("k", "[redacted MY_TOKEN]")),
        (Discard("k", {"a": VALUE}), Discard("k", {"a": "[redacted MY_TOKEN]"})),
        (Delete("k"), Delete("k")),
        (Set("k", 1), Set("k", 1)),
    ],
)
def test_operations_are_redacted(operation: Operation, clean: Operation) -> None:
    """Whatever would come into the context."""
    assert redact_conclusion(REDACTOR, Conclusion(operations=[operation])).operations == [clean]


@given(st.integers(0, 60))
def test_a_cut_goes_through_no_secret(end: int) -> None:
    """It moves to the beginning of the secret, and no farther."""
    data = f"0123456789{VALUE} {KEYS['aws']}.rest and more to come here".encode()
    spans = [(10, 10 + len(VALUE.encode())), (11 + len(VALUE.encode()), 31 + len(VALUE.encode()))]
    expected = next((start for start, stop in spans if start < end < stop), end)
    assert REDACTOR.redact_prefix(data, end) == (REDACTOR.data(data[:expected]), expected)


def test_a_cut_does_not_come_after_a_key_that_goes_on() -> None:
    """Its first line alone is enough; a whole key, and a key that something else follows, are done."""
    first = KEY.split("\n", maxsplit=1)[0].encode() + b"\n"
    assert PATTERNS_ONLY.redact_prefix(b"a\n" + first, 2 + len(first)) == (b"a\n", 2)
    assert PATTERNS_ONLY.redact_prefix(b"a\n" + KEY[:200].encode(), 202) == (b"a\n", 2)
    assert PATTERNS_ONLY.redact_prefix(KEY.encode() + b"\n", len(KEY) + 1) == (b"[redacted]\n", len(KEY) + 1)
    talk = first + b"is how it begins\n"
    assert PATTERNS_ONLY.redact_prefix(talk, len(talk)) == (talk, len(talk))
    assert (unfinished_key(KEY[:200].encode()), unfinished_key(KEY.encode())) == (first[:-1], b"")


def test_the_overlap_is_as_long_as_the_longest_form() -> None:
    """Base64 makes a long value longer still."""
    assert PATTERNS_ONLY.overlap >= len(KEYS["jwt"])
    assert Redactor((Secret("X", "ab" * 20_000),)).overlap > 53_000


ENVIRON = {
    "HOME": "/home/somebody",
    "USER": "somebody-else",
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "github_token": "token-of-github",
    "PGPASSWORD": "password-of-postgres",
    "SECRET_KEY": "django-secret",
    "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "/starts/like+a+path/of/forty/characters",
    "GOOGLE_CREDENTIALS": '{"private_key": "abc"}',
    "DATABASE_URL": "postgres://me:p%40ssword-1@db/x",
    "HTTPS_PROXY": "http://me:proxy-password@proxy:3128",
}
NO_SECRETS = {
    "AWS_REGION": "eu-central-1",
    "AWS_PROFILE": "my-profile-name",
    "SHORT_TOKEN": "abc",
    "BLANK_TOKEN": "         ",
    "USE_SECRET": "disabled",
    "TWINE_PASSWORD": "Changeme",
    "GOOGLE_APPLICATION_CREDENTIALS": "/etc/keys/google.json",
    "DEPLOY_KEY": "/home/somebody/.ssh/deploy",
    "OF_TOKEN": "/home/somebody",
    "MY_PASSWORD": "somebody-else",
    "ANTHROPIC_BASE_URL": "https://example.org/v1/messages",
    "CACHE_URL": "redis://me:short@cache",
    "SSH_AUTH_SOCK": "/run/ssh-x/agent.1",
    "EDITOR": "not-a-secret-at-all",
}


def test_the_secrets_of_an_environment() -> None:
    """By telling names, in any case; of an address only its password, as it stands and as it is meant."""
    assert {(secret.name, secret.value) for secret in secret_values({**ENVIRON, **NO_SECRETS})} == {
        ("ANTHROPIC_API_KEY", "key-of-anthropic"),
        ("github_token", "token-of-github"),
        ("PGPASSWORD", "password-of-postgres"),
        ("SECRET_KEY", "django-secret"),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"),
        ("AWS_SECRET_ACCESS_KEY", "/starts/like+a+path/of/forty/characters"),
        ("GOOGLE_CREDENTIALS", '{"private_key": "abc"}'),
        ("DATABASE_URL", "p%40ssword-1"),
        ("DATABASE_URL", "p@ssword-1"),
        ("HTTPS_PROXY", "proxy-password"),
    }


def test_an_environment_makes_a_redactor() -> None:
    """It knows the values, and the patterns as well."""
    clean = redactor_of(ENVIRON).text(f"key-of-anthropic {KEYS['gitlab']} /home/somebody")
    assert clean == "[redacted ANTHROPIC_API_KEY] [redacted] /home/somebody"
