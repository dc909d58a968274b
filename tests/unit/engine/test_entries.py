"""Lists that share what they have in common."""

from threading import Barrier, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.context import Entries, only_added


@given(st.lists(st.tuples(st.integers(0, 50), st.integers()), max_size=40))
def test_every_list_keeps_what_it_had(steps: list[tuple[int, int]]) -> None:
    """Whichever of the lists so far is gone on from, and however often, none of the others changes."""
    grown: list[Entries] = [Entries([], 0)]
    meant: list[list[int]] = [[]]
    for which, item in steps:
        grown.append(grown[which % len(grown)].plus(item))
        meant.append([*meant[which % len(meant)], item])
    assert [list(entries) for entries in grown] == meant
    assert grown == meant
    assert [len(entries) for entries in grown] == [len(items) for items in meant]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 1)), max_size=20))
def test_what_is_said_to_be_only_added_to_is(steps: list[tuple[int, int]]) -> None:
    """Of any two lists; and one that a single list was made of by adding is known to be so."""
    grown: list[Entries] = [Entries([], 0)]
    for which, item in steps:
        grown.append(grown[which % len(grown)].plus(item))
        assert only_added(grown[0], grown[-1])
    for before in grown:
        assert all(list(after)[: len(before)] == before for after in grown if only_added(before, after))
    alone = Entries([1], 1)
    assert only_added(alone, alone.plus(2).plus(3))
    assert not only_added(alone.plus(2), alone)


@given(st.lists(st.integers(), max_size=6), st.integers(-8, 8), st.slices(6))
def test_it_is_read_as_a_list_is(items: list[int], index: int, part: slice) -> None:
    """By index, by slice, backwards, and beyond its end, whatever others have added."""
    entries = Entries(list(items), len(items))
    entries.plus("another's")
    assert (entries[part], list(reversed(entries)), repr(entries)) == (items[part], items[::-1], repr(items))
    if -len(items) <= index < len(items):
        assert entries[index] == items[index]
    else:
        with pytest.raises(IndexError):
            entries[index]
    assert entries != [*items, 1]
    assert entries != tuple(items)


def test_two_threads_may_go_on_from_one_list() -> None:
    """Neither finds what the other has added."""
    for _ in range(200):
        shared, both, results = Entries([0], 1), Barrier(2), dict[int, Entries]()

        def grow(
            number: int, shared: Entries = shared, both: Barrier = both, results: dict[int, Entries] = results
        ) -> None:
            both.wait()
            results[number] = shared.plus(number)

        threads = [Thread(target=grow, args=(number,)) for number in (1, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [list(results[1]), list(results[2])] == [[0, 1], [0, 2]]
