"""A finding keeps what it takes to find it again."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from tests.unit.findings.builders import CODE, Files, draft

from pipeline.findings.fingerprints import (
    NTH,
    QUOTE,
    SPAN,
    TEXT,
    VERDICT,
    WINDOW,
    SourceFile,
    add_fingerprints,
    evidence_digest,
    fingerprints,
    line_count,
    line_hash,
    lines_unchanged,
    norm_line,
    same_evidence,
    symbol_of,
    text_removed,
)
from pipeline.findings.model import Evidence, Finding, Location

PAGE = SourceFile.of(CODE)


def made(line: int | None = 3, *, page: SourceFile | None = PAGE, **more: Any) -> Finding:
    one = draft(line, **more)
    return replace(one, fingerprints=fingerprints(one, page))


def test_a_finding_keeps_its_line_and_what_is_around_it() -> None:
    """The text, how often it is in its file, its surroundings, and the id in a verdict file."""
    prints = made(3, symbol="rotate").fingerprints
    assert prints.keys() == {TEXT, NTH, WINDOW, VERDICT}
    assert prints[TEXT] == "store.save(token)"
    assert prints[NTH] == "1/1"
    assert len(prints[WINDOW].split()) == 5
    assert prints[VERDICT].startswith("security-")
    assert prints[VERDICT].endswith("-3")


def test_the_id_of_a_verdict_file_is_by_position() -> None:
    """001-08: domain, hash of the path and lines, to the letter."""
    one = draft(45, end=50, path="src/api/routes.ts", sources=("api-patterns",))
    assert fingerprints(one, None)[VERDICT] == "api-patterns-69bbc8bb-45-50"


def test_only_the_id_of_a_verdict_file_has_line_numbers() -> None:
    """C-32: a line added above changes neither the text nor its surroundings."""
    one, other = made(5), made(6, page=SourceFile.of(["# added", *CODE]))
    assert {name for name in one.fingerprints if one.fingerprints[name] != other.fingerprints[name]} == {VERDICT}


def test_formatting_changes_nothing() -> None:
    """Indentation and spacing are a formatter's."""
    assert (
        made(3).fingerprints[WINDOW]
        == made(3, page=SourceFile.of([f"\t{line} " for line in CODE])).fingerprints[WINDOW]
    )


def test_equal_lines_are_counted() -> None:
    """Which of several equal lines is meant is kept."""
    assert made(2, page=SourceFile.of(["x = 1", "y = 2", "x = 1", "y = 2"])).fingerprints[NTH] == "1/2"
    assert made(4, page=SourceFile.of(["x = 1", "y = 2", "x = 1", "y = 2"])).fingerprints[NTH] == "2/2"


def test_a_tool_keeps_its_own_names() -> None:
    """What a tool calls a result stays beside ours, and a stale one of ours does not."""
    prints = made(3, fingerprints={"guid": "g", TEXT: "stale"}).fingerprints
    assert (prints["guid"], prints[TEXT]) == ("g", "store.save(token)")


def test_without_a_file_the_quotation_is_the_text() -> None:
    """000-36: what is about no file is recognised by what it quotes."""
    assert made(3, page=None, quote="\n  must  revoke the old token").fingerprints[TEXT] == "must revoke the old token"
    assert made(99, quote="beyond the end").fingerprints[TEXT] == "beyond the end"
    assert TEXT not in made(3, page=None).fingerprints
    assert TEXT not in made(None).fingerprints


def test_the_surroundings_are_three_lines_to_either_side() -> None:
    """The line itself, three above, three below, and no blank ones."""
    page = SourceFile.of(["a", "b", "c", "d", "e", "", "g", "h", "i"])
    assert page.window(5) == tuple(map(line_hash, ("b", "c", "d", "e", "g", "h")))
    assert page.window(1) == tuple(map(line_hash, ("a", "b", "c", "d")))
    assert page.window(9) == tuple(map(line_hash, ("g", "h", "i")))


def test_a_span_is_the_hash_of_its_lines() -> None:
    """From the first to the last, and no further than is looked at."""
    page = SourceFile.of([*"abc"])
    assert page.span(2, 3) == line_hash("b\nc")
    assert page.span(1, 1) == line_hash("a")
    long = SourceFile.of([f"line {number}" for number in range(1000)])
    assert long.span(1, 900) == long.span(1, 950)
    assert long.span(1, 300) != long.span(1, 350)


def test_the_hash_of_a_line_stays_what_it_is() -> None:
    """Ledgers hold such hashes: another length or another function would make strangers of all findings."""
    assert line_hash("store.save(token)") == sha256(b"store.save(token)").hexdigest()[:12]


def test_letters_are_compared_as_they_look() -> None:
    """One letter with an accent, written as one or as two signs."""
    assert norm_line("  na\u0069\u0308ve   text ") == "na\u00efve text"


@pytest.mark.parametrize(("length", "kept"), [(QUOTE, True), (QUOTE + 1, False)])
def test_a_line_is_kept_up_to_a_length(length: int, *, kept: bool) -> None:
    """The longest that is kept is kept whole."""
    assert (norm_line("x" * length) == "x" * length) is kept
    assert len(norm_line("\ud800" * length)) == (length if kept else len("sha256:") + 64)


def test_a_finding_of_nobody_is_named_after_its_kind() -> None:
    """001-08: without a reviewer the category is the domain; a whole file is line 0."""
    prints = fingerprints(draft(None, sources=(), title="Old"), None)
    assert prints[VERDICT].startswith("security-")
    assert prints[VERDICT].endswith("-0")


