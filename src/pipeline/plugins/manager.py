"""Calls plugins one by one. Where a run depends on a plugin, one that raises stops it; a listener never does."""

from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from pipeline.engine.context import Context, Operation, is_operation
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.outcome import LedgerLine, Outcome
from pipeline.engine.ports import Backend, Handler, PluginFailed
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.language.diagnostics import Rule
from pipeline.language.model import BaseStage, StageKind
from pipeline.plugins import ENTRY_POINTS, hooks
from pipeline.redaction import PATTERNS_ONLY, Redactor

_GIVING = ("after_stage", "after_branch", "summary_sections")  # the hooks whose results are used during a run


def _is_pair(part: Any) -> bool:
    return isinstance(part, tuple) and len(part) == 2


_BROUGHT: dict[str, tuple[str, Callable[[Any], bool]]] = {  # before a run: what each thing has to be
    "stage_handlers": (
        "a kind of stage with a handler",
        lambda part: _is_pair(part) and part[0] in list(StageKind) and callable(getattr(part[1], "run", None)),
    ),
    "agent_backends": ("a backend", lambda part: all(hasattr(part, name) for name in ("name", "variables", "run"))),
    "trackers": ("a name with what opens it", lambda part: _is_pair(part) and callable(part[1])),
    "workflow_rules": ("a rule", lambda part: isinstance(part, Rule)),
}


class PluginError(AwfError):
    """A plugin does not keep to the contract."""


def _loaded(entry: EntryPoint) -> object:
    try:
        plugin: object = entry.load()
    except (Exception, SystemExit) as error:  # a package may raise anything while it is imported
        words = f'the installed plugin "{entry.name}" ({entry.value}) cannot be loaded: {type(error).__name__}: {error}'
        raise PluginError(words, help="mend the package that brings it, or uninstall it") from error
    return plugin


def _refused(name: str, hook: str, words: str) -> PluginError:
    help = "mend the package that brings it, or uninstall it"
    return PluginError(f'plugin "{name}" cannot be used: its hook "{hook}" {words}', help=help)


