"""Checks of a workflow that need nothing but the workflow, by subject. Each rule's page is `rules/CODE.md`."""

from itertools import chain

from pipeline.language.checks import conditions, stages, transitions
from pipeline.language.diagnostics import RuleHit
from pipeline.language.model import Workflow

CHECKS = (*stages.CHECKS, *transitions.CHECKS, *conditions.CHECKS)


def check_workflow(workflow: Workflow) -> list[RuleHit]:
    """Everything that these checks find wrong with a workflow."""
    return list(chain.from_iterable(rule(workflow) for rule in CHECKS))
