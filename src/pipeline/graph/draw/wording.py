"""How a picture puts things into words: short, on one line, and free of anything a terminal or a parser would obey."""

import re
import unicodedata
from types import UnionType

from pipeline.language.edges import Edge, Role
from pipeline.language.expressions.syntax import All, Any, Call, Comparison, Function, Literal, Not, Operator, Tree

OTHERWISE = "otherwise"

_HOSTILE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"))  # controls, direction marks, surrogates, no characters
_SPACES = re.compile(r"\s+")
_PLAIN = re.compile(r"[\w.-]+")
_SIGNS = {Operator.EQUAL: "=", Operator.UNEQUAL: "≠", Operator.AT_MOST: "≤", Operator.AT_LEAST: "≥"}
_NAMES = {Function.OUTCOME: "outcome", Function.VISITS: "visits", Function.FINDINGS: "findings"}


def clean(text: str) -> str:
    """A text on one line, every character of which can be shown."""
    spaced = _SPACES.sub(" ", text).strip()
    if spaced.isascii() and spaced.isprintable():
        return spaced
    return "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in _HOSTILE else c for c in spaced)


def shorten(text: str, width: int) -> str:
    """A text of at most so many columns, cut with an ellipsis where it is longer."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, []
    for character in text:
        room -= columns(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def way(edge: Edge, *, otherwise: bool) -> str:
    """When an edge is followed; empty for a transition without a condition that is not the otherwise of another."""
    words = _way(edge, otherwise=otherwise)
    return f"{words} (priority {edge.priority})".lstrip() if edge.priority else words


def _way(edge: Edge, *, otherwise: bool) -> str:
    match edge.role:
        case Role.OPTION | Role.LOOP:
            return clean(edge.label)
        case Role.RETRY:
            return "retry"
        case Role.BRANCH:
            return "branch"
    if not edge.conditional:
        return OTHERWISE if otherwise else ""
    when = condition(edge.when.tree, edge.source) if edge.when else ""
    return " and ".join(filter(None, (edge.on, when)))


def condition(tree: Tree, source: str) -> str:
    """A condition in words, as it reads on a way out of `source`."""
    match tree:
        case All(terms):
            return " and ".join(_term(term, source, Any) for term in terms)
        case Any(terms):
            return " or ".join(_term(term, source, All) for term in terms)
        case Not(Call(Function.EXISTS, argument)):
            return f"no {clean(argument or '')}"
        case Not(operand):
            return f"not {_term(operand, source, All | Any | Comparison)}"
        case Comparison(operator, left, right):
            return _compared(operator, left, right, source)
    return _value(tree, source)


def _term(tree: Tree, source: str, grouped: type | UnionType) -> str:
    words = condition(tree, source)
    return f"({words})" if isinstance(tree, grouped) else words


def _compared(operator: Operator, left: Tree, right: Tree, source: str) -> str:
    negation = {Operator.EQUAL: "", Operator.UNEQUAL: "not "}.get(operator)
    match left, right:
        case Call(Function.OUTCOME, stage), Literal(str(status)) if negation is not None:
            words = negation + clean(status).replace("_", " ")
            return words if stage == source else f"{clean(stage or '')}: {words}"
        case Call(Function.VERDICT), Literal(str(verdict)) if negation is not None:
            return f"verdict {negation}{clean(verdict)}"
    grouped = All | Any | Comparison
    return f"{_term(left, source, grouped)} {_SIGNS.get(operator, operator)} {_term(right, source, grouped)}"


def _value(tree: Tree, source: str) -> str:
    match tree:
        case Call(function, argument):
            return _asked(function, clean(argument or ""), own=argument in (None, source))
        case Literal(str(text)) if _PLAIN.fullmatch(text):
            return text
    return clean(str(tree))


def _asked(function: Function, argument: str, *, own: bool) -> str:
    if function is Function.EXISTS:
        return f"{argument} exists"
    if function not in _NAMES:
        return argument or function.value
    return _NAMES[function] if own else f"{argument} {_NAMES[function]}"