def _several(found: Any) -> list[Any]:
    if isinstance(found, str):
        raise TypeError("it gave one text, and a list or a generator is expected")
    return [] if found is None else list(found)


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
            help = "a hook takes any of the arguments that it is given, by their names"
            raise PluginError(f'plugin "{name}" cannot be used: {" ".join(str(error).split())}', help=help) from None

    def load_installed(self) -> None:
        """Take in the plugins that installed packages offer."""
        for entry in entry_points(group=ENTRY_POINTS):
            self.register(_loaded(entry), entry.name)

    def before_stage(self, stage: BaseStage, visit: int, state: State) -> None:
        """Let plugins look at the run before an attempt begins."""
        self._require("before_stage", {"stage": stage, "visit": visit, "state": state})

    def operations(
        self, stage: BaseStage, visit: int, outcome: Outcome, context: Context, state: State, at: float
    ) -> tuple[Operation | LedgerLine, ...]:
        """What plugins add to the context and to the ledger for a stage that is done."""
        given = {"stage": stage, "visit": visit, "outcome": outcome, "context": context, "state": state, "at": at}
        return tuple(self._recordable("after_stage", given, LedgerLine))

    def branch_operations(self, stage: BaseStage, visit: int, outcome: Outcome, state: State) -> tuple[Operation, ...]:
        """What plugins keep of a branch until its parallel stage is joined."""
        given = {"stage": stage, "visit": visit, "outcome": outcome, "state": state}
        return tuple(self._recordable("after_branch", given))

    def _recordable(self, hook: str, given: dict[str, Any], *also: type) -> list[Any]:
        gathered: list[Any] = []
        for name, added in self._require(hook, given):
            wrong = [one for one in added if not isinstance(one, also) and not is_operation(one)]
            if wrong:
                words = f"{wrong[0]!r:.80} is not an operation, or cannot be recorded"
                raise PluginFailed(name, hook, TypeError(words))
            gathered += added
        return gathered

    def after_commit(self, state: State) -> None:
        """Let plugins act on what has been committed."""
        self._require("after_commit", {"run_id": state.run_id})

    def on_resume(self, state: State) -> None:
        """Let plugins put right what a crash left behind."""
        self._require("on_resume", {"run_id": state.run_id})

    def sections(self, stage: BaseStage, visit: int, state: State) -> tuple[str, ...]:
        """What plugins tell an agent about the run."""
        given = {"stage": stage, "visit": visit, "context": state.context, "state": state}
        gathered: list[str] = []
        for name, found in self._require("summary_sections", given):
            wrong = [one for one in found if not isinstance(one, str)]
            if wrong:
                raise PluginFailed(name, "summary_sections", TypeError(f"{wrong[0]!r:.80} is not a text"))
            gathered += found
        return tuple(gathered)

    def handlers(self) -> dict[StageKind, Handler]:
        """The handlers plugins bring, a later plugin's before an earlier one's."""
        gathered: dict[StageKind, Handler] = {}
        for kind, handler in self._brought("stage_handlers"):
            gathered.setdefault(kind, handler)
        return gathered

    def backends(self) -> dict[str, Backend]:
        """The backends plugins bring, by name."""
        return {backend.name: backend for backend in self._brought("agent_backends")}

    def trackers(self) -> dict[str, Callable[..., Any]]:
        """What opens the trackers that plugins bring, by name."""
        return dict(self._brought("trackers"))

    def rules(self) -> tuple[Rule, ...]:
        """The rules plugins bring."""
        return tuple(self._brought("workflow_rules"))

    def tell(self, kind: EventKind, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Let listeners and plugins know what happened, but no secret."""
        self._seq += 1
        if not self._listeners and not self._implementations("on_event"):
            return
        event = Event(kind, state.run_id, self._seq, self._now(), stage, visit, self._redactor.value(data))
        for listener in self._listeners:
            try:
                listener(event)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a listener never stops a run
                self._complain(getattr(listener, "__qualname__", repr(listener)), "listener", state, error)
        for implementation in self._implementations("on_event"):
            try:
                implementation.function(*([event] if implementation.argnames else []))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - nor does a plugin that listens
                self._complain(implementation.plugin_name, "on_event", state, error)

    def _brought(self, hook: str) -> Iterator[Any]:
        """What plugins bring to a run before it begins, the latest plugin's first; of a mapping, its pairs.

        A run without what a plugin was to bring would be another run, so a plugin that fails here is refused.
        """
        expected, is_sound = _BROUGHT[hook]
        for implementation in reversed(self._implementations(hook)):
            name = implementation.plugin_name
            try:
                found: Any = implementation.function()
                parts = _several(found.items() if isinstance(found, Mapping) else found)
            except (Exception, SystemExit) as error:
                raise _refused(name, hook, f"raised {type(error).__name__}: {error}") from error
            for part in parts:
                if not is_sound(part):
                    raise _refused(name, hook, f"gave {part!r:.80}, and {expected} is expected")
                yield part

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Those of one hook, in the order of registration; asked several times a stage."""
        if hook not in self._found:
            self._found[hook] = getattr(self._plugins.hook, hook).get_hookimpls()
        return self._found[hook]

    def _require(self, hook: str, given: dict[str, Any]) -> list[tuple[str, list[Any]]]:
        """The results of one hook, plugin by plugin in the order of registration; PluginFailed when one raises."""
        results: list[tuple[str, list[Any]]] = []
        for implementation in self._implementations(hook):
            arguments = [given[name] for name in implementation.argnames]
            try:
                found: Any = implementation.function(*arguments)
                results.append((implementation.plugin_name, _several(found) if hook in _GIVING else []))
            except (Exception, SystemExit) as error:
                raise PluginFailed(implementation.plugin_name, hook, error) from error
        return results

    def _complain(self, name: str, hook: str, state: State, error: BaseException) -> None:
        """Report once for each listener, to the listeners that still work."""
        if (name, hook) in self._told:
            return
        self._told.add((name, hook))
        words = f"{type(error).__name__}: {error}"
        self.tell(EventKind.PLUGIN_FAILED, state, plugin=name, hook=hook, error=words)
