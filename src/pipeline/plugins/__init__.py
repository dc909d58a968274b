"""The stable surface for plugins: `hookimpl`, and every type that a hook mentions. The hooks are in `hooks`."""

from pipeline.engine.context import Append, Context, Delete, Discard, Hold, Operation, Set
from pipeline.engine.events import Event, EventKind
from pipeline.engine.outcome import ErrorKind, Failure, FailureClass, Outcome, Status, StatusSource, Usage
from pipeline.engine.ports import (
    AgentError,
    AgentEvent,
    AgentQuestion,
    AgentRequest,
    AgentResult,
    AgentSession,
    AgentStatus,
    Assessment,
    Backend,
    Briefing,
    Concluded,
    Conclusion,
    Emit,
    Handler,
    Job,
    LedgerLine,
    Owned,
    PlainData,
    Waiting,
    Worklist,
)
from pipeline.engine.routing import ExpressionFunction
from pipeline.engine.state import State
from pipeline.language.diagnostics import Problem, Rule, error, warning
from pipeline.language.model import BaseStage, LlmStage, StageKind, Workflow
from pipeline.plugins.hooks import hookimpl

ENTRY_POINTS = "awf.plugins"  # the entry point group of installed plugins

__all__ = [
    "ENTRY_POINTS",
    "AgentError",
    "AgentEvent",
    "AgentQuestion",
    "AgentRequest",
    "AgentResult",
    "AgentSession",
    "AgentStatus",
    "Append",
    "Assessment",
    "Backend",
    "BaseStage",
    "Briefing",
    "Concluded",
    "Conclusion",
    "Context",
    "Delete",
    "Discard",
    "Emit",
    "ErrorKind",
    "Event",
    "EventKind",
    "ExpressionFunction",
    "Failure",
    "FailureClass",
    "Handler",
    "Hold",
    "Job",
    "LedgerLine",
    "LlmStage",
    "Operation",
    "Outcome",
    "Owned",
    "PlainData",
    "Problem",
    "Rule",
    "Set",
    "StageKind",
    "State",
    "Status",
    "StatusSource",
    "Usage",
    "Waiting",
    "Workflow",
    "Worklist",
    "error",
    "hookimpl",
    "warning",
]
