"""Random workflows that can be run, each with the replies of its agents, tools and people."""

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

FOUND = {
    "reviewer": "r",
    "findings": [
        {
            "title": "The handle leaks",
            "severity": "P1",
            "file": "app.py",
            "line": 3,
            "why_it_matters": "it goes wrong",
            "autofix_class": "gated_auto",
            "owner": "downstream-resolver",
            "requires_verification": False,
            "suggested_fix": "close it",
            "confidence": 100,
            "evidence": ["app.py:3 -- line 3"],
            "pre_existing": False,
        }
    ],
    "residual_risks": [],
    "testing_gaps": [],
}
FAIL = "Bad.\n[STATUS: fail]\n[FAILURE_REASON: not good enough]"
FINE = "Fine.\n[STATUS: success]"


@dataclass
class Generated:
    """A workflow and its script."""

    text: str = ""
    script: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)


class Maker:
    """Builds a workflow from blocks; each leads from its first stage to the first of the next."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.lines: list[str] = []
        self.made = Generated()
        self.count = 0

    def workflow(self) -> Generated:
        blocks = [self.name() for _ in range(self.chance.randint(1, 5))]
        for entry, target in zip(blocks, [*blocks[1:], "end"], strict=True):
            self.chance.choice(
                [
                    self.agent,
                    self.agent,
                    self.tool,
                    self.tool,
                    self.review,
                    self.loop,
                    self.parallel,
                    self.human,
                    self.decision,
                ]
            )(entry, target)
        most = self.chance.choice(
            ["", "settings { max_visits 2; }", "settings { max_stages 7; }", "settings { max_visits 9; }"]
        )
        head = f'workflow "W" {{\nversion 2\nstart "{blocks[0]}"\n{most}\n'
        self.made.text = head + "\n".join(self.lines) + '\nstage "end" kind="exit"\n}\n'
        return self.made

    def name(self) -> str:
        self.count += 1
        return f"s{self.count}"

    def retry(self) -> str:
        tries = self.chance.choice([0, 0, 2, 3])
        return f' {{ retry max_attempts={tries} backoff="none"; }}' if tries else ""

    def reply(self) -> Any:
        return self.chance.choice(
            [
                "done",
                "x" * 9000,
                {"status": "success", "context_updates": {"risk": self.chance.choice(["high", "low"])}},
                {"status": "fail", "failure_reason": "it broke"},
                {"status": "success", "usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}},
                {"status": "partial_success"},
                self.error(),
            ]
        )

    def error(self) -> Any:
        """An error of an agent, of one of the kinds that are handled differently."""
        return self.chance.choice(
            [
                {"error": "auth", "message": "401"},
                {"error": "server", "message": "503"},
                {"error": "killed", "message": "SIGKILL"},
                {"error": "quota", "message": "usage limit reached"},
                {"error": "quota", "message": "usage limit reached", "retry_after": 3600},
            ]
        )

    def on_error(self) -> str:
        return self.chance.choice(["", "", ' on_error="route"', ' on_error="fail"'])

    def agent(self, entry: str, target: str) -> None:
        gate = self.chance.choice(["", "", " goal_gate=true"])
        self.lines.append(f'stage "{entry}" kind="llm" prompt="Do $goal"{gate}{self.on_error()}{self.retry()}')
        self.lines.append(f'transition from="{entry}" to="{target}"')
        self.made.script[entry] = [self.reply() for _ in range(self.chance.randint(1, 3))]

    def tool(self, entry: str, target: str) -> None:
        command = self.chance.choice(
            ["true", "echo out", "no-such-command", "echo oops >&2; exit 3", 'test \\"$AWF_VISIT\\" -ge 2']
        )
        more = self.chance.choice(["", "", ' effects=\\"external\\"', ' effects=\\"none\\"']).replace("\\", "")
        again = f' retry_target="{entry}"' if "VISIT" in command else ""
        self.lines.append(f'stage "{entry}" kind="tool" command="{command}"{more}{again}{self.retry()}')
        self.lines.append(f'transition from="{entry}" to="{target}"')

    def said(self) -> list[Any]:
        found = f"```json\n{json.dumps(FOUND)}\n```"
        return [
            self.chance.choice([FAIL, FINE, found, "I have nothing to say", "", self.error()])
            for _ in range(self.chance.randint(1, 3))
        ]

    def review(self, entry: str, target: str) -> None:
        self.lines.append(f'stage "{entry}" kind="llm" auto_status=true prompt="Review"{self.on_error()}{self.retry()}')
        self.lines.append(f'transition from="{entry}" to="{target}"')
        self.made.script[entry] = self.said()

    def loop(self, entry: str, target: str) -> None:
        gate, fix = self.name(), self.name()
        self.lines += [
            f'stage "{entry}" kind="llm" auto_status=true prompt="Review"',
            decision(gate, "findings() > 0", fix, target),
            f'stage "{fix}" kind="llm" prompt="Fix"',
            f'transition from="{entry}" to="{gate}"',
            f'transition from="{fix}" to="{entry}"',
        ]
        if self.chance.random() < 0.5:
            self.lines.append(
                f'loop "{entry}" {{ stages "{entry}" "{gate}" "{fix}"; max_rounds 3; '
                f'on "exhausted" to="{target}"; on "stalled" to="{target}"; }}'
            )
        self.made.script[entry] = [*self.said(), self.chance.choice([FINE, FAIL])]
        self.made.script[fix] = [
            {"write": {"app.py": f"fixed {number}\n"}, "reply": "[FINDING 1: fixed]"} for number in (1, 2)
        ]

    def parallel(self, entry: str, target: str) -> None:
        names = [self.name() for _ in range(self.chance.randint(2, 4))]
        join = self.chance.choice(["", ' join="any"', " join=1"])
        most = self.chance.choice(["", " max_parallel=1", " max_parallel=2"])
        branches = "; ".join(f'branch "{name}"' for name in names)
        self.lines.append(f'stage "{entry}" kind="parallel"{join}{most} {{ {branches}; }}')
        for name in names:
            kind = self.chance.choice(["tool", "review", "agent"])
            if kind == "tool":
                command = self.chance.choice(["true", "false", "echo hi"])
                self.lines.append(f'stage "{name}" kind="tool" command="{command}"{self.retry()}')
            elif kind == "review":
                self.lines.append(f'stage "{name}" kind="llm" auto_status=true prompt="Review"{self.on_error()}')
                self.made.script[name] = self.said()
            else:
                self.lines.append(f'stage "{name}" kind="llm" prompt="Do"{self.retry()}')
                self.made.script[name] = [self.reply()]
        decision = self.name()
        self.lines.append(f'transition from="{entry}" to="{decision}"')
        self.lines.append(f'stage "{decision}" kind="decision" {{ route when="true" to="{target}"; }}')

    def human(self, entry: str, target: str) -> None:
        back = self.name()
        self.lines += [
            f'stage "{entry}" kind="human" prompt="Good?" {{',
            f'  option "yes" label="Yes" to="{target}" approves=true; option "no" label="No" to="{back}"; }}',
            f'stage "{back}" kind="llm" prompt="Change it"',
            f'transition from="{back}" to="{entry}"',
        ]
        said = self.chance.choice(
            [["yes"], ["no", "yes"], [{"option": "no", "feedback": "Rename it."}, "yes"], ["no"], []]
        )
        if said:
            self.made.answers[entry] = said

    def decision(self, entry: str, target: str) -> None:
        aside = self.name()
        condition = self.chance.choice(
            ['context(\\"risk\\") == \\"high\\"', "findings() > 0", 'exists(\\"tool.output\\")']
        )
        self.lines += [
            decision(entry, condition, aside, target),
            f'stage "{aside}" kind="tool" command="true"',
            f'transition from="{aside}" to="{target}"',
        ]


def decision(name: str, when: str, then: str, otherwise: str) -> str:
    return f'stage "{name}" kind="decision" {{ route when="{when}" to="{then}"; route when="true" to="{otherwise}"; }}'


def generated(seed: int) -> Generated:
    """Return the workflow for a seed."""
    return Maker(Random(seed)).workflow()  # noqa: S311 - nothing secret
