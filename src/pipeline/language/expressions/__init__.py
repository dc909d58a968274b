"""Conditions (`when`): their parser and their value in a run."""

from pipeline.language.expressions.evaluate import PLUGIN_FUNCTIONS, Environment, EvaluationError, evaluate, observed
from pipeline.language.expressions.parse import Expression, ExpressionError, parse_expression

__all__ = [
    "PLUGIN_FUNCTIONS",
    "Environment",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "evaluate",
    "observed",
    "parse_expression",
]
