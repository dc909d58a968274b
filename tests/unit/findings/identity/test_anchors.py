"""A finding reduced to what it is recognised by, and how two of them compare."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.findings.identity.made import CODE, Files, anchor, draft, known

from pipeline.findings.fingerprints import CE, VERDICT, add_fingerprints
from pipeline.findings.linemap import parse_diff
from pipeline.findings.match import MatchFeatures, agree, apart, likeness, may_be, of_draft, of_known, overlap
from pipeline.findings.model import AutofixClass, Category, Finding, FindingState, Owner, Severity, Vote

PATH = "src/session.py"
HERE = Files({PATH: CODE})
OTHER = Category.PERFORMANCE


def printed(*arguments: Any, **more: Any) -> Finding:
    """A finding with its fingerprints."""
    return add_fingerprints([draft(*arguments, **more)], HERE)[0]


def vote(title: str) -> Vote:
    """What one reviewer called it."""
    return Vote(
        reviewer="r",
        severity=Severity.LOW,
        confidence=50,
        autofix_class=AutofixClass("manual"),
        owner=Owner("human"),
        title=title,
    )


def test_an_anchor_holds_the_line_and_what_is_said_of_it() -> None:
    """The text, how often it stands there, its surroundings, and the words without those of the line itself."""
    made = of_draft(7, printed(3, "Old token stays valid", symbol="rotate"))
    assert (made.at, made.path, made.line, made.symbol) == (7, PATH, 3, "rotate")
    assert (made.text, made.nth, made.once, made.distinctive) == ("store.save(token)", "1/1", True, True)
    assert len(made.window) == 5
    assert made.words == {"old", "token", "stays", "valid"}
    assert made.claim == {"old", "stays", "valid"}
    assert (made.mapped, made.kept, made.active) == (False, False, True)


def test_words_of_the_line_are_no_claim() -> None:
    """What only repeats the code says nothing about it."""
    page = Files({PATH: ["rotate token now"]})
    (repeating,) = add_fingerprints([draft(1, "Token is rotated late")], page)
    assert of_draft(0, repeating).claim == {"late"}


def test_a_finding_without_a_place_has_neither_path_nor_line() -> None:
    """Now or before, with a map or without; what is missing is empty and not a word."""
    bare = draft(None, locations=(), evidence=())
    for made in (of_draft(0, bare), of_known(0, bare, None), of_known(0, bare, parse_diff(""))):
        assert (made.path, made.line, made.text, made.nth, made.window, made.symbol) == ("", 0, "", "", (), "")
        assert not made.mapped


def test_a_finding_about_a_whole_file_has_no_line_to_map() -> None:
    """It goes where its file goes."""
    lines = parse_diff(f"diff --git a/x b/y\nrename from {PATH}\nrename to src/tokens.py\n")
    made = of_known(0, printed(None), lines)
    assert (made.path, made.line, made.mapped) == ("src/tokens.py", 0, False)


def test_a_finding_of_a_deleted_file_keeps_its_old_name() -> None:
    """What was in it may have gone to another: it is looked for by its text."""
    lines = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ /dev/null\n@@ -1,9 +0,0 @@\n" + "-x\n" * 9)
    made = of_known(0, printed(3), lines)
    assert (made.path, made.line, made.mapped, made.kept) == (PATH, 3, False, False)


@pytest.mark.parametrize(("line", "now", "kept"), [(2, 2, True), (3, 3, False), (5, 6, True)])
def test_git_says_where_a_line_is_and_whether_it_is_the_same(line: int, now: int, *, kept: bool) -> None:
    """A line that was replaced is where what replaced it is."""
    lines = parse_diff(f"diff --git a/x b/x\n--- a/{PATH}\n+++ b/{PATH}\n@@ -3 +3,2 @@\n-x\n+y\n+z\n")
    made = of_known(0, printed(line), lines)
    assert (made.line, made.mapped, made.kept) == (now, True, kept)


def test_only_the_last_titles_count() -> None:
    """A finding that was reported under many is not about everything that anybody ever said."""
    votes = tuple(vote(title) for title in ("first", "second", "third", "fourth", "fifth", "sixth"))
    assert of_draft(0, draft(title="Alpha", votes=votes)).words == {"alpha", "third", "fourt", "fifth", "sixth"}
    assert of_draft(0, draft(title="Alpha", votes=votes[:1])).words == {"alpha", "first"}


def test_names_are_signatures_aliases_and_ids_of_tools() -> None:
    """Each that is its own wherever it stands; a name by position, or a word of ours about the code, is none."""
    given = {"guid": "g-1", "awf/id": "fnd_9", "empty": "", CE: "by position", VERDICT: "also by position"}
    aliases = ("ticket-7", "by position", "also by position", "security-0badcafe-3", "security-0badcafe-3-9")
    made = of_draft(0, draft(3, quote="store.save(token)", fingerprints=given, aliases=aliases, id="fnd_1"))
    assert made.names == (
        "fnd_1",
        draft(3, quote="store.save(token)").signature,
        "ticket-7",
        "fnd_9",
    )
    assert made.ids == ("security\0guid\0g-1",)
    assert made.loose == ""


def test_a_claim_that_quotes_nothing_has_a_loose_name() -> None:
    """Its signature says only that it is one of that file."""
    made = of_draft(0, draft(3, id="fnd_1"))
    assert (made.names, made.loose) == (("fnd_1",), draft(3).signature)
    without_evidence = of_draft(0, draft(None, evidence=(), id="fnd_1"))
    assert (len(without_evidence.names), without_evidence.loose) == (2, "")


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [("abc", "abc", 1.0), ("abc", "abd", 0.5), ("ab", "cd", 0.0), ("a", "ab", 0.5), ("", "", 0.0), ("", "a", 0.0)],
)
def test_likeness_is_the_share_of_words_in_common(one: str, other: str, share: float) -> None:
    """Of all words of both; nothing said is like nothing."""
    assert likeness(anchor(words=one), anchor(words=other)) == pytest.approx(share)


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ("abcd", "abcd", 1.0),
        ("abcd", "ab", 0.5),
        ("ab", "abcd", 0.5),
        ("aab", "ab", 2 / 3),
        ("ab", "cd", 0),
        ("", "", 0),
    ],
)
def test_overlap_is_the_share_of_lines_in_common(one: str, other: str, share: float) -> None:
    """Of the longer surroundings, each line counted once; without any there is nothing in common."""
    assert overlap(anchor(window=tuple(one)), anchor(window=tuple(other))) == pytest.approx(share)


@pytest.mark.parametrize(
    ("known_words", "draft_words", "category", "agreed"),
    [
        ("ab", "bc", Category.SECURITY, True),
        ("abcdefgh", "hijklmno", Category.SECURITY, True),  # one word, of the same kind
        ("ab", "cd", Category.SECURITY, False),
        ("abc", "cde", OTHER, True),  # a fifth of all words
        ("abc", "cdef", OTHER, False),  # less than that
        ("ab", "cd", OTHER, False),
    ],
)
def test_two_agree_when_they_say_much_the_same(
    known_words: str, draft_words: str, category: Category, *, agreed: bool
) -> None:
    """Some of it of the same kind, or a fifth of it of another."""
    one, other = anchor(words=known_words), anchor(words=draft_words, category=category)
    assert agree(one, other) is agreed


@pytest.mark.parametrize(
    ("one", "category", "possible"),
    [
        (anchor(words="ab"), Category.SECURITY, False),
        (anchor(words="ac"), Category.SECURITY, True),
        (anchor(words="ab"), OTHER, False),
        (anchor(words="ac"), OTHER, True),
    ],
)
def test_two_may_be_one_defect_or_not(one: MatchFeatures, category: Category, *, possible: bool) -> None:
    """0-21: neither the place nor the kind is evidence; they need a word in common."""
    assert may_be(one, anchor(words="cd", category=category)) is possible


def test_words_of_the_line_make_nobody_agree() -> None:
    """Two that share only what the line says do not agree, but one of the same kind may be it."""
    one = replace(anchor(words="ab"), claim=frozenset("a"))
    other = replace(anchor(words="bc"), claim=frozenset("c"))
    assert not agree(one, other)
    assert may_be(one, other)


@pytest.mark.parametrize(
    ("mine", "theirs", "sources", "unreadable", "expected"),
    [
        ("ab", "cd", ("ruff", "mypy"), False, True),
        ("ab", "bc", ("ruff", "mypy"), False, False),
        ("ab", "cd", ("ruff", "ruff"), False, False),
        ("ab", "ab", ("ruff", "ruff"), True, True),
    ],
)
def test_strangers_without_a_common_word_are_two(
    mine: str, theirs: str, sources: tuple[str, str], *, unreadable: bool, expected: bool
) -> None:
    """0-21: what nobody said both of needs a shared word, and what cannot be read is nobody else."""
    one = anchor(words=mine, sources=frozenset({sources[0]}))
    other = anchor(words=theirs, sources=frozenset({sources[1]}), unreadable=unreadable)
    assert apart(one, other) is expected


@pytest.mark.parametrize("state", FindingState)
def test_what_counts(state: FindingState) -> None:
    """What is open, reopened or uncertain counts."""
    made = of_known(0, known([draft()], HERE, state=state)[0], None)
    assert made.active is (state in (FindingState.OPEN, FindingState.REOPENED, FindingState.UNCERTAIN))
