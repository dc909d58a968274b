"""What holds of matching whatever the findings, the files and the edits."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.findings.builders import Files, draft, known

from pipeline.findings.fingerprints import add_fingerprints
from pipeline.findings.linemap import FileMap, Hunk, LineMap
from pipeline.findings.match import Matching, match
from pipeline.findings.model import Category, Finding, FindingState, Strength

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
    lambda start, size: LineMap({"a.py": FileMap("a.py", (Hunk(start, 0, start, size),))}, {}),
    st.integers(1, 6),
    st.integers(0, 3),
)


def pairs(matching: Matching, drafts: Sequence[Finding]) -> Counter[tuple[str, str, str]]:
    """Who was recognised as whom, without the order of drafts."""
    return Counter((one.known, drafts[one.draft].model_dump_json(), one.strength) for one in matching.matches)


@settings(max_examples=150, deadline=None)
@given(st.lists(REPORTS, max_size=7), st.lists(REPORTS, max_size=7), FILES, FILES, st.none() | MAPS)
def test_matching_is_one_to_one_and_complete(
    then: list[Finding], now: list[Finding], old: Files, new: Files, lines: LineMap | None
) -> None:
    """Nobody is paired twice, and everybody is matched, new or unseen."""
    before, drafts = known(then, old), add_fingerprints(now, new)
    matching = match(before, drafts, {"one": lines} if lines else None)
    assert sorted([*matching.new, *(one.draft for one in matching.matches)]) == list(range(len(drafts)))
    assert sorted([*matching.unseen, *(one.known for one in matching.matches)]) == sorted(one.id for one in before)


@settings(max_examples=150, deadline=None)
@given(st.data(), st.lists(REPORTS, max_size=7), st.lists(REPORTS, max_size=7), FILES, FILES, st.none() | MAPS)
def test_order_makes_no_difference(
    data: st.DataObject, then: list[Finding], now: list[Finding], old: Files, new: Files, lines: LineMap | None
) -> None:
    """Whoever reported first, and however the ledger is sorted: the same pairs."""
    before, drafts = known(then, old), add_fingerprints(now, new)
    maps = {"one": lines} if lines else None
    mixed, turned = data.draw(st.permutations(before)), data.draw(st.permutations(drafts))
    assert pairs(match(before, drafts, maps), drafts) == pairs(match(mixed, turned, maps), turned)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(REPORTS, max_size=7, unique_by=lambda one: (one.signature, one.location)),
    FILES,
    st.sampled_from(FindingState),
)
def test_a_finding_is_itself(reports: list[Finding], files: Files, state: FindingState) -> None:
    """Reported again as it was, every finding is recognised exactly, in any state and any company."""
    before = known(reports, files, state=state)
    matching = match(before, add_fingerprints(reports, files))
    assert {one.strength for one in matching.matches} <= {Strength.EXACT}
    assert [one.known for one in matching.matches] == [one.id for one in before]


@settings(max_examples=80, deadline=None)
@given(st.lists(REPORTS, min_size=1, max_size=7), FILES, FILES)
def test_a_dismissal_never_covers_another_claim(reports: list[Finding], old: Files, new: Files) -> None:
    """C-05: of another kind and without a word in common, nothing dismissed is ever recognised."""
    before = known(reports, old, state=FindingState.WONT_FIX)
    other = [draft(line, "Unlogged", category=Category.PRODUCT, path=path) for path in PATHS for line in range(1, 13)]
    assert match(before, add_fingerprints(other, new)).matches == ()
