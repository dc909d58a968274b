"""Calls plugins one by one, so that one that raises is told of once and stops nothing."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from pipeline.engine.agent import Backend
from pipeline.engine.bookkeeping import Line
from pipeline.engine.context import Context, Operation, is_operation
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.handler import Handler
from pipeline.engine.outcome import Outcome
from pipeline.engine.redaction import PATTERNS_ONLY, Redactor
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.language.model import BaseStage, StageKind
from pipeline.language.rules.rule import Rule
from pipeline.plugins import ENTRY_POINTS, hooks

_HOOKS = {EventKind.CHECKPOINT_SAVED: "after_commit", EventKind.RUN_RESUMED: "on_resume"}  # more than to be told of


class PluginError(AwfError):
    """A plugin does not keep to the contract."""


def _loaded(entry: EntryPoint) -> object:
    try:
        plugin: object = entry.load()
    except Exception as error:  # a package may raise anything while it is imported
        words = f'the installed plugin "{entry.name}" ({entry.value}) cannot be loaded: {type(error).__name__}: {error}'
        raise PluginError(words, help="mend the package that brings it, or uninstall it") from error
    return plugin


class PluginManager:
    """The plugins of a program and the listeners of a run."""

    def __init__(
        self, now: Callable[[], float], listeners: tuple[Listener, ...] = (), redactor: Redactor = PATTERNS_ONLY
    ) -> None:
        self._plugins = pluggy.PluginManager(hooks.PROJECT)
        self._plugins.add_hookspecs(hooks)
        self._now = now
        self._listeners = listeners
        self._redactor = redactor
        self._told: set[tuple[str, str]] = set()
        self._seq = 0
        self._found: dict[str, list[pluggy.HookImpl]] = {}

    def register(self, plugin: object, name: str) -> None:
        """Take a plugin in, or say which of its hooks is wrong and how."""
        self._found.clear()
        known = {hook for hook in vars(hooks) if hasattr(getattr(hooks, hook), "awf_spec")}
        for attribute in dir(plugin):
            marked = getattr(getattr(plugin, attribute, None), "awf_impl", None)
            if marked is not None and attribute not in known:
                listing = ", ".join(sorted(known))
                raise PluginError(
                    f'plugin "{name}" has a hook "{attribute}", which does not exist', help=f"the hooks are {listing}"
                )
        try:
            self._plugins.register(plugin, name)
        except (pluggy.PluginValidationError, ValueError) as error:
            raise PluginError(f'plugin "{name}" cannot be used: {" ".join(str(error).split())}') from None

    def load_installed(self) -> None:
        """Take in the plugins that installed packages offer."""
        for entry in entry_points(group=ENTRY_POINTS):
            self.register(_loaded(entry), entry.name)

    def operations(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> tuple[Operation | Line, ...]:
        """What plugins add to the context and to the ledger for a stage that is done."""
        given = {"stage": stage, "visit": visit, "outcome": outcome, "context": context, "state": state, "at": at}
        gathered: list[Operation | Line] = []
        for name, added in self._call("after_stage", state, given):
            wrong = [one for one in added if not isinstance(one, Line) and not is_operation(one)]
            if wrong:
                self._complain(name, "after_stage", state, TypeError(f"{wrong[0]!r} is no operation and no line"))
            else:
                gathered += added
        return tuple(gathered)

    def sections(self, stage: BaseStage, visit: int, state: State) -> tuple[str, ...]:
        """What plugins tell an agent about the run."""
        given = {"stage": stage, "visit": visit, "context": state.context, "state": state}
        return tuple(section for _, found in self._call("summary_sections", state, given) for section in found)

    def handlers(self) -> dict[StageKind, Handler]:
        """The handlers plugins bring, a later plugin's before an earlier one's."""
        gathered: dict[StageKind, Handler] = {}
        for found in self._plugins.hook.stage_handlers():
            gathered = {**found, **gathered}
        return gathered

    def backends(self) -> dict[str, Backend]:
        """The backends plugins bring, by name."""
        return {backend.name: backend for found in self._plugins.hook.agent_backends() for backend in found}

    def trackers(self) -> dict[str, Callable[..., Any]]:
        """What opens the trackers that plugins bring, by name."""
        return {name: made for found in self._plugins.hook.trackers() for name, made in found.items()}

    def rules(self) -> tuple[Rule[Any], ...]:
        """The rules plugins bring."""
        return tuple(rule for found in self._plugins.hook.workflow_rules() for rule in found)

    def tell(self, kind: EventKind, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Let listeners and plugins know what happened, but no secret."""
        self._seq += 1
        if hook := _HOOKS.get(kind):
            for _ in self._call(hook, state, {"run_id": state.run_id}):
                pass
        if not self._listeners and not self._implementations("on_event"):
            return
        event = Event(kind, state.run_id, self._seq, self._now(), stage, visit, self._redactor.value(data))
        for listener in self._listeners:
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001 - a listener never stops a run
                self._complain(getattr(listener, "__qualname__", repr(listener)), "listener", state, error)
        for _ in self._call("on_event", state, {"event": event}):
            pass

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Those of one hook, in the order of registration; asked several times a stage."""
        if hook not in self._found:
            self._found[hook] = getattr(self._plugins.hook, hook).get_hookimpls()
        return self._found[hook]

    def _call(self, hook: str, state: State, given: dict[str, Any]) -> Iterator[tuple[str, list[Any]]]:
        """The results of one hook, plugin by plugin in the order of registration."""
        for implementation in self._implementations(hook):
            arguments = [given[name] for name in implementation.argnames]
            try:
                found: Any = implementation.function(*arguments)
                result: list[Any] = list(found) if found is not None else []
            except Exception as error:  # noqa: BLE001 - a plugin never stops a run
                self._complain(implementation.plugin_name, hook, state, error)
            else:
                yield implementation.plugin_name, result

    def _complain(self, name: str, hook: str, state: State, error: Exception) -> None:
        """Tell once for each plugin and hook; the listeners that still listen get to know."""
        if (name, hook) in self._told:
            return
        self._told.add((name, hook))
        words = f"{type(error).__name__}: {error}"
        self.tell(EventKind.PLUGIN_FAILED, state, plugin=name, hook=hook, error=words)
