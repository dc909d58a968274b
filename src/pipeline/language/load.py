"""The one way from a text to a workflow: parse, lower, and the rules that need nothing but the file."""

from dataclasses import dataclass
from itertools import chain

from pipeline.language.kdl import MAX_DEPTH, TooDeep, parse
from pipeline.language.lower import Lowering
from pipeline.language.model import Workflow
from pipeline.language.nodes import Node
from pipeline.language.rules import care, conditions, loops, reading, routing, stages
from pipeline.language.rules.rule import Seen
from pipeline.language.source import Source, Span

MAX_BYTES = 1024 * 1024

RULES = (
    stages.duplicate_stage,
    stages.prompt_source,
    stages.empty_command,
    stages.too_few_options,
    stages.unknown_option,
    stages.unknown_profile,
    stages.path_outside,
    stages.repeated_name,
    routing.unknown_stage,
    routing.no_catch_all,
    routing.mixed_routing,
    routing.branch_rules,
    routing.triage_ways,
    loops.loop_stages,
    loops.loop_ending,
    care.piped_exit_code,
    care.timeout_without_default,
    care.shared_workspace,
)
CONDITION_RULES = (
    conditions.unknown_stage_in_condition,
    conditions.type_mismatch,
    conditions.impossible_value,
    care.unread_review,
    care.dead_route,
)


@dataclass(frozen=True)
class Draft:
    """A file as far as it could be understood, and what was seen to be wrong with it so far."""

    source: Source
    workflow: Workflow | None
    seen: tuple[Seen, ...]


def load(source: Source) -> Draft:
    """Read a text; what is wrong with it is part of the draft, never an exception."""
    nodes, seen = read_nodes(source)
    if seen:
        return Draft(source, None, tuple(seen))
    lowering = Lowering(source)
    workflow = lowering.document(nodes)
    seen = lowering.seen
    if workflow is not None:
        uses = list(conditions.conditions(workflow))
        seen += chain.from_iterable(rule(workflow) for rule in RULES)
        seen += chain.from_iterable(rule(workflow, uses) for rule in CONDITION_RULES)
    return Draft(source, workflow, tuple(seen))


def read_nodes(source: Source) -> tuple[tuple[Node, ...], list[Seen]]:
    """The nodes of a text, or what keeps it from being read."""
    try:
        parsed = parse(source)
    except TooDeep as deep:
        span = Span(deep.offset, deep.offset + 1)
        return (), reading.too_large(span, "blocks are nested too deep", f"{MAX_DEPTH} levels")
    return parsed.nodes, reading.syntax_error(parsed.problem) if parsed.problem else []
