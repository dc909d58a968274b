"""Checks of a workflow that need nothing but the workflow, by subject. Each rule's page is `rules/CODE.md`."""

from pipeline.language.checks import conditions, inputs, stages, transitions

CHECKS = (*stages.CHECKS, *transitions.CHECKS, *conditions.CHECKS, *inputs.CHECKS)
