"""The agent of long loops: reviewers and a fixer who know a planted defect when they see it in the code.

All that a call is given is a prompt, in the directory of the code; the plan says what the agent notices and repairs. A
reviewer rules by number on what it reported, and reports only what nobody has. It never uses the same words twice, may
be a line or two off, and may rate a defect anew. The fixer repairs some defects, edits and moves code, and
claims a few fixes that it did not make.
"""

import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

CODE = Path("src")
KNOWN, OTHERS, FIXES = "## Known findings", "Reported by others", "## Findings by file"
LISTED = re.compile(r"^- #(?P<number>\d+) \(\w+, (?P<severity>\w+)[^)]*\)(?: \S+)?: (?P<title>.*)$", re.MULTILINE)
PLANTED = re.compile(r"\bbroken_(\d+)\b")
LOWER, GRAVER = {"high": "P2", "medium": "P3"}, {"medium": "P1", "low": "P2"}
OFF, UNQUOTED = 0.25, 0.25  # how many items cite another line, or no code
RERATES = 0.2  # how many rulings make a finding milder, and how many make it graver
SAID = 5  # words of a title and of a reason, of the eight that a reviewer has for a defect
NOISE = (3, 3, 3, 4)  # other words of a reason


class Agent:
    """One call of the agent."""

    def __init__(self, plan: Path, prompt: str) -> None:
        self.folder = plan.parent
        self.plan: dict[str, Any] = json.loads(plan.read_text())
        self.prompt = prompt
        self.round = int((self.folder / "round").read_text())
        self.name = re.findall(r'You are "(\w+)"', prompt)[-1]
        self.chance = random.Random(f"{self.plan['seed']} {self.round} {self.name}")  # noqa: S311 - no secret
        self.defects: dict[str, int] = {}  # by every title that was ever reported
        for file in self.folder.glob("said-*.json"):
            self.defects |= json.loads(file.read_text())

    def answer(self) -> str:
        """Return what the agent says."""
        return self.fix() if self.name == "fixer" else self.review()

    def listed(self, text: str) -> dict[int, int]:
        """Return the defects of the findings that a text lists, by number."""
        return {int(line["number"]): self.defects[line["title"]] for line in LISTED.finditer(text)}

    def fix(self) -> str:
        """Write the code of the next round; claim what it repairs, and what the plan claims wrongly."""
        rounds = self.plan["rounds"]
        here, there = rounds[self.round - 1], rounds[min(self.round, len(rounds) - 1)]
        for path, text in there["files"].items():
            Path(path).write_text(text)
        (self.folder / "round").write_text(str(self.round + 1))
        asked = self.listed(self.prompt.partition(FIXES)[2])
        unfixed = {*there["present"]} - {*here["claimed"]}
        return "\n".join(
            f"[FINDING {number}: {'not fixed, it takes longer' if defect in unfixed else 'fixed'}]"
            for number, defect in asked.items()
        )

    def review(self) -> str:
        """Rule on what was asked, and report what is new; or rule on nothing, and report everything again."""
        places = dict(self.places())
        noticed = {int(defect) for defect, first in self.plan["sees"][self.name].items() if first <= self.round}
        new, rulings = noticed & places.keys(), list[dict[str, Any]]()
        if self.plan["rules"]:
            own, _, others = self.prompt.partition(KNOWN)[2].partition(OTHERS)
            rulings = list(self.rulings(own, places))
            new -= {*self.listed(own).values(), *self.listed(others).values()}
        items = [self.item(defect, *places[defect]) for defect in sorted(new)]
        said = {item["title"]: defect for item, defect in zip(items, sorted(new), strict=True)}
        kept = self.folder / f"{self.name}.new"  # renamed at once: other reviewers read it in the same moment
        kept.write_text(json.dumps(said))
        kept.rename(self.folder / f"said-{self.round}-{self.name}.json")
        reviewed = [f"{path}: all of it" for path in sorted(CODE.iterdir())]
        rest: dict[str, Any] = {"residual_risks": [], "testing_gaps": [], "reviewed": reviewed}
        return f"```json\n{json.dumps({'findings': items, 'rulings': rulings, **rest})}\n```"

    def places(self) -> Iterator[tuple[int, tuple[str, int, str]]]:
        """Yield every defect that is in the code, with its path, its line, and the text of that line."""
        for path in sorted(CODE.iterdir()):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                if planted := PLANTED.search(line):
                    yield int(planted[1]), (str(path), number, line.strip())

    def rulings(self, own: str, places: dict[int, tuple[str, int, str]]) -> Iterator[dict[str, Any]]:
        """Yield a ruling on each finding of a list, by whether its defect is in the code."""
        for line in LISTED.finditer(own):
            ruling: dict[str, Any] = {"number": int(line["number"]), "ruling": "fixed"}
            if self.defects[line["title"]] in places:
                ruling |= {"ruling": "not fixed", "reason": "it is in the code as before"}
                was, drawn = line["severity"], self.chance.random()
                if was in LOWER and drawn < RERATES:
                    ruling |= {"ruling": "lowered", "severity": LOWER[was]}
                elif was in GRAVER and drawn > 1 - RERATES:
                    ruling["severity"] = GRAVER[was]
            yield ruling

    def item(self, defect: int, path: str, line: int, text: str) -> dict[str, Any]:
        """Return a defect as an item of an answer, in words that are chosen now."""
        words = self.plan["words"][self.name][defect]
        noise = self.chance.sample(self.plan["vocabulary"], self.chance.choice(NOISE))
        off = self.chance.choice((-2, -1, 1, 2)) if self.chance.random() < OFF else 0
        quote = f"{path}:{line} -- {text}"
        return {
            "title": self.some(words).capitalize(),
            "severity": self.chance.choice(("P1", "P1", "P2")),
            "file": path,
            "line": max(1, line + off),
            "why_it_matters": f"{self.some(words)} {' '.join(noise)}",
            "evidence": ["a run of the tests that failed"] if self.chance.random() < UNQUOTED else [quote],
            "suggested_fix": None,
            "confidence": self.chance.choice((75, 100)),
            "autofix_class": "gated_auto",
            "owner": "review-fixer",
            "requires_verification": True,
            "pre_existing": False,
        }

    def some(self, words: Sequence[str]) -> str:
        """Return some of these words, in any order."""
        return " ".join(self.chance.sample(words, SAID))


if __name__ == "__main__":
    print(Agent(Path(sys.argv[1]), sys.stdin.read()).answer())
