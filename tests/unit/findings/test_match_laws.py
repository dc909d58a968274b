"""What holds of matching whatever the findings, the files and the edits."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.builders import Files, draft, known

from pipeline.findings.fingerprints import add_fingerprints
from pipeline.findings.linemap import FileMap, Hunk, LineMap
from pipeline.findings.match import Match, Strength, match
from pipeline.findings.model import Category, Draft, FindingState

PATHS = ("a.py", "b.py")
TITLES = ("Token stays valid", "Valid token is stale", "Slow query", "Race on save", "x")
LINES = st.lists(st.sampled_from(("check(x)", "return x", "", "value = load_value(1)", "save(token)")), max_size=12)
FILES = st.fixed_dictionaries(dict.fromkeys(PATHS, LINES)).map(Files)
REPORTS = st.builds(
    draft,
    line=st.none() | st.integers(1, 12),
    title=st.sampled_from(TITLES),
    path=st.sampled_from(PATHS),
    category=st.sampled_from((Category.BUG, Category.SECURITY)),
    quote=st.sampled_from(("", "value = load_value(1)", "save(token)")),
    symbol=st.sampled_from(("", "f")),
)
MAPS = st.builds(
    lambda start, size: LineMap({"a.py": FileMap("a.py", (Hunk(start, start, (), ("",) * size),))}),
    st.integers(1, 6),
    st.integers(0, 3),
)


def pairs(matches: Sequence[Match], drafts: Sequence[Draft]) -> Counter[tuple[str, str, str]]:
    """Which draft was recognised as which finding, without the order of drafts."""
    return Counter((one.known, repr(drafts[one.draft]), one.strength) for one in matches)


@settings(max_examples=60, deadline=None)
@given(st.lists(REPORTS, max_size=7), st.lists(REPORTS, max_size=7), FILES, FILES, st.none() | MAPS)
def test_matching_is_one_to_one(
    then: list[Draft], now: list[Draft], old: Files, new: Files, lines: LineMap | None
) -> None:
    """No draft and no known finding is in two pairs, and every pair is of what was given, in the order of drafts."""
    before, drafts = known(then, old), add_fingerprints(now, new)
    matches = match(before, drafts, {"one": lines} if lines else {})
    of_drafts, of_known = [one.draft for one in matches], [one.known for one in matches]
    assert of_drafts == sorted(set(of_drafts) & set(range(len(drafts))))
    assert len(of_known) == len(set(of_known) & {one.id for one in before})


@settings(max_examples=60, deadline=None)
@given(st.data(), st.lists(REPORTS, max_size=7), st.lists(REPORTS, max_size=7), FILES, FILES, st.none() | MAPS)
def test_order_makes_no_difference(
    data: st.DataObject, then: list[Draft], now: list[Draft], old: Files, new: Files, lines: LineMap | None
) -> None:
    """Whoever reported first, and however the ledger is sorted: the same pairs."""
    before, drafts = known(then, old), add_fingerprints(now, new)
    maps = {"one": lines} if lines else {}
    mixed, turned = data.draw(st.permutations(before)), data.draw(st.permutations(drafts))
    assert pairs(match(before, drafts, maps), drafts) == pairs(match(mixed, turned, maps), turned)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(REPORTS, max_size=7, unique_by=lambda one: (one.signature, one.location)),
    FILES,
    st.sampled_from(FindingState),
)
def test_a_finding_is_itself(reports: list[Draft], files: Files, state: FindingState) -> None:
    """Reported again as it was, every finding is recognised exactly, in any state and any company."""
    before = known(reports, files, state=state)
    matches = match(before, add_fingerprints(reports, files), {})
    assert {one.strength for one in matches} <= {Strength.EXACT}
    assert [one.known for one in matches] == [one.id for one in before]


@settings(max_examples=40, deadline=None)
@given(st.lists(REPORTS, min_size=1, max_size=7), FILES, FILES)
def test_a_dismissal_never_covers_another_claim(reports: list[Draft], old: Files, new: Files) -> None:
    """C-05: of another category and without a word in common, nothing dismissed is ever recognised."""
    before = known(reports, old, state=FindingState.WONT_FIX)
    other = [draft(line, "Unlogged", category=Category.PRODUCT, path=path) for path in PATHS for line in range(1, 13)]
    assert match(before, add_fingerprints(other, new), {}) == []
