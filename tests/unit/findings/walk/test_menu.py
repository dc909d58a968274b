"""What can be chosen: twelve menus in a fixed order, with one option marked in each."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion
from tests.unit.findings.walk.made import ISSUES, LINEAR

from pipeline.findings.trackers.ticket import NO_TRACKER, TrackerStatus
from pipeline.findings.walk.present import (
    GO_OR_NOT,
    RECOMMENDED,
    Action,
    Option,
    OptionKey,
    failed_menu,
    menu,
    offered_action,
    parse_choice,
    routing_question,
)

SINKS = {"named": LINEAR, "generic": ISSUES, "none": NO_TRACKER}
ALL_SINKS = st.builds(
    TrackerStatus, st.sampled_from(("", "Linear")), st.sampled_from(("high", "low")), st.booleans(), st.booleans()
)


def labels(total: int, sinks: TrackerStatus, marked: Action | OptionKey, *, advisory: bool) -> list[str]:
    return [str(option) for option in menu(total, sinks, marked, advisory=advisory)]


def test_002_36_the_twelve_menus(snapshot: SnapshotAssertion) -> None:
    """002-30, 002-33, 002-34, 002-35, 002-36: one or many, with a named, some or no tracker, to fix or to know."""
    shown = {
        f"{total} {name} {'advisory' if advisory else 'actionable'}": labels(
            total, sinks, Action.ACKNOWLEDGE if advisory else Action.APPLY, advisory=advisory
        )
        for total, (name, sinks), advisory in product((8, 1), SINKS.items(), (False, True))
    }
    assert len(shown) == 12
    assert shown == snapshot


def test_002_30_the_labels_and_their_order() -> None:
    """002-30: four labels, to the letter, never in another order."""
    assert labels(8, LINEAR, Action.SKIP, advisory=False) == [
        "Apply the proposed fix",
        "Defer — file a Linear ticket",
        "Skip — don't apply, don't track (recommended)",
        "LFG the rest — apply the agent's best judgment to this and remaining findings",
    ]


@pytest.mark.parametrize(
    ("sinks", "label"),
    [
        (
            TrackerStatus("Linear", "high", named_sink_available=True, any_sink_available=True),
            "Defer — file a Linear ticket",
        ),
        (TrackerStatus("Linear", "low", named_sink_available=True, any_sink_available=True), "Defer — file a ticket"),
        (TrackerStatus("Linear", "high", named_sink_available=False, any_sink_available=True), "Defer — file a ticket"),
        (TrackerStatus("Linear", "high", named_sink_available=True, any_sink_available=False), None),
    ],
)
def test_002_31_a_tracker_is_named_only_when_it_is_sure(sinks: TrackerStatus, label: str | None) -> None:
    """002-31, 002-03: the name needs high confidence and a sink of that name; without any sink there is no option."""
    found = {option.key: option.label for option in menu(8, sinks, Action.APPLY, advisory=False)}
    assert found.get(OptionKey.DEFER) == label


@given(st.integers(1, 9), ALL_SINKS, st.sampled_from((*Action, OptionKey.REST)), st.booleans())
def test_002_32_exactly_one_option_is_marked(
    total: int,
    sinks: TrackerStatus,
    marked: Action | OptionKey,
    advisory: bool,  # noqa: FBT001 - drawn
) -> None:
    """002-32, 002-38: whatever is recommended, one option that is shown carries the mark."""
    shown = labels(total, sinks, marked, advisory=advisory)
    assert sum(label.endswith(RECOMMENDED) for label in shown) == 1


@pytest.mark.parametrize("marked", [Action.APPLY, Action.DEFER, Action.SKIP, OptionKey.REST])
def test_002_32_any_of_the_four_can_be_marked(marked: Action | OptionKey) -> None:
    """002-32: the mark stands on the option that is recommended."""
    options = menu(8, ISSUES, marked, advisory=False)
    assert [option.key for option in options if option.marked] == [str(marked)]


@given(st.integers(1, 9), ALL_SINKS, st.sampled_from(Action), st.booleans())
def test_002_33_acknowledge_is_for_advice_alone(
    total: int,
    sinks: TrackerStatus,
    marked: Action,
    advisory: bool,  # noqa: FBT001 - drawn
) -> None:
    """002-33: it stands in place of Apply, and nowhere else."""
    keys = [option.key for option in menu(total, sinks, marked, advisory=advisory)]
    assert keys[0] == (OptionKey.ACKNOWLEDGE if advisory else OptionKey.APPLY)
    assert (OptionKey.ACKNOWLEDGE in keys, OptionKey.APPLY in keys) == (advisory, not advisory)


@pytest.mark.parametrize(
    ("action", "sinks", "advisory", "shown"),
    [
        (Action.APPLY, LINEAR, True, Action.ACKNOWLEDGE),
        (Action.ACKNOWLEDGE, LINEAR, False, Action.SKIP),
        (Action.DEFER, NO_TRACKER, False, Action.SKIP),
        (Action.DEFER, NO_TRACKER, True, Action.SKIP),
        (Action.DEFER, ISSUES, True, Action.DEFER),
        (Action.APPLY, NO_TRACKER, False, Action.APPLY),
    ],
)
def test_002_38_a_recommendation_is_always_in_the_menu(
    action: Action, sinks: TrackerStatus, shown: Action, *, advisory: bool
) -> None:
    """002-38, C-19: one that is not shown becomes the nearest that is."""
    assert offered_action(action, sinks, advisory=advisory) is shown


@pytest.mark.parametrize(
    ("typed", "key"),
    [
        ("apply", OptionKey.APPLY),
        (" A \n", OptionKey.APPLY),
        ("2", OptionKey.DEFER),
        ("defer — file a linear ticket", OptionKey.DEFER),
        ("Skip — don't apply, don't track (recommended)", OptionKey.SKIP),
        ("LFG the rest", OptionKey.REST),
        ("lfg", OptionKey.REST),
        ("r", OptionKey.REST),
        ("5", None),
        ("", None),
        ("acknowledge", None),
    ],
)
def test_002_39_an_answer_is_a_key_however_it_is_written(typed: str, key: OptionKey | None) -> None:
    """002-39, C-22, 002-30: key, letter, number, long and short label all mean the same option; nothing else does."""
    assert parse_choice(menu(8, LINEAR, Action.SKIP, advisory=False), typed) is key


@pytest.mark.parametrize("options", [menu(8, LINEAR, Action.SKIP, advisory=True), failed_menu("Linear"), GO_OR_NOT])
def test_every_option_has_a_letter_of_its_own(options: tuple[Option, ...]) -> None:
    """C-22: no two options of a question begin with the same letter."""
    assert len({option.key[0] for option in options}) == len(options)


@pytest.mark.parametrize("name", SINKS)
def test_002_70_the_routing_question(name: str, snapshot: SnapshotAssertion) -> None:
    """002-01, 002-70: the question before any finding; without a tracker no tickets are offered, and it says why."""
    stem, options = routing_question(8, SINKS[name])
    assert [stem, *map(str, options)] == snapshot


def test_002_72_the_menu_after_a_failed_ticket() -> None:
    """002-72: three options, the first naming the tracker."""
    assert [option.label for option in failed_menu("Linear")] == [
        "Retry on Linear",
        "Fall back to next sink",
        "Convert to Skip — record the failure",
    ]
