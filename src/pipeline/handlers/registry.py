"""Checks that every stage has a handler before a run starts, and handles the kinds that do nothing themselves."""

from collections.abc import Mapping

from pipeline.engine.outcome import Outcome, Status
from pipeline.engine.ports import Handler, Job
from pipeline.errors import AwfError
from pipeline.language.model import StageKind, Workflow


class PassThroughHandler:
    """Succeeds at once: the routes of a decision and the goal gates of an exit are checked afterwards."""

    async def run(self, job: Job) -> Outcome:
        del job
        return Outcome(status=Status.SUCCESS)


def require_handlers(workflow: Workflow, handlers: Mapping[StageKind, Handler]) -> None:
    """Refuse a workflow with a stage that has no handler, such as one of a plugin that is not loaded."""
    for stage in workflow.stages:
        kind = StageKind(stage.kind)
        if kind not in handlers and kind is not StageKind.PARALLEL:  # the engine runs parallel stages itself
            raise AwfError(
                f'stage "{stage.id}" has the kind "{kind}", which no installed plugin handles',
                help="install the plugin that handles it, or remove the stage",
            )
