"""Conditions (`when`): their parser and their value in a run."""

from pipeline.language.expressions.evaluate import PLUGIN_FUNCTIONS, EvaluationError, Scope, evaluate, observed_values
from pipeline.language.expressions.parse import Expression, ExpressionError, parse_expression

__all__ = [
    "PLUGIN_FUNCTIONS",
    "EvaluationError",
    "Expression",
    "ExpressionError",
    "Scope",
    "evaluate",
    "observed_values",
    "parse_expression",
]
