"""Calls the hooks of plugins. One that raises where a run depends on it stops the run; a listener never does."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggy

from pipeline.engine.context import Context, Operation, is_operation
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Assessment, Backend, Handler, Job, LedgerLine, PluginFailed, Worklist
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.language.diagnostics import Rule
from pipeline.language.model import BaseStage, StageKind
from pipeline.plugins import ENTRY_POINTS, hooks
from pipeline.redaction import PATTERNS_ONLY, Redactor

_HELP = "fix or uninstall the plugin"


def _is_pair(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


# What each hook that returns several things must return, in words and as a check.
_ITEMS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "after_stage": ("an operation or a ledger line", lambda item: isinstance(item, LedgerLine) or is_operation(item)),
    "after_branch": ("an operation", is_operation),
    "commit_events": ("a kind with data", lambda item: _is_pair(item) and isinstance(item[1], Mapping)),
    "stage_variables": ("a name with a string", lambda item: _is_pair(item) and isinstance(item[1], str)),
    "summary_sections": ("a string", lambda item: isinstance(item, str)),
    "expression_functions": ("a name with a function", lambda item: _is_pair(item) and callable(item[1])),
    "stage_handlers": (
        "a stage kind with a handler",
        lambda item: _is_pair(item) and item[0] in list(StageKind) and hasattr(item[1], "run"),
    ),
    "agent_backends": ("a backend", lambda item: all(hasattr(item, name) for name in ("name", "variables", "run"))),
    "trackers": ("a name with a function", lambda item: _is_pair(item) and callable(item[1])),
    "workflow_rules": ("a rule", lambda item: isinstance(item, Rule)),
}
_HOOKS = sorted(name for name, value in vars(hooks).items() if hasattr(value, f"{hooks.PROJECT}_spec"))


class PluginError(AwfError):
    """A plugin breaks the contract."""


class PluginManager:
    """The plugins of a program and the listeners of a run.

    The methods are named after the hooks they call. Those used during a run raise PluginFailed if a plugin raises or
    returns something unusable. Those used before it raise PluginError, since without what a plugin was to contribute
    the run would be a different one; of two contributions with the same name, the later plugin's counts.
    """

    def __init__(
        self, now: Callable[[], float], listeners: tuple[Listener, ...] = (), redactor: Redactor = PATTERNS_ONLY
    ) -> None:
        self._plugins = pluggy.PluginManager(hooks.PROJECT)
        self._plugins.add_hookspecs(hooks)
        self._now = now
        self._listeners = listeners
        self._redactor = redactor
        self._reported: set[tuple[str, str]] = set()  # the plugins and listeners whose failure was emitted
        self._seq = 0

    def register(self, plugin: object, name: str) -> None:
        """Add a plugin, or raise PluginError that says which of its hooks is wrong."""
        for attribute in dir(plugin):
            marked = hasattr(getattr(plugin, attribute, None), f"{hooks.PROJECT}_impl")
            if marked and attribute not in _HOOKS:
                message = f'plugin "{name}" implements "{attribute}", which is not a hook'
                raise PluginError(message, help=f"the hooks are {', '.join(_HOOKS)}")
        try:
            self._plugins.register(plugin, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            help = "a hook may take only the arguments of its specification, by name"
            raise PluginError(f'plugin "{name}" cannot be used: {" ".join(str(error).split())}', help=help) from None

    def load_installed(self) -> None:
        """Register the plugins of installed packages."""
        for entry in entry_points(group=ENTRY_POINTS):
            try:
                plugin: object = entry.load()
            except (Exception, SystemExit) as error:  # a package may raise anything while it is imported
                message = f'plugin "{entry.name}" ({entry.value}) cannot be loaded: {type(error).__name__}: {error}'
                raise PluginError(message, help=_HELP) from error
            self.register(plugin, entry.name)

    def before_stage(self, stage: BaseStage, visit: int, state: State) -> None:
        """Show plugins the run before an attempt starts."""
        self._call("before_stage", stage=stage, visit=visit, state=state)

    def after_stage(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> tuple[Operation | LedgerLine, ...]:
        """Return what plugins add to the context and the ledger for a completed stage."""
        given = {"stage": stage, "visit": visit, "outcome": outcome, "context": context, "state": state, "at": at}
        return tuple(self._collect("after_stage", **given))

    def after_branch(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> tuple[Operation, ...]:
        """Return what plugins keep of a branch until its parallel stage is joined."""
        given = {"stage": stage, "visit": visit, "outcome": outcome, "state": state}
        return tuple(self._collect("after_branch", **given))

    def after_commit(self) -> None:
        """Let plugins act on what has been committed."""
        self._call("after_commit")

    def commit_events(self, before: Context, after: Context) -> Iterable[tuple[str, Mapping[str, Any]]]:
        """Return the events of plugins about a commit."""
        return self._collect("commit_events", before=before, after=after)

    def on_resume(self, state: State) -> None:
        """Let plugins repair what a crash left behind."""
        self._call("on_resume", run_id=state.run_id)

    def answer_format(self, stage: BaseStage) -> str:
        """Return what a plugin tells an agent about the form of its answer; nothing if none does."""
        return self._first("answer_format", str, stage=stage) or ""

    def read_answer(self, job: Job, answers: Sequence[str]) -> Assessment | None:
        """Return what the answers of a review say; None if no plugin can read them."""
        found: Assessment | None = self._first("read_answer", Assessment, job=job, answers=answers)
        return found

    def second_look(self, job: Job, outcome: Outcome) -> str:
        """Return what a review is asked once more before its outcome counts; nothing if no plugin asks."""
        return self._first("second_look", str, job=job, outcome=outcome) or ""

    def read_report(self, job: Job, report: Path) -> Assessment:
        """Return what the report of a tool says; a report that no plugin can read is a problem."""
        found = self._first("read_report", Assessment, job=job, report=report)
        return found or Assessment(problem="no loaded plugin reads reports of this format")

    def stage_variables(self, job: Job) -> dict[str, str]:
        """Return the environment variables that plugins give to the command of a tool stage."""
        return dict(self._collect("stage_variables", job=job))

    def summary_sections(self, job: Job) -> tuple[str, ...]:
        """Return the sections that plugins add to an agent's summary."""
        given = {"stage": job.stage, "visit": job.visit, "context": job.context, "state": job.state}
        return tuple(self._collect("summary_sections", **given))

    def worklist(self, job: Job) -> Worklist:
        """Return what is left to do; an empty list if no plugin knows of anything."""
        return self._first("worklist", Worklist, job=job) or Worklist(lambda _: "")

    def expression_functions(self) -> dict[str, ExpressionFunction]:
        """Return the expression functions of plugins by name."""
        return {
            name: _guard(plugin, function) for plugin, (name, function) in self._contributed("expression_functions")
        }

    def stage_handlers(self) -> dict[StageKind, Handler]:
        """Return the handlers of plugins by kind of stage."""
        return dict(item for _, item in self._contributed("stage_handlers"))

    def agent_backends(self) -> dict[str, Backend]:
        """Return the backends of plugins by name."""
        return {backend.name: backend for _, backend in self._contributed("agent_backends")}

    def trackers(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that open the trackers of plugins, by name."""
        return dict(item for _, item in self._contributed("trackers"))

    def workflow_rules(self) -> tuple[Rule, ...]:
        """Return the rules of plugins."""
        return tuple(rule for _, rule in self._contributed("workflow_rules"))

    def emit(self, kind: str, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Tell listeners and plugins about an event, without secrets."""
        self._seq += 1
        event = Event(kind, state.run_id, self._seq, self._now(), stage, visit, self._redactor.value(data))
        for listener in self._listeners:
            try:
                listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a listener never stops a run
                self._report(getattr(listener, "__qualname__", repr(listener)), "listener", state, error)
        for plugin in self._implementations("on_event"):
            try:
                plugin.function(*([event] if plugin.argnames else []))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - nor does a plugin that listens
                self._report(plugin.plugin_name, "on_event", state, error)

    def _report(self, name: str, hook: str, state: State, error: BaseException) -> None:
        """Emit the failure of a listener, once for each."""
        if (name, hook) not in self._reported:
            self._reported.add((name, hook))
            cause = f"{type(error).__name__}: {error}"
            self.emit(EventKind.PLUGIN_FAILED, state, plugin=name, hook=hook, error=cause)

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Return the implementations of a hook in the order of registration."""
        return getattr(self._plugins.hook, hook).get_hookimpls()  # type: ignore[no-any-return]  # pluggy looks hooks up by name

    def _call(self, hook: str, **given: Any) -> list[tuple[str, Any]]:
        """Call a hook; return the results with the names of the plugins."""
        results = []
        for plugin in self._implementations(hook):
            try:
                results.append((plugin.plugin_name, plugin.function(*(given[name] for name in plugin.argnames))))
            except (Exception, SystemExit) as error:
                raise PluginFailed(plugin.plugin_name, hook, error) from error
        return results

    def _first(self, hook: str, kind: type[Any], **given: Any) -> Any:
        """Return the first result of a hook that is not None, the latest plugin's first."""
        for name, result in reversed(self._call(hook, **given)):
            if result is not None:
                if not isinstance(result, kind):
                    raise PluginFailed(name, hook, TypeError(f"it returned {result!r:.80} instead of {kind.__name__}"))
                return result
        return None

    def _items(self, hook: str, **given: Any) -> Iterator[tuple[str, Any]]:
        """Yield the items that plugins return, each with its plugin's name; those of a mapping are its pairs."""
        expected, is_valid = _ITEMS[hook]
        for name, result in self._call(hook, **given):
            if isinstance(result, str):
                raise PluginFailed(name, hook, TypeError("it returned a string instead of a list"))
            try:
                items = list(result.items() if isinstance(result, Mapping) else () if result is None else result)
            except (Exception, SystemExit) as error:  # of a generator
                raise PluginFailed(name, hook, error) from error
            for item in items:
                if not is_valid(item):
                    raise PluginFailed(name, hook, TypeError(f"it returned {item!r:.80}, which is not {expected}"))
                yield name, item

    def _collect(self, hook: str, **given: Any) -> list[Any]:
        return [item for _, item in self._items(hook, **given)]

    def _contributed(self, hook: str) -> list[tuple[str, Any]]:
        """Return what plugins contribute before a run starts, with their names."""
        try:
            return list(self._items(hook))
        except PluginFailed as error:
            raise PluginError(error.message, help=_HELP) from error


def _guard(plugin: str, function: ExpressionFunction) -> ExpressionFunction:
    def call(context: Context, argument: str | None) -> object:
        try:
            return function(context, argument)
        except (Exception, SystemExit) as error:
            raise PluginFailed(plugin, "expression_functions", error) from error

    return call
