"""Which handler runs which kind of stage. A kind that nothing runs is refused before a run begins."""

from collections.abc import Mapping

from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Handler, Job
from pipeline.errors import AwfError
from pipeline.language.model import StageKind, Workflow


class PassThroughHandler:
    """Succeeds at once."""

    async def run(self, job: Job) -> Outcome:
        del job
        return Outcome(status=Status.SUCCESS)


_ENGINE = frozenset({StageKind.PARALLEL})  # what the engine runs itself


def require_handlers(workflow: Workflow, handlers: Mapping[StageKind, Handler]) -> None:
    """Refuse a workflow with a stage that nothing runs, as when the plugin that would is not loaded."""
    for stage in workflow.stages:
        kind = StageKind(stage.kind)
        if kind not in handlers and kind not in _ENGINE:
            message = f'stage "{stage.id}" is of kind "{kind}", and nothing that is loaded runs such stages'
            raise AwfError(message, help="load the plugin that brings a handler for them, or take the stage out")
