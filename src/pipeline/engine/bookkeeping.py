"""What every stage leaves in the context, whichever kind it is."""

from dataclasses import dataclass

from pipeline.engine.context import Key, Operation, Set, full_response_key, response_key, status_key
from pipeline.engine.outcome import Outcome
from pipeline.language.model import BaseStage, LlmStage, ToolStage

SHOWN = 8_000  # characters of an answer that the context shows; the whole is kept beside it


@dataclass(frozen=True, slots=True)
class Line:
    """A line for the store's ledger, committed together with the stage."""

    text: str


def stage_operations(stage: BaseStage, outcome: Outcome) -> list[Operation]:
    """The operations of one visit, before any plugin adds its own."""
    status = outcome.status.value  # as it is read again from a journal
    left = {Key.OUTCOME: status, Key.LAST_STAGE: stage.id, status_key(stage.id): status}
    if isinstance(stage, LlmStage | ToolStage):
        base, answer = response_base(stage), shown(outcome.response)
        left |= {response_key(base): answer, full_response_key(base): outcome.response, Key.LAST_RESPONSE: answer}
    if outcome.usage is not None:
        used = outcome.usage.model_dump(exclude_none=True)
        left |= {f"{stage.id}.usage.{name}": value for name, value in used.items()}
    return [Set(key, value) for key, value in (left | outcome.updates).items()]


def response_base(stage: BaseStage) -> str:
    """The name a stage's answer is kept under."""
    return stage.response_key_base or stage.id if isinstance(stage, LlmStage) else stage.id


def shown(text: str) -> str:
    """A text as the context shows it: whole while it is short, else its beginning and how much is left out."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}\n[... {len(text) - SHOWN} more characters]"
