"""Calls the hooks of plugins. One that raises where a run depends on it stops the run; a listener never does."""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any

import pluggy

from pipeline.engine.context import Context
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.ports import Concluded, Conclusion, PluginFailed
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.plugins import ENTRY_POINTS, hooks
from pipeline.plugins.results import RESULTS
from pipeline.redaction import PATTERNS_ONLY, Redactor

_HELP = "fix or uninstall the plugin"
_HOOKS = sorted(name for name, value in vars(hooks).items() if hasattr(value, f"{hooks.PROJECT}_spec"))


class PluginError(AwfError):
    """A plugin breaks the contract."""


class PluginManager:
    """The plugins of a program and the listeners of a run.

    A hook that is called during a run raises PluginFailed if a plugin raises or returns something unusable. One that is
    called before it raises PluginError; of two contributions with the same name, the later plugin's counts.
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

    def call(self, hook: str, **given: Any) -> None:
        """Call a hook for what its plugins do."""
        for plugin in self._implementations(hook):
            _items(plugin, hook, given)

    def first(self, hook: str, **given: Any) -> Any:
        """Return the result of the latest plugin that has one; None if no plugin has."""
        results = [_items(plugin, hook, given) for plugin in self._implementations(hook)]
        return next((items[0] for items in reversed(results) if items), None)

    def collect(self, hook: str, **given: Any) -> list[Any]:
        """Return the results of all plugins in the order of registration; those of a mapping are its pairs."""
        try:
            return [item for plugin in self._implementations(hook) for item in _items(plugin, hook, given)]
        except PluginFailed as error:
            if not RESULTS[hook].contributes:
                raise
            raise PluginError(error.message, help=_HELP) from error

    def conclude(self, visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion:
        """Return what all plugins make of visits. Each sees the outcomes as the earlier ones amended them."""
        whole, stages = Conclusion(), {one.stage.id for one in visits}
        for plugin in self._implementations("conclude"):
            given = {"visits": whole.amend(visits), "context": context, "state": state, "at": at}
            for conclusion in _items(plugin, "conclude", given):
                if unknown := conclusion.outcomes.keys() - stages:
                    error = ValueError(f"it amended the outcome of {next(iter(unknown))!r:.80}, which was not visited")
                    raise PluginFailed(plugin.plugin_name, "conclude", error)
                whole = whole.followed_by(conclusion)
        return whole

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


def _items(plugin: pluggy.HookImpl, hook: str, given: Mapping[str, Any]) -> list[Any]:
    """Call one plugin; return what it returned as a list. A hook without results has none."""
    name, result = plugin.plugin_name, RESULTS.get(hook)
    try:
        returned = plugin.function(*(given[argument] for argument in plugin.argnames))
        items = result.read(returned) if result else []
    except (Exception, SystemExit) as error:  # of a generator, too
        raise PluginFailed(name, hook, error) from error
    if hook == "expression_functions":  # conditions call them later
        return [(called, _guard(name, function)) for called, function in items]
    return items


def _guard(plugin: str, function: ExpressionFunction) -> ExpressionFunction:
    def call(context: Context, argument: str | None) -> object:
        try:
            return function(context, argument)
        except (Exception, SystemExit) as error:
            raise PluginFailed(plugin, "expression_functions", error) from error

    return call
