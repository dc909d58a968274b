"""Everything that can be checked before a run: the workflow, its graph, its prompt files and the rules of plugins."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path

from pipeline.app.catalog import Catalog, CatalogEntry
from pipeline.errors import AwfError
from pipeline.graph import checks as graph_checks
from pipeline.graph.analysis import build_graph
from pipeline.language import checks, reader
from pipeline.language.checks.inputs import unknown_input
from pipeline.language.diagnostics import Diagnostic, Problem, Rule, RuleHit, error, has_errors, to_diagnostics
from pipeline.language.inputs import help_for_unknown, undeclared_inputs
from pipeline.language.model import LlmStage, Workflow, prompt_files
from pipeline.language.reader import UNREADABLE_FILE, WorkflowDraft
from pipeline.language.source import START, SourceText


@dataclass(frozen=True)
class CheckedWorkflow:
    """What is wrong with a file, and its workflow if it can run."""

    source: SourceText
    diagnostics: tuple[Diagnostic, ...]
    workflow: Workflow | None
    workflow_for_preflight: Workflow | None = None  # also set if nothing but prompt files is missing


def check_all(catalog: Catalog, references: Iterable[str]) -> list[CheckedWorkflow]:
    """Check every workflow that the references name; one that is not found has a diagnostic that says so."""
    entries: dict[Path, CatalogEntry] = {}
    not_found = []
    for reference in references:
        try:
            entries.update((entry.path, entry) for entry in catalog.expand(reference))
        except AwfError as error:
            source = SourceText(reference, "")
            hit = UNREADABLE_FILE.hit(START, error.message, error.help)
            not_found.append(CheckedWorkflow(source, to_diagnostics(source, [hit]), None))
    return [check(entry) for entry in entries.values()] + not_found


def check(entry: CatalogEntry) -> CheckedWorkflow:
    """Read a workflow file and check it."""
    return check_draft(entry.read(), entry.prompt_text)


def check_draft(draft: WorkflowDraft, prompt_text: Callable[[str], str | None]) -> CheckedWorkflow:
    """Run every check on a workflow that has been read; `prompt_text` reads its prompt files."""
    hits = list(draft.hits)
    workflow = draft.workflow
    if workflow is not None:
        graph = build_graph(workflow)
        hits += chain.from_iterable(rule(workflow) for rule in checks.CHECKS)
        hits += chain.from_iterable(rule(graph) for rule in graph_checks.CHECKS)
        texts = {path: prompt_text(path) for path in prompt_files(workflow)}
        hits += missing_prompt_file(workflow, texts)
        hits += _unknown_inputs_in_files(workflow, texts)
        hits += chain.from_iterable(_run_plugin_rule(rule, workflow) for rule in installed_rules())
    diagnostics = to_diagnostics(draft.source, hits)
    others = [diagnostic for diagnostic in diagnostics if diagnostic.code != missing_prompt_file.code]
    return CheckedWorkflow(
        draft.source,
        diagnostics,
        workflow=None if has_errors(diagnostics) else workflow,
        workflow_for_preflight=None if has_errors(others) else workflow,
    )


@error("AWF037")
def missing_prompt_file(workflow: Workflow, texts: Mapping[str, str | None]) -> Iterator[Problem]:
    """A prompt file does not exist."""
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            for path in stage.prompt_file:
                if texts[path] is None:
                    message = f'prompt file "{path}" of stage "{stage.id}" does not exist'
                    help = "paths start at the root of the repository, or next to the workflow"
                    yield Problem(stage.spans.of("prompt_file"), message, help, stage.id)


def _unknown_inputs_in_files(workflow: Workflow, texts: Mapping[str, str | None]) -> Iterator[RuleHit]:
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            for path in stage.prompt_file:
                for name, _ in undeclared_inputs(texts[path] or "", workflow):
                    message = f'unknown input "{name}" in prompt file "{path}"'
                    span = stage.spans.of("prompt_file")
                    yield unknown_input.hit(span, message, help_for_unknown(name, workflow), stage.id)


@cache  # the plugins of a process do not change, and finding them takes longer than checking a workflow
def installed_rules() -> tuple[Rule, ...]:
    """The rules of installed plugins."""
    if not entry_points(group="awf.plugins"):
        return ()
    from pipeline.plugins.manager import PluginManager  # noqa: PLC0415 - 50 ms that only users of plugins pay

    plugins = PluginManager(time.time)
    plugins.load_installed()
    return tuple(plugins.collect("workflow_rules"))


def _run_plugin_rule(rule: Rule, workflow: Workflow) -> list[RuleHit]:
    help = "fix or uninstall the plugin; the workflow was not checked"
    try:
        hits = rule(workflow)
    except Exception as error:  # a plugin may raise anything
        message = f"the rule {rule.code} of a plugin raised {type(error).__name__}: {error}"
        raise AwfError(message, help=help) from error
    for _, problem in hits:
        if not isinstance(problem, Problem):
            raise AwfError(f"the rule {rule.code} of a plugin yielded {problem!r:.80}, not a Problem", help=help)
    return hits


def every_rule() -> tuple[Rule, ...]:
    """All rules, those of plugins included, by code."""
    own = (*reader.RULES, *checks.CHECKS, *graph_checks.CHECKS, missing_prompt_file)
    rules = {rule.code: rule for rule in (*installed_rules(), *own)}
    return tuple(sorted(rules.values(), key=lambda rule: rule.code))
