"""What every stage leaves in the context, whichever kind it is."""

from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.engine.context import Key, Operation, Set, full_response_key, response_key, status_key
from pipeline.engine.outcome import Outcome
from pipeline.language.model import BaseStage, LlmStage, ToolStage

SHOWN = 8_000  # characters of an answer that the context shows; the whole is kept beside it


@dataclass(frozen=True, slots=True)
class Line:
    """A line for the store's ledger, committed together with the stage."""

    text: str


def stage_operations(stage: BaseStage, outcome: Outcome) -> tuple[Operation, ...]:
    """The operations of one visit, before any plugin adds its own."""
    return tuple(_operations(stage, outcome))


def _operations(stage: BaseStage, outcome: Outcome) -> Iterator[Operation]:
    status = outcome.status.value  # as it is read again from a journal
    yield Set(Key.OUTCOME, status)
    yield Set(Key.LAST_STAGE, stage.id)
    yield Set(status_key(stage.id), status)
    if isinstance(stage, LlmStage | ToolStage):
        base = response_base(stage)
        yield Set(response_key(base), shown(outcome.response))
        yield Set(full_response_key(base), outcome.response)
        yield Set(Key.LAST_RESPONSE, shown(outcome.response))
    if outcome.usage is not None:
        for name, value in outcome.usage.model_dump(exclude_none=True).items():
            yield Set(f"{stage.id}.usage.{name}", value)
    for key, value in outcome.updates.items():
        yield Set(key, value)


def response_base(stage: BaseStage) -> str:
    """The name a stage's answer is kept under."""
    return stage.response_key_base or stage.id if isinstance(stage, LlmStage) else stage.id


def shown(text: str) -> str:
    """A text as the context shows it: whole while it is short, else its beginning and how much is left out."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}\n[... {len(text) - SHOWN} more characters]"
