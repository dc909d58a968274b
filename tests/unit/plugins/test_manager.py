"""Plugins that break the contract: a run that depends on one stops and names it; a listener stops nothing."""

import inspect
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pipeline.plugins
from pipeline.engine.context import EMPTY
from pipeline.engine.ports import PluginFailed
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.plugins import Assessment, Event, EventKind, Hold, Job, Outcome, Set, Status, Worklist, hookimpl, hooks
from pipeline.plugins.manager import PluginError, PluginManager

SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="tool" command="x"\nstage "end" kind="exit"\n}\n'
STATE = begin(RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, cwd="/", version="0"))
STAGE = STATE.workflow.stage("a")
JOB = Job(STAGE, 1, 1, STATE, Path("/store"), lambda _: None, lambda _: None)
CONTRIBUTED: dict[str, Callable[[PluginManager], object]] = {
    "stage_handlers": PluginManager.stage_handlers,
    "agent_backends": PluginManager.agent_backends,
    "trackers": PluginManager.trackers,
    "workflow_rules": PluginManager.workflow_rules,
    "expression_functions": PluginManager.expression_functions,
}
DURING_A_RUN: dict[str, Callable[[PluginManager], object]] = {
    "before_stage": lambda plugins: plugins.before_stage(STAGE, 1, STATE),
    "after_stage": lambda plugins: plugins.after_stage(
        STAGE, 1, Outcome(status=Status.SUCCESS), STATE.context, STATE, 0.0
    ),
    "after_branch": lambda plugins: plugins.after_branch(STAGE, 1, Outcome(status=Status.SUCCESS), STATE),
    "after_commit": lambda plugins: plugins.after_commit(),
    "commit_events": lambda plugins: plugins.commit_events(EMPTY, STATE.context),
    "on_resume": lambda plugins: plugins.on_resume(STATE),
    "read_answer": lambda plugins: plugins.read_answer(JOB, ["Fine."]),
    "read_report": lambda plugins: plugins.read_report(JOB, Path("/report")),
    "stage_variables": lambda plugins: plugins.stage_variables(JOB),
    "summary_sections": lambda plugins: plugins.summary_sections(JOB),
    "worklist": lambda plugins: plugins.worklist(JOB),
}
WITHOUT_RESULT = ("before_stage", "after_commit", "on_resume")


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


@pytest.mark.parametrize("rubbish", [42, "abc", [1, None], [Set("k", object())], {"tool": 3}.items()])
@pytest.mark.parametrize("hook", [hook for hook in DURING_A_RUN if hook not in WITHOUT_RESULT])
def test_rubbish_is_an_error_that_names_its_hook(hook: str, rubbish: object) -> None:
    """What a hook may not return gets into no record, no prompt and no environment."""
    with pytest.raises(PluginFailed) as failed:
        DURING_A_RUN[hook](manager(plugin(hook, lambda: rubbish)))
    assert (failed.value.plugin, failed.value.hook) == ("plugin-1", hook)


@pytest.mark.parametrize("hook", WITHOUT_RESULT)
def test_what_a_hook_without_result_returns_is_ignored(hook: str) -> None:
    """It has done its work, whatever its last expression is."""
    DURING_A_RUN[hook](manager(plugin(hook, lambda: 42)))


def test_every_plugin_adds_to_a_stage() -> None:
    """In the order of registration; a pause is an operation like any other."""
    first = plugin("after_stage", lambda: [Set("one", 1), Hold("look first")])
    second = plugin("after_stage", lambda: (Set("two", number) for number in (2,)))
    added = DURING_A_RUN["after_stage"](manager(first, plugin("after_stage", lambda: None), second))
    assert added == (Set("one", 1), Set("run.hold", "look first"), Set("two", 2))


def test_the_latest_plugin_that_can_read_an_answer_counts() -> None:
    """One that cannot read it returns None; a report that nobody can read is a problem."""
    good = plugin("read_answer", lambda: Assessment(Status.SUCCESS))
    bad = plugin("read_answer", lambda: Assessment(Status.FAIL))
    silent = plugin("read_answer", lambda: None)
    assert manager(good, bad, silent).read_answer(JOB, ["Fine."]) == Assessment(Status.FAIL)
    assert manager(silent).read_answer(JOB, ["Fine."]) is None
    assert manager(silent).read_report(JOB, Path("/report")).problem


def test_without_a_plugin_there_is_nothing_to_do() -> None:
    """An empty worklist, no sections, no variables, no functions, no events."""
    plugins = manager()
    assert (plugins.worklist(JOB).render(100), plugins.worklist(JOB).path) == ("", "")
    assert (plugins.summary_sections(JOB), plugins.stage_variables(JOB), plugins.expression_functions()) == ((), {}, {})
    assert list(plugins.commit_events(EMPTY, STATE.context)) == []


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
    with pytest.raises(PluginError, match=f'plugin "plugin-1" failed in {hook}') as refused:
        CONTRIBUTED[hook](manager(plugin(hook, does)))
    assert refused.value.help


@pytest.mark.parametrize("hook", CONTRIBUTED)
def test_a_plugin_may_contribute_nothing(hook: str) -> None:
    """None means nothing."""
    assert not CONTRIBUTED[hook](manager(plugin(hook, lambda: None)))


def test_of_two_handlers_the_later_plugins_counts() -> None:
    """Both may contribute others besides."""
    first, second = SimpleNamespace(run=raises), SimpleNamespace(run=exits)
    one = plugin("stage_handlers", lambda: {"tool": first, "exit": first})
    assert manager(one, plugin("stage_handlers", lambda: {"tool": second})).stage_handlers() == {
        "tool": second,
        "exit": first,
    }


def test_an_expression_function_that_raises_is_an_error_that_names_its_plugin() -> None:
    """A condition without a value must not pass for a false one."""

    def count(*_: object) -> int:
        raise ZeroDivisionError

    functions = manager(plugin("expression_functions", lambda: {"findings": count})).expression_functions()
    with pytest.raises(PluginFailed, match='"plugin-1" failed in expression_functions'):
        functions["findings"](EMPTY, None)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (plugin("after_stge", lambda: None), "after_stge"),
        (SimpleNamespace(on_event=hookimpl(lambda evnt: evnt)), "evnt"),
    ],
)
def test_registration_says_what_is_wrong_with_a_plugin(wrong: object, named: str) -> None:
    """By the name of the plugin and of the hook or argument."""
    with pytest.raises(PluginError, match=rf'plugin "plugin-1" .*{named}') as refused:
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
    assert Worklist in mentioned
