"""The parts of a summary, in any number of characters."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline.summary.parts import prose, quoted, section
from pipeline.text.budget import Part

TEXT = st.text("ab`~\n ", min_size=1, max_size=400).filter(str.strip)
PARTS = st.one_of(TEXT.map(Part), TEXT.map(lambda text: quoted("- k:", text)), TEXT.map(prose))
SECTIONS = st.builds(
    lambda parts, last: section("## S", parts, things="things", newest_last=last),
    st.lists(PARTS, min_size=1, max_size=30),
    st.booleans(),
)


@given(st.one_of(PARTS, SECTIONS), st.integers(-10, 3_000))
def test_a_part_stays_within_its_room(part: Part, room: int) -> None:
    """It is complete if it fits, and never too long."""
    text = part.within(room)
    assert len(text) <= max(room, 0)
    assert (text == part.longest) == (len(part.longest) <= room)


def test_a_cut_is_stated() -> None:
    """The note gives the exact number of missing characters."""
    text = quoted("- k:", "x" * 10_000).within(200)
    assert f"[cut: {10_000 - text.count('x'):,} more characters]" in text
    assert 190 <= len(text) <= 200


def test_entries_that_do_not_fit_are_counted() -> None:
    """The last are dropped, or the oldest if the newest are last."""
    parts = [Part(f"- entry {number:03}") for number in range(500)]
    first = section("## S", parts, things="entries").within(200)
    assert first.startswith("## S\n\n- entry 000\n- entry 001\n")
    assert first.endswith(f"\n[cut: {500 - first.count('- entry')} more entries]")
    last = section("## S", parts, things="entries", newest_last=True).within(200)
    assert last.startswith(f"## S\n\n[cut: {500 - last.count('- entry')} more entries]\n")
    assert last.endswith("- entry 498\n- entry 499")
