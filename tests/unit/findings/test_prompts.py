"""The shipped prompts say what accumulation relies on."""

from pathlib import Path

PROMPTS = Path(__file__).parents[3] / "workflows" / "prompts"


def test_the_fix_prompt_points_at_the_findings() -> None:
    """004-30: every outstanding issue, every finding, committed incrementally."""
    first = (PROMPTS / "fix.md").read_text().partition("\n")[0]
    assert first == (
        "Fix all outstanding issues listed in the review findings below. "
        "Address every finding. Commit your fixes incrementally."
    )


def test_the_status_prompt_names_the_markers() -> None:
    """004-34: a reviewer is told to end with a status, and with a reason when it fails."""
    text = (PROMPTS / "status.md").read_text()
    assert all(marker in text for marker in ("[STATUS: success]", "[STATUS: fail]", "[FAILURE_REASON: "))
