"""Checks of single stages."""

import pytest
from tests.unit.language.examples import bounded, codes

END = '\ntransition from="a" to="done"'


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ('stage "a" kind="llm" prompt="x" prompt_file="prompts/plan.md"', "AWF021"),
        ('stage "a" kind="llm" prompt="  "', "AWF021"),
        ('stage "a" kind="llm" prompt_file=" , "', "AWF021"),
        ('stage "a" kind="llm" prompt_file="/etc/passwd"', "AWF021"),
        ('stage "a" kind="llm" prompt_file="~/x.md"', "AWF021"),
        ('stage "a" kind="llm" prompt_file="prompts/../../x.md"', "AWF021"),
        ('stage "a" kind="tool" command="  "', "AWF022"),
        ('stage "a" kind="tool" command="x" cwd="/tmp"', "AWF032"),
        ('stage "a" kind="tool" command="make | tee log"', "AWF105"),
        ('stage "a" kind="tool" command="make 2>&1 | tail -5"', "AWF105"),
    ],
)
def test_a_stage_is_wrong(lines: str, code: str) -> None:
    """Forms that a rule covers besides the example of its page."""
    assert code in codes(bounded(lines + END))


@pytest.mark.parametrize(
    "lines",
    [
        'stage "a" kind="tool" command="grep -q x f || true"' + END,
        'stage "a" kind="tool" command="echo \'a | tee b\'"' + END,
        'stage "a" kind="tool" command="set -o pipefail; make | tee log"' + END,
        'stage "a" kind="tool" command="make | grep -q done"' + END,
        'stage "a" kind="human" prompt="Go?" default="n" timeout="1d" require_feedback_on="n" {\n'
        'option "y" label="Yes" to="done"\noption "n" label="No" to="a"\n}',
    ],
)
def test_a_stage_is_right(lines: str) -> None:
    """These resemble the examples of some rule and break none."""
    assert codes(bounded(lines)) == []
