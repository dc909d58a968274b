"""Plugins that break the contract: a run that depends on one stops and names it; a listener stops nothing."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.engine.context import Set
from pipeline.engine.events import Event, EventKind
from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import PluginFailed
from pipeline.engine.records import RunCreated
from pipeline.engine.state import begin
from pipeline.plugins.hooks import hookimpl
from pipeline.plugins.manager import PluginError, PluginManager

SOURCE = 'workflow "W" {\nversion 2\nstart "a"\nstage "a" kind="tool" command="x"\nstage "end" kind="exit"\n}\n'
STATE = begin(RunCreated(at=0.0, run_id="r", file="w", source=SOURCE, cwd="/", version="0"))
STAGE = STATE.workflow.stage("a")
BROUGHT: dict[str, Callable[[PluginManager], object]] = {
    "stage_handlers": PluginManager.handlers,
    "agent_backends": PluginManager.backends,
    "trackers": PluginManager.trackers,
    "workflow_rules": PluginManager.rules,
}


def bad(hook: str, does: Callable[[], Any]) -> SimpleNamespace:
    """A plugin with one hook, which asks for nothing and does that."""
    return SimpleNamespace(**{hook: hookimpl(does)})


def exits() -> None:
    sys.exit(7)


def raises() -> None:
    raise KeyError("gone")


class Run:
    """Stages of a run with a good plugin after a bad one, and what was told of it."""

    def __init__(self, plugin: object) -> None:
        self.told: list[Event] = []
        self.plugins = PluginManager(lambda: 0.0, (self.told.append,))
        self.plugins.register(plugin, "bad")
        good = SimpleNamespace(
            after_stage=hookimpl(lambda: [Set("good", 1)]), summary_sections=hookimpl(lambda: ["A section."])
        )
        self.plugins.register(good, "good")

    def stage(self) -> tuple[object, object]:
        """One stage with all that plugins are asked meanwhile: the operations, and the sections."""
        sections = self.plugins.sections(STAGE, 1, STATE)
        made = self.plugins.operations(STAGE, 1, Outcome(status=Status.SUCCESS), STATE.context, STATE, 0.0)
        self.plugins.before_stage(STAGE, 1, STATE)
        self.plugins.on_resume(STATE)
        self.plugins.after_commit(STATE)
        self.plugins.tell(EventKind.CHECKPOINT_SAVED, STATE, "a", 1)
        return made, sections

    def complaints(self) -> list[tuple[str, str]]:
        failed = [event.data for event in self.told if event.event is EventKind.PLUGIN_FAILED]
        return [(data["plugin"], data["hook"]) for data in failed]


@pytest.mark.parametrize("does", [raises, exits])
@pytest.mark.parametrize("hook", ["before_stage", "after_stage", "after_commit", "on_resume", "summary_sections"])
def test_a_hook_that_raises_is_an_error_that_names_it(hook: str, does: Callable[[], Any]) -> None:
    """The run depends on these hooks: nobody knows what a plugin that raised would have said."""
    with pytest.raises(PluginFailed) as failed:
        Run(bad(hook, does)).stage()
    assert (failed.value.plugin, failed.value.hook) == ("bad", hook)


@pytest.mark.parametrize("does", [raises, exits])
def test_a_plugin_that_only_listens_stops_nothing(does: Callable[[], Any]) -> None:
    """It is reported once, however often it raises; the others are called all the same."""
    run = Run(bad("on_event", does))
    assert {run.stage() for _ in range(3)} == {((Set("good", 1),), ("A section.",))}
    assert run.complaints() == [("bad", "on_event")]


@pytest.mark.parametrize("rubbish", [42, "abc", [1, None], [Set("k", object())], {"tool": 3}.items()])
@pytest.mark.parametrize("hook", ["after_stage", "summary_sections"])
def test_rubbish_is_an_error_that_names_its_hook(hook: str, rubbish: object) -> None:
    """What is neither an operation nor a section gets into no record and no prompt."""
    with pytest.raises(PluginFailed) as failed:
        Run(bad(hook, lambda: rubbish)).stage()
    assert (failed.value.plugin, failed.value.hook) == ("bad", hook)


@pytest.mark.parametrize("hook", ["after_commit", "on_resume", "on_event"])
def test_what_a_hook_that_gives_nothing_returns_is_no_fault(hook: str) -> None:
    """It has done its work, whatever its last line comes to."""
    run = Run(bad(hook, lambda: 42))
    run.stage()
    assert run.complaints() == []


def test_a_listener_that_exits_stops_nothing() -> None:
    """It is told of once, to those that still listen."""
    told: list[Event] = []
    plugins = PluginManager(lambda: 0.0, (lambda _: exits(), told.append))
    for _ in range(2):
        plugins.tell(EventKind.CHECKPOINT_SAVED, STATE, "a", 1)
    assert [event.event for event in told].count(EventKind.PLUGIN_FAILED) == 1


@pytest.mark.parametrize("does", [raises, exits, lambda: 42, lambda: "abc", lambda: [1], lambda: {"tool": 3}])
@pytest.mark.parametrize("hook", BROUGHT)
def test_a_plugin_that_does_not_bring_what_it_offers_is_refused(hook: str, does: Callable[[], Any]) -> None:
    """Before a run begins, by its name and that of the hook: without it the run would be another."""
    plugins = PluginManager(lambda: 0.0)
    plugins.register(bad(hook, does), "mine")
    with pytest.raises(PluginError, match=f'plugin "mine" cannot be used: its hook "{hook}" (raised|gave) ') as refused:
        BROUGHT[hook](plugins)
    assert refused.value.help


@pytest.mark.parametrize("hook", BROUGHT)
def test_a_plugin_may_bring_nothing(hook: str) -> None:
    """None is nothing."""
    plugins = PluginManager(lambda: 0.0)
    plugins.register(bad(hook, lambda: None), "mine")
    assert not BROUGHT[hook](plugins)


def test_of_two_handlers_the_later_plugin_has_its_way() -> None:
    """And both may bring others besides."""
    plugins = PluginManager(lambda: 0.0)
    first, second = SimpleNamespace(run=raises), SimpleNamespace(run=exits)
    plugins.register(bad("stage_handlers", lambda: {"tool": first, "exit": first}), "first")
    plugins.register(bad("stage_handlers", lambda: {"tool": second}), "second")
    assert plugins.handlers() == {"tool": second, "exit": first}
