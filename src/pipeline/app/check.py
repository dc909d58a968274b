"""Everything that can be said about a workflow before it runs: the language's rules, the graph's, and the files'."""

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline.app.catalog import Catalog, CatalogEntry
from pipeline.app.workflow_files import load_file
from pipeline.errors import AwfError
from pipeline.graph import rules as graph_rules
from pipeline.graph.analysis import build_graph
from pipeline.language.diagnostics import Diagnostic, Problem, Rule, RuleHit, error, has_errors, to_diagnostics
from pipeline.language.model import LlmStage, Workflow
from pipeline.language.reader import WorkflowDraft
from pipeline.language.rules import care, conditions, loops, reading, routing, stages, structure, values
from pipeline.language.source import START, SourceText
from pipeline.plugins import ENTRY_POINTS

GRAPH_RULES = (
    graph_rules.unreachable_stage,
    graph_rules.no_exit,
    graph_rules.dead_end,
    graph_rules.unbounded_loop,
    graph_rules.gate_without_return,
    graph_rules.fix_without_findings,
    graph_rules.bypassed_gate,
    graph_rules.exit_past_review,
)


@error("AWF037")
def missing_prompt_file(workflow: Workflow, exists: Callable[[str], bool]) -> Iterator[Problem]:
    """A prompt file is not there.

    Prompt files are looked for from the root of the repository that holds the workflow, then beside the workflow.

    ## Why is this bad?
    The run would stop at this stage, after all the stages before it were paid for.

    ## Example
    ```kdl
    stage "plan" kind="llm" prompt_file="prompts/paln.md"
    transition from="plan" to="done"
    ```

    ## Use instead
    ```kdl
    stage "plan" kind="llm" prompt_file="prompts/plan.md"
    transition from="plan" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            for path in stage.prompt_file:
                if not exists(path):
                    message = f'the prompt file "{path}" of stage "{stage.id}" is not there'
                    help = "paths start at the root of the repository, or beside the workflow"
                    yield Problem(stage.at.of("prompt_file"), message, help, stage.id)


@dataclass(frozen=True)
class CheckedWorkflow:
    """A checked file: what is wrong with it, and the workflow when nothing stops a run."""

    source: SourceText
    diagnostics: tuple[Diagnostic, ...]
    workflow: Workflow | None
    but_for_prompts: Workflow | None = None  # the same, also where only prompt files are missing


def check_all(catalog: Catalog, references: Iterable[str]) -> list[CheckedWorkflow]:
    """Check every workflow that the references name; one that is not found is reported like any other problem."""
    entries: dict[Path, CatalogEntry] = {}
    lost = []
    for reference in references:
        try:
            entries.update((entry.path, entry) for entry in catalog.expand(reference))
        except AwfError as error:
            source = SourceText(reference, "")
            seen = reading.unreadable_file(START, error.message, error.help)
            lost.append(CheckedWorkflow(source, to_diagnostics(source, seen), None))
    return [check(entry) for entry in entries.values()] + lost


def check(entry: CatalogEntry) -> CheckedWorkflow:
    """Read a workflow file and apply every rule to it."""
    with _nothing_to_collect():
        draft = load_file(entry.path, entry.shown)
        return check_draft(draft, lambda path: entry.prompt(path) is not None)


@contextmanager
def _nothing_to_collect() -> Iterator[None]:
    """While a file is read everything that is made is kept: looking for garbage would take a fifth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def check_draft(draft: WorkflowDraft, prompt_exists: Callable[[str], bool]) -> CheckedWorkflow:
    """Apply to a draft the rules that need the graph or the files around it."""
    seen = list(draft.seen)
    workflow = draft.workflow
    if workflow is not None:
        graph = build_graph(workflow)
        seen += chain.from_iterable(rule(graph) for rule in GRAPH_RULES)
        seen += missing_prompt_file(workflow, prompt_exists)
        seen += chain.from_iterable(_of_plugin(rule, workflow) for rule in installed_rules())
    diagnostics = to_diagnostics(draft.source, seen)
    others = [one for one in diagnostics if one.code != missing_prompt_file.code]
    but_for_prompts = None if has_errors(others) else workflow
    return CheckedWorkflow(draft.source, diagnostics, None if has_errors(diagnostics) else workflow, but_for_prompts)


@cache
def installed_rules() -> tuple[Rule[Any], ...]:
    """The rules that installed plugins bring. Where there are no plugins, nothing is loaded to ask them."""
    if not entry_points(group=ENTRY_POINTS):
        return ()
    from pipeline.plugins.manager import PluginManager  # noqa: PLC0415 - few have plugins, and it takes a while

    plugins = PluginManager(time.time)
    plugins.load_installed()
    return plugins.rules()


def _of_plugin(rule: Rule[Any], workflow: Workflow) -> list[RuleHit]:
    try:
        return _checked(rule, workflow)
    except Exception as error:  # a plugin may raise anything
        words = f"the rule {rule.code} of a plugin raised {type(error).__name__}: {error}"
        raise AwfError(words, help="mend the plugin, or uninstall it; the workflow was not checked") from error


def _checked(rule: Rule[Any], workflow: Workflow) -> list[RuleHit]:
    seen = rule(workflow)
    for _, problem in seen:
        if not isinstance(problem, Problem):
            raise TypeError(f"{problem!r:.80} is no problem")
    return seen


def every_rule() -> tuple[Rule[...], ...]:
    """All rules there are, by code."""
    modules: tuple[ModuleType, ...] = (
        *(reading, structure, values, stages, routing, loops, conditions, care),
        graph_rules,
    )
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    rules = {rule.code: rule for rule in [*installed_rules(), *found, missing_prompt_file]}
    return tuple(sorted(rules.values(), key=lambda rule: rule.code))
