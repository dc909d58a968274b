"""Calls the hooks of plugins. One that raises where a run depends on it stops the run; a listener never does.

What a hook may return is its annotation in `hooks`: anything else gets into no record, no prompt and no environment.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import entry_points
from typing import Any

import pluggy
from pydantic import ConfigDict, TypeAdapter, ValidationError

from pipeline.engine.context import Context
from pipeline.engine.events import Event, EventKind, Listener
from pipeline.engine.ports import Concluded, Conclusion, PluginFailed
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.errors import AwfError
from pipeline.plugins import ENTRY_POINTS, hooks
from pipeline.redaction import PATTERNS_ONLY, Redactor


class PluginManager:
    """The plugins of a program and the listeners of a run.

    Every method but `emit` raises PluginFailed if a plugin raises or returns something unusable.
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
        """Add a plugin, or raise AwfError that says which of its hooks is wrong."""
        try:
            self._plugins.register(plugin, name)
            self._plugins.check_pending()  # raises for a hook that does not exist
        except (pluggy.PluginValidationError, ValueError) as error:
            help = "the hooks are those of docs/plugins.md; each may take only its own arguments, by name"
            raise AwfError(f'plugin "{name}" cannot be used: {" ".join(str(error).split())}', help=help) from None

    def load_installed(self) -> None:
        """Register the plugins of installed packages."""
        for entry in entry_points(group=ENTRY_POINTS):
            try:
                plugin: object = entry.load()
            except (Exception, SystemExit) as error:  # a package may raise anything while it is imported
                message = f'plugin "{entry.name}" ({entry.value}) cannot be loaded: {type(error).__name__}: {error}'
                raise AwfError(message, help="fix or remove the plugin") from error
            self.register(plugin, entry.name)

    def first(self, hook: str, **given: Any) -> Any:
        """Return the result of the latest plugin that has one; None if no plugin has."""
        results = [_call(plugin, hook, given) for plugin in self._implementations(hook)]
        return next((result for result in reversed(results) if result is not None), None)

    def collect(self, hook: str, **given: Any) -> list[Any]:
        """Return the results of all plugins, lists item by item and mappings as pairs, in the order of registration."""
        collected = list[Any]()
        for plugin in self._implementations(hook):
            result = _call(plugin, hook, given)
            if isinstance(result, Mapping):
                collected += result.items()
            elif isinstance(result, Sequence):
                collected += result
            elif result is not None:
                collected.append(result)
        return collected

    def conclude(self, visits: Sequence[Concluded], context: Context, state: State, at: float) -> Conclusion:
        """Return what all plugins make of visits. Each sees the outcomes as the earlier ones amended them."""
        whole, stages = Conclusion(), {one.stage.id for one in visits}
        for plugin in self._implementations("conclude"):
            given = {"visits": whole.amend(visits), "context": context, "state": state, "at": at}
            conclusion = _call(plugin, "conclude", given) or Conclusion()
            if unknown := conclusion.outcomes.keys() - stages:
                error = ValueError(f"it amended the outcome of {next(iter(unknown))!r:.80}, which was not visited")
                raise PluginFailed(plugin.plugin_name, "conclude", error)
            whole = whole.followed_by(conclusion)
        return whole

    def emit(self, kind: str, state: State, stage: str = "", visit: int = 0, **data: Any) -> None:
        """Tell listeners and plugins about an event, without secrets. One that raises is reported once."""
        self._seq += 1
        event = Event(kind, state.run_id, self._seq, self._now(), stage, visit, self._redactor.value(data))
        for listener in self._listeners:
            name = getattr(listener, "__qualname__", repr(listener))
            self._tell(name, "listener", partial(listener, event), state)
        for plugin in self._implementations("on_event"):
            given = [event for _ in plugin.argnames]
            self._tell(plugin.plugin_name, "on_event", partial(plugin.function, *given), state)

    def _tell(self, name: str, hook: str, listen: Callable[[], object], state: State) -> None:
        """Call a listener, which never stops a run."""
        try:
            listen()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it raises
            if (name, hook) not in self._reported:
                self._reported.add((name, hook))
                cause = f"{type(error).__name__}: {error}"
                self.emit(EventKind.PLUGIN_FAILED, state, plugin=name, hook=hook, error=cause)

    def _implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Return the implementations of a hook in the order of registration."""
        return getattr(self._plugins.hook, hook).get_hookimpls()  # type: ignore[no-any-return]  # pluggy looks hooks up by name


@cache
def _result_type(hook: str) -> TypeAdapter[Any]:
    """Return what checks the results of a hook; it is made when a plugin first implements the hook."""
    annotation = typing.get_type_hints(getattr(hooks, hook), include_extras=True)["return"]
    return TypeAdapter(annotation | None, config=ConfigDict(arbitrary_types_allowed=True, strict=True))


def _call(plugin: pluggy.HookImpl, hook: str, given: Mapping[str, Any]) -> Any:
    """Call one plugin, and return what it returned."""
    name = plugin.plugin_name
    try:
        result = _result_type(hook).validate_python(plugin.function(*(given[word] for word in plugin.argnames)))
    except ValidationError as error:
        first = error.errors()[0]
        raise PluginFailed(name, hook, TypeError(f"it returned {first['input']!r:.80}: {first['msg']}")) from error
    except (Exception, SystemExit) as error:
        raise PluginFailed(name, hook, error) from error
    if hook == "expression_functions" and result:  # conditions call them later
        return {called: _guard(name, function) for called, function in result.items()}
    return result


def _guard(plugin: str, function: ExpressionFunction) -> ExpressionFunction:
    def call(context: Context, argument: str | None) -> object:
        try:
            return function(context, argument)
        except (Exception, SystemExit) as error:
            raise PluginFailed(plugin, "expression_functions", error) from error

    return call
