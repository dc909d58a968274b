"""The documentation's table of what was tried with the real agents is what their tests expect."""

from pathlib import Path

from tests.agents.programs import PROGRAMS
from tests.agents.situations import SITUATIONS

from pipeline.engine.ports import ErrorKind

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
HEADING = "## What was tried with the real programs\n"


def test_the_table_has_every_situation_of_every_program() -> None:
    """Replace it by the expected one when this fails; `make test-agents` shows that it is true."""
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    programs = [program.name for program in PROGRAMS]
    head = ["what happens", *(f"`{name}`" for name in programs)]
    results = [[one.but.get(name, one.expected) for name in programs] for one in SITUATIONS]
    rows = [
        [one.about, *(str(cell) if isinstance(cell, ErrorKind) else "answer" for cell in cells)]
        for one, cells in zip(SITUATIONS, results, strict=True)
    ]
    expected = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    assert [line for line in section.splitlines() if line.startswith("|")] == expected, "\n".join(expected)
