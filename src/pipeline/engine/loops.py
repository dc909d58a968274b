"""When a loop is left: its rounds are used up, or its findings show that one more would be of no use."""

from pipeline.engine.context import Key
from pipeline.engine.fold import After
from pipeline.engine.select import Selection
from pipeline.engine.state import State
from pipeline.language.model import LlmStage, Loop, is_review


def loop_exit(state: State, after: After, target: str) -> Selection | None:
    """The way out of the loop that the cursor is in, instead of the way to `target`; None to go on."""
    source = state.cursor.stage
    for loop in state.workflow.loops:
        if source in loop.stages and target in loop.stages:
            return _stalled(state, after, loop, target) or _exhausted(after, loop, target)
    return None


def _stalled(state: State, after: After, loop: Loop, target: str) -> Selection | None:
    """Before something is fixed once more."""
    stage = state.workflow.by_id.get(target)
    why, to = after.context.get(Key.STALLED), loop.leads("stalled")
    if not why or to is None or not isinstance(stage, LlmStage) or is_review(stage):
        return None
    return Selection(target=to, role="loop", reason=f'loop "{loop.name}" is stalled: {why}')


def _exhausted(after: After, loop: Loop, target: str) -> Selection | None:
    """Before another round begins."""
    rounds, to = after.visits.get(loop.stages[0], 0), loop.leads("exhausted")
    if target != loop.stages[0] or rounds < loop.max_rounds or to is None:
        return None
    return Selection(
        target=to, role="loop", reason=f'loop "{loop.name}" is exhausted: {rounds} of {loop.max_rounds} rounds'
    )
