"""Conditions (`when`): parsed once, typed when a file is checked, evaluated while it runs."""

from pipeline.language.expressions.evaluate import Environment, EvaluationError, evaluate, observed
from pipeline.language.expressions.parse import ExpressionError, parse_expression
from pipeline.language.expressions.syntax import Expression

__all__ = [
    "Environment",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "evaluate",
    "observed",
    "parse_expression",
]
