"""The options that a run records about its review."""

import json

import pytest

from pipeline.errors import AwfError
from pipeline.findings.review_options import ReviewOptions, read_options


def test_options_survive_being_recorded() -> None:
    """What was recorded as JSON is read back as it was."""
    options = ReviewOptions(
        mode="verify", base="a" * 40, paths=("src",), lenses=("qa", "pm"), report=True, caller="awf review"
    )
    assert read_options(json.loads(json.dumps(options.recorded()))) == options


def test_a_run_without_options_has_the_defaults() -> None:
    """A run that was not started as a review reviews its change in full."""
    assert read_options(None) == ReviewOptions()
    assert ReviewOptions().recorded() == {}


@pytest.mark.parametrize(
    "recorded", [[], {"mode": "slow"}, {"scope": "world"}, {"paths": "src"}, {"report": 1}, {"new": 1}]
)
def test_options_that_cannot_be_understood_are_an_error(recorded: object) -> None:
    """No review starts on options of another version."""
    with pytest.raises(AwfError):
        read_options(recorded)
