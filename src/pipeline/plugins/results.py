"""What each hook must return. Anything else gets into no record, no prompt and no environment."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.engine.context import Operation, check_json, is_operation
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import Assessment, Briefing, Conclusion, LedgerLine, Owned, Worklist
from pipeline.language.diagnostics import Rule
from pipeline.language.model import StageKind


def _are(kind: type, values: Any) -> bool:
    is_list = isinstance(values, Sequence) and not isinstance(values, str)
    return is_list and all(isinstance(value, kind) for value in values)


def _is_named(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)


def _is_named_function(value: Any) -> bool:
    return _is_named(value) and callable(value[1])


def _is_named_data(value: Any) -> bool:
    if not _is_named(value):
        return False
    try:
        check_json(value[1])
    except (TypeError, RecursionError):  # the second for a value that contains itself
        return False
    return True


def _is_event(value: Any) -> bool:
    return _is_named(value) and isinstance(value[1], Mapping)


def _is_handler(value: Any) -> bool:
    return _is_named(value) and value[0] in list(StageKind) and hasattr(value[1], "run")


def _is_backend(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("name", "variables", "run"))


def _is_briefing(value: Any) -> bool:
    if not (isinstance(value, Briefing) and isinstance(value.variables, Mapping)):
        return False
    variables = [*value.variables, *value.variables.values()]
    return _are(str, value.sections) and _are(str, variables) and isinstance(value.worklist, Worklist | None)


def _is_owned(value: Any) -> bool:
    return isinstance(value, Owned) and _are(str, value.context_keys) and _are(str, value.files)


def _is_conclusion(value: Any) -> bool:
    if not (isinstance(value, Conclusion) and isinstance(value.outcomes, Mapping)):
        return False
    if not (_are(Operation, value.operations) and all(map(is_operation, value.operations))):
        return False
    return _are(Outcome, [*value.outcomes.values()]) and _are(LedgerLine, value.lines)


@dataclass(frozen=True, slots=True)
class Result:
    """What a hook must return: one thing, or several."""

    expected: str
    is_valid: Callable[[Any], bool]
    several: bool = True
    contributes: bool = False  # before a run: without what it returns the run would be a different one

    def read(self, returned: Any) -> list[Any]:
        """Return what a plugin returned as a list, empty for None, or raise TypeError."""
        if returned is None:
            return []
        if not self.several:
            items = [returned]
        elif isinstance(returned, str):
            raise TypeError("it returned a string instead of a list")
        else:
            items = list(returned.items() if isinstance(returned, Mapping) else returned)
        for item in items:
            if not self.is_valid(item):
                raise TypeError(f"it returned {item!r:.80}, which is not {self.expected}")
        return items


RESULTS = {
    "before_stage": Result("a name with plain data", _is_named_data),
    "conclude": Result("a conclusion", _is_conclusion, several=False),
    "committed": Result("a kind with data", _is_event),
    "brief": Result("a briefing", _is_briefing, several=False),
    "answer_format": Result("a string", lambda value: isinstance(value, str), several=False),
    "read_answer": Result("an assessment", lambda value: isinstance(value, Assessment), several=False),
    "read_report": Result("an assessment", lambda value: isinstance(value, Assessment), several=False),
    "objection": Result("a string", lambda value: isinstance(value, str), several=False),
    "expression_functions": Result("a name with a function", _is_named_function, contributes=True),
    "stage_handlers": Result("a stage kind with a handler", _is_handler, contributes=True),
    "agent_backends": Result("a backend", _is_backend, contributes=True),
    "trackers": Result("a name with a function", _is_named_function, contributes=True),
    "workflow_rules": Result("a rule", lambda value: isinstance(value, Rule), contributes=True),
    "owned": Result("what it owns", _is_owned, several=False, contributes=True),
}