@pytest.mark.parametrize(
    ("place", "evidence", "symbol"), [("f", "g", "f"), ("", "g", "g"), (None, "g", "g"), ("", "", ""), (None, "", "")]
)
def test_a_symbol_is_what_anybody_said(place: str | None, evidence: str, symbol: str) -> None:
    """That of the place first, then that of the evidence."""
    locations = () if place is None else (Location(path="a", symbol=place),)
    assert symbol_of(draft(locations=locations, evidence=(Evidence(path="a", symbol=evidence),))) == symbol


@pytest.mark.parametrize(
    ("place", "size"),
    [
        (None, 1),
        (Location(path="a"), 1),
        (Location(path="a", end=4), 1),
        (Location(path="a", start=3), 1),
        (Location(path="a", start=3, end=3), 1),
        (Location(path="a", start=3, end=4), 2),
        (Location(path="a", start=4, end=3), 1),
    ],
)
def test_a_place_has_a_size(place: Location | None, size: int) -> None:
    """One line where nobody said more, or said it the wrong way round."""
    assert line_count(place) == size


def test_line_zero_is_no_line() -> None:
    """It is not the last of the file, though a list would say so."""
    assert TEXT not in made(0).fingerprints


def test_a_very_long_line_is_its_hash() -> None:
    """Ten megabytes in one line cost a finding no more than any other."""
    assert len(norm_line("x" * 10_000_000)) == len("sha256:") + 64


def test_each_file_is_read_once() -> None:
    """Findings of one file share one reading, wherever they stand in the list."""
    asked = list[str]()

    class Counting(Files):
        def lines(self, path: str) -> list[str] | None:
            asked.append(path)
            return CODE

    done = add_fingerprints([draft(3), draft(3, path="other.py"), draft(5), draft(locations=())], Counting())
    assert sorted(asked) == ["other.py", "src/session.py"]
    assert [one.fingerprints.get(TEXT) for one in done] == ["store.save(token)"] * 2 + ["return token", None]


def test_lines_stand_or_do_not() -> None:
    """Moved or indented lines still stand; changed and deleted ones do not; without a text nobody knows."""
    block = made(2, end=4)
    assert lines_unchanged(block, SourceFile.of(["if x:", *(f"  {line}" for line in CODE)])) is True
    assert lines_unchanged(block, SourceFile.of([*CODE[:2], "    store.save(token, ttl=3)", *CODE[3:]])) is False
    assert lines_unchanged(block, None) is False
    assert lines_unchanged(made(None), PAGE) is None


def test_every_line_of_a_finding_must_stand() -> None:
    """Of two lines the second counts too; a record that knows only the first says nothing of the others."""
    pair, edited = made(2, end=3), SourceFile.of([*CODE[:2], "    store.save(token, ttl=3)", *CODE[3:]])
    assert lines_unchanged(pair, PAGE) is True
    assert lines_unchanged(pair, edited) is False
    prints = {name: value for name, value in pair.fingerprints.items() if name != SPAN}
    assert lines_unchanged(replace(pair, fingerprints=prints), edited) is True


def test_a_quoted_line_stands_where_the_file_has_it() -> None:
    """One that was quoted without a file has never been counted: one such line is enough."""
    quoted = made(3, page=None, quote="store.save(token)")
    assert NTH not in quoted.fingerprints
    assert lines_unchanged(quoted, PAGE) is True
    assert lines_unchanged(quoted, SourceFile.of(CODE[:2])) is False


def test_one_of_two_equal_lines_is_missed_when_it_goes() -> None:
    """The other is no proof that it is still there."""
    twice = SourceFile.of(["x = f(1)", "y = 2", "x = f(1)"])
    assert lines_unchanged(made(1, page=twice), twice) is True
    assert lines_unchanged(made(1, page=twice), SourceFile.of(["y = 2", "x = f(1)"])) is False
    assert not text_removed(made(1, page=twice), SourceFile.of(["y = 2", "x = f(1)"]))
    assert text_removed(made(1, page=twice), SourceFile.of(["y = 2"]))


def test_a_digest_is_of_the_code_and_holds_next_to_it() -> None:
    """000-46: another line's number is not other evidence, another text is."""
    dismissed = evidence_digest(made(3))
    assert dismissed == f"line/v1:{line_hash('store.save(token)')}"
    assert same_evidence(dismissed, made(3, title="Other words"))
    assert same_evidence(dismissed, made(4))
    assert not same_evidence(dismissed, made(8))


def test_a_digest_of_quotations_serves_where_there_is_no_code() -> None:
    """Digests of different kinds tell nothing about each other, and neither does one that is not ours."""
    quoted = made(3, page=None, quote="the old token must be revoked", fingerprints={})
    bare = replace(quoted, fingerprints={})
    assert evidence_digest(bare) == f"quote/v1:{line_hash('the old token must be revoked')}"
    assert same_evidence(evidence_digest(bare), made(3))
    assert same_evidence("sha256:ours-not", made(3))
    assert evidence_digest(draft(None)) == ""
    assert not same_evidence(f"line/v1:{line_hash('other')}", quoted)


def test_a_digest_of_quotations_is_of_all_of_them_in_any_order() -> None:
    """Who quotes the same twice, or the other way round, quotes the same."""
    first, second = Evidence(path="a", quote="the first of them"), Evidence(path="b", raw="and the second one")
    digests = {
        evidence_digest(draft(None, evidence=evidence))
        for evidence in ((first, second), (second, first), (first, second, first))
    }
    assert digests == {f"quote/v1:{line_hash('and the second one' + chr(10) + 'the first of them')}"}
