"""Plugins that break the contract: a run that depends on one stops and names it; a listener stops nothing."""

import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipeline.plugins
from pipeline.engine.context import EMPTY
from pipeline.engine.ports import PluginFailed, merge_briefings
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.errors import AwfError
from pipeline.plugins import (
    Assessment,
    Briefing,
    Concluded,
    Conclusion,
    Event,
    EventKind,
    Hold,
    Job,
    LedgerLine,
    Outcome,
    Set,
    Status,
    Worklist,
    hookimpl,
    hooks,
)
from pipeline.plugins.manager import PluginManager

SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="tool" command="x"\nstage "end" kind="exit"\n}\n'
STATE = begin(RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, cwd="/", version="0"))
STAGE = STATE.workflow.stage("a")
JOB = Job(STAGE, 1, 1, STATE, Path("/store"), lambda _: None, lambda _: None)
DONE = Concluded(STAGE, 1, Outcome(status=Status.SUCCESS))
CONTRIBUTED = ("stage_handlers", "agent_backends", "trackers", "workflow_rules", "expression_functions", "owned")
DURING_A_RUN: dict[str, Callable[[PluginManager], object]] = {
    "before_stage": lambda plugins: plugins.collect("before_stage", stage=STAGE, visit=1, state=STATE),
    "conclude": lambda plugins: plugins.conclude([DONE], STATE.context, STATE, 0.0),
    "committed": lambda plugins: plugins.collect("committed", before=EMPTY, after=STATE.context),
    "brief": lambda plugins: plugins.collect("brief", job=JOB),
    "answer_format": lambda plugins: plugins.first("answer_format", stage=STAGE),
    "read_answer": lambda plugins: plugins.first("read_answer", job=JOB, answers=["Fine."]),
    "read_report": lambda plugins: plugins.first("read_report", job=JOB, report=Path("/report")),
}
WRONG: dict[str, Callable[[], object]] = {
    "a number": lambda: 42,
    "a word among items": lambda: ["abc", 1],
    "nothing among items": lambda: [1, None],
    "no JSON": lambda: [Set("k", object())],
    "odd pairs": lambda: {"tool": object()}.items(),  # noqa: PLW0108 - hooks are functions
    "an operation that cannot be recorded": lambda: Conclusion(operations=[Set("k", object())]),
    "a text for an operation": lambda: Conclusion(operations=["k"]),  # type: ignore[list-item]  # that is what is wrong
    "a text for a line": lambda: Conclusion(lines=["a line"]),  # type: ignore[list-item]  # as above
    "a status for an outcome": lambda: Conclusion({"a": Status.FAIL}),  # type: ignore[dict-item]  # as above
    "an outcome of a stage that was not visited": lambda: Conclusion({"b": DONE.outcome}),
    "a number among sections": lambda: Briefing([1]),  # type: ignore[list-item]  # as above
    "a text for sections": lambda: Briefing("abc"),
    "a number for a variable": lambda: Briefing(variables={"A": 1}),  # type: ignore[dict-item]  # as above
}


def plugin(hook: str, does: Callable[[], Any]) -> SimpleNamespace:
    """A plugin with one hook, which takes no arguments."""
    return SimpleNamespace(**{hook: hookimpl(does)})


def manager(*registered: object) -> PluginManager:
    plugins = PluginManager(lambda: 0.0)
    for number, one in enumerate(registered, start=1):
        plugins.register(one, f"plugin-{number}")
    return plugins


def exits() -> None:
    sys.exit(7)


def raises() -> None:
    raise KeyError("gone")


@pytest.mark.parametrize("does", [raises, exits])
@pytest.mark.parametrize("hook", DURING_A_RUN)
def test_a_hook_that_raises_is_an_error_that_names_it(hook: str, does: Callable[[], Any]) -> None:
    """The run depends on these hooks: nobody knows what a plugin that raised would have said."""
    with pytest.raises(PluginFailed) as failed:
        DURING_A_RUN[hook](manager(plugin(hook, does)))
    assert (failed.value.plugin, failed.value.hook) == ("plugin-1", hook)


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("hook", DURING_A_RUN)
def test_rubbish_is_an_error_that_names_its_hook(hook: str, wrong: Callable[[], object]) -> None:
    """What a hook may not return gets into no record, no prompt and no environment."""
    with pytest.raises(PluginFailed) as failed:
        DURING_A_RUN[hook](manager(plugin(hook, wrong)))
    assert (failed.value.plugin, failed.value.hook) == ("plugin-1", hook)


def test_every_plugin_adds_to_a_visit() -> None:
    """In the order of registration; a pause is an operation like any other."""
    first = plugin("conclude", lambda: Conclusion(operations=[Set("one", 1), Hold("look first")]))
    second = plugin("conclude", lambda: Conclusion(operations=(Set("two", 2),), lines=[LedgerLine("a line")]))
    added = manager(first, plugin("conclude", lambda: None), second).conclude([DONE], EMPTY, STATE, 0.0)
    assert added.operations == (Set("one", 1), Set("run.hold", "look first"), Set("two", 2))
    assert added.lines == (LedgerLine("a line"),)


class Worse:
    """A plugin that gives a visit this status, and keeps the one it saw."""

    def __init__(self, status: Status) -> None:
        self.status = status
        self.seen: Status | None = None

    @hookimpl
    def conclude(self, visits: Sequence[Concluded]) -> Conclusion:
        self.seen = visits[0].outcome.status
        return Conclusion({"a": visits[0].outcome.model_copy(update={"status": self.status})})


