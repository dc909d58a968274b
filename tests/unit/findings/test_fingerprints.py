"""A finding keeps what it takes to find it again."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from tests.unit.findings.builders import CODE, Files, draft, known

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
)
from pipeline.findings.model import Draft, Evidence, Finding, Location

PAGE = SourceFile.of(CODE)


def made(line: int | None = 3, *, page: SourceFile | None = PAGE, **more: Any) -> Draft:
    """A draft with its fingerprints."""
    one = draft(line, **more)
    return replace(one, fingerprints=fingerprints(one, page))


def kept(line: int | None = 3, code: Sequence[str] | None = CODE, **more: Any) -> Finding:
    """A finding of an earlier pass, in a file of this code or in none."""
    return known([draft(line, **more)], Files({} if code is None else {"src/session.py": code}))[0]


def test_a_finding_keeps_its_line_and_what_is_around_it() -> None:
    """The text, how often it is in its file, its surroundings, and the id in a verdict file."""
    prints = made(3, symbol="rotate").fingerprints
    assert prints.keys() == {TEXT, NTH, WINDOW, VERDICT}
    assert prints[TEXT] == "store.save(token)"
    assert prints[NTH] == "1/1"
    assert len(prints[WINDOW].split()) == 5
    assert prints[VERDICT].startswith("correctness-")
    assert prints[VERDICT].endswith("-3")


def test_the_id_of_a_verdict_file_is_by_position() -> None:
    """001-08: domain, hash of the path and lines, to the letter."""
    one = draft(45, end=50, path="src/api/routes.ts", reviewer="api-patterns")
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
    """What a tool calls a result stays beside our fingerprints, and cannot take the place of one of them."""
    prints = made(3, tool_ids={"guid": "g", TEXT: "stale"}).fingerprints
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


@pytest.mark.parametrize(("length", "kept"), [(QUOTE, True), (QUOTE + 1, False), (1_000_000, False)])
def test_a_line_is_kept_up_to_a_length(length: int, *, kept: bool) -> None:
    """The longest line that is kept is kept whole; of a longer one, however long, there is a hash."""
    assert (norm_line("x" * length) == "x" * length) is kept
    assert len(norm_line("\ud800" * length)) == (length if kept else len("sha256:") + 64)


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


CHANGED = [*CODE[:2], "    store.save(token, ttl=3)", *CODE[3:]]
INDENTED = ["if x:", *(f"  {line}" for line in CODE)]
TWICE = ["x = f(1)", "y = 2", "x = f(1)"]


@pytest.mark.parametrize(
    ("finding", "now", "unchanged"),
    [
        (kept(2, end=4), INDENTED, True),
        (kept(2, end=4), CHANGED, False),
        (kept(2, end=3), CODE, True),
        (kept(2, end=3), CHANGED, False),  # the second line counts as well
        (kept(2, end=4), None, False),  # the file is gone
        (kept(None), CODE, None),  # it never named a line
        (kept(3, None, quote="store.save(token)"), CODE, True),  # quoted, and so never counted: one such line is enough
        (kept(3, None, quote="store.save(token)"), CODE[:2], False),
        (kept(1, TWICE), TWICE, True),
        (kept(1, TWICE), TWICE[1:], False),  # the other equal line is no proof that it is still there
    ],
)
def test_lines_are_unchanged_if_all_of_them_are_still_in_the_file(
    finding: Finding, now: list[str] | None, *, unchanged: bool | None
) -> None:
    """Moved or indented lines are unchanged, edited and deleted ones are not; without a line nobody knows."""
    assert lines_unchanged(finding, None if now is None else SourceFile.of(now)) is unchanged


def test_of_a_finding_whose_lines_were_never_hashed_the_first_one_counts() -> None:
    """A record that knows only the first of several lines says nothing about the others."""
    pair = kept(2, end=3)
    prints = {name: value for name, value in pair.fingerprints.items() if name != SPAN}
    assert lines_unchanged(replace(pair, fingerprints=prints), SourceFile.of(CHANGED)) is True


def test_a_digest_is_of_the_code_and_holds_next_to_it() -> None:
    """000-46: another line's number is not other evidence, another text is."""
    dismissed = evidence_digest(made(3))
    assert dismissed == f"line/v1:{line_hash('store.save(token)')}"
    assert same_evidence(dismissed, made(3, title="Other words"))
    assert same_evidence(dismissed, made(4))
    assert not same_evidence(dismissed, made(8))


def test_a_digest_of_quotations_serves_where_there_is_no_code() -> None:
    """Digests of different kinds tell nothing about each other, and neither does one that is not ours."""
    quoted = made(3, page=None, quote="the old token must be revoked")
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