def test_a_later_plugin_sees_what_an_earlier_one_amended() -> None:
    """And may amend it once more; the last one counts."""
    first, second = Worse(Status.PARTIAL_SUCCESS), Worse(Status.FAIL)
    concluded = manager(first, second).conclude([DONE], EMPTY, STATE, 0.0)
    assert (first.seen, second.seen) == (Status.SUCCESS, Status.PARTIAL_SUCCESS)
    assert concluded.outcomes["a"].status is Status.FAIL


def test_the_latest_plugin_that_can_read_an_answer_counts() -> None:
    """One that cannot read it returns None."""
    good = plugin("read_answer", lambda: Assessment(Status.SUCCESS))
    bad = plugin("read_answer", lambda: Assessment(Status.FAIL))
    silent = plugin("read_answer", lambda: None)
    assert DURING_A_RUN["read_answer"](manager(good, bad, silent)) == Assessment(Status.FAIL)
    assert DURING_A_RUN["read_answer"](manager(silent)) is None


def test_of_two_briefings_the_later_plugins_worklist_and_variables_count() -> None:
    """The sections of both are shown."""
    first = Briefing(["one"], Worklist(lambda _: "first"), {"A": "1", "B": "1"})
    second = Briefing(["two"], Worklist(lambda _: "second"), {"B": "2"})
    merged = merge_briefings([first, second, Briefing()])
    assert (merged.sections, merged.variables) == (["one", "two"], {"A": "1", "B": "2"})
    assert merged.worklist is second.worklist
    assert merge_briefings([]).worklist is None


def test_without_a_plugin_there_is_nothing() -> None:
    """No results and no conclusion."""
    assert [manager().collect(hook) for hook in CONTRIBUTED] == [[]] * len(CONTRIBUTED)
    assert manager().conclude([DONE], EMPTY, STATE, 0.0) == Conclusion()


@pytest.mark.parametrize("does", [raises, exits])
def test_a_plugin_that_only_listens_stops_nothing(does: Callable[[], Any]) -> None:
    """It is reported once, however often it raises; the others hear everything."""
    heard: list[Event] = []
    plugins = PluginManager(lambda: 0.0, (lambda _: does(), heard.append))
    plugins.register(plugin("on_event", does), "bad")
    for _ in range(3):
        plugins.emit(EventKind.CHECKPOINT_SAVED, STATE, "a", 1)
    kinds = [event.event for event in heard]
    assert (kinds.count(EventKind.CHECKPOINT_SAVED), kinds.count(EventKind.PLUGIN_FAILED)) == (3, 2)
    assert [event.seq for event in sorted(heard, key=lambda event: event.seq)] == list(range(1, len(heard) + 1))


@pytest.mark.parametrize("does", [raises, exits, lambda: 42, lambda: "abc", lambda: [1], lambda: {"tool": 3}])
@pytest.mark.parametrize("hook", CONTRIBUTED)
def test_a_plugin_that_does_not_contribute_what_it_offers_is_refused(hook: str, does: Callable[[], Any]) -> None:
    """Before a run starts, by its name and that of the hook: without it the run would be a different one."""
    with pytest.raises(PluginFailed, match=f'plugin "plugin-1" failed in {hook}') as refused:
        manager(plugin(hook, does)).collect(hook)
    assert refused.value.help


@pytest.mark.parametrize("hook", CONTRIBUTED)
def test_a_plugin_may_contribute_nothing(hook: str) -> None:
    """None means nothing."""
    assert manager(plugin(hook, lambda: None)).collect(hook) == []


def test_an_expression_function_that_raises_is_an_error_that_names_its_plugin() -> None:
    """A condition without a value must not pass for a false one."""

    def count(*_: object) -> int:
        raise ZeroDivisionError

    functions = dict(
        manager(plugin("expression_functions", lambda: {"findings": count})).collect("expression_functions")
    )
    with pytest.raises(PluginFailed, match='"plugin-1" failed in expression_functions'):
        functions["findings"](EMPTY, None)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (plugin("conclde", lambda: None), "conclde"),
        (SimpleNamespace(on_event=hookimpl(lambda evnt: evnt)), "evnt"),
    ],
)
def test_registration_says_what_is_wrong_with_a_plugin(wrong: object, named: str) -> None:
    """By the name of the plugin and of the hook or argument."""
    with pytest.raises(AwfError, match=rf'plugin "plugin-1" .*{named}') as refused:
        manager(wrong)
    assert refused.value.help


def test_the_package_exports_every_type_that_a_hook_mentions() -> None:
    """A plugin needs no other import."""
    names = [name for name in vars(hooks) if hasattr(getattr(hooks, name), "awf_spec")]
    mentioned: set[type] = set()

    def collect(hint: Any) -> None:
        if inspect.isclass(hint) and hint.__module__.startswith("pipeline."):
            mentioned.add(hint)
        for part in typing.get_args(hint):
            collect(part)

    for name in names:
        for hint in typing.get_type_hints(getattr(hooks, name)).values():
            collect(hint)
    assert {kind.__name__ for kind in mentioned} <= set(pipeline.plugins.__all__)
    assert Conclusion in mentioned
