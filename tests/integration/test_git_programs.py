"""No command of awf runs a program that a repository's own configuration names."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.integration.conftest import Awf
from tests.integration.test_structured import CODE, found, item

WORKFLOW = """workflow "W" {
version 2
start "ws"
stage "ws" kind="workspace.create"
stage "edit" kind="tool" command="echo x >> app.py && echo y > new.txt"
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "merge" kind="workspace.merge"
stage "clean" kind="workspace.cleanup"
stage "end" kind="exit"
transition from="ws" to="edit"
transition from="edit" to="rev"
transition from="rev" to="merge"
transition from="merge" to="clean"
transition from="clean" to="end"
}
"""
PLAIN = """workflow "W" {
version 2
start "rev"
stage "rev" kind="llm" auto_status=true prompt="Review it"
stage "end" kind="exit"
transition from="rev" to="end"
}
"""


class Trap:
    """A repository in which every setting that can name a program names one that leaves a mark."""

    def __init__(self, awf: Awf, root: Path) -> None:
        self._awf = awf
        self.root, self.marks = root / "project", root / "marks"
        self.root.mkdir()
        self.marks.mkdir()
        (self.root / "app.py").write_text(CODE)
        (self.root / ".gitattributes").write_text("*.py filter=trap diff=trap merge=trap\n*.txt filter=a=b\n")
        self.git("init", "-q", "-b", "main")
        self.git("add", "-A")
        self.git("commit", "-qm", "start")
        self.arm()

    def git(self, *words: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.root.parent / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=self.root, check=True, capture_output=True, env=env)

    def program(self, name: str, then: str = "cat") -> str:
        path = self.root.parent / f"trap-{name}.sh"
        path.write_text(f"#!/bin/sh\necho {name} >> {self.marks}/{name}\n{then}\n")
        path.chmod(0o755)
        return str(path)

    def arm(self) -> None:
        hooks = self.root / ".git/hooks"
        hooks.mkdir(exist_ok=True)
        for name in (
            "pre-commit",
            "post-commit",
            "post-checkout",
            "post-merge",
            "post-index-change",
            "reference-transaction",
        ):
            (hooks / name).write_text(f"#!/bin/sh\necho {name} >> {self.marks}/{name}\n")
            (hooks / name).chmod(0o755)
        settings = {
            "core.fsmonitor": self.program("fsmonitor", "exit 1"),
            "core.hooksPath": str(hooks),
            "core.pager": self.program("pager"),
            "core.editor": self.program("editor"),
            "core.askPass": self.program("askpass"),
            "core.sshCommand": self.program("ssh"),
            "diff.external": self.program("external"),
            "diff.trap.command": self.program("diffdriver"),
            "diff.trap.textconv": self.program("textconv", 'cat "$1"'),
            "filter.trap.clean": self.program("clean"),
            "filter.trap.smudge": self.program("smudge"),
            "filter.trap.required": "true",
            "filter.a=b.clean": self.program("equals"),
            "merge.trap.driver": self.program("driver", "exit 0"),
            "gpg.program": self.program("gpg", "exit 1"),
            "commit.gpgSign": "true",
            "alias.status": f"!{self.program('alias')}",
            "credential.helper": self.program("credential"),
        }
        lines = []
        for key, value in settings.items():
            section, _, rest = key.partition(".")
            name, _, last = rest.rpartition(".")
            lines.append(f'[{section}{f" {chr(34)}{name}{chr(34)}" if name else ""}]\n\t{last} = "{value}"\n')
        with (self.root / ".git/config").open("a") as config:
            config.write("".join(lines))
        bare = self.root / "nested"
        (bare / "objects").mkdir(parents=True)
        (bare / "refs").mkdir()
        (bare / "HEAD").write_text("ref: refs/heads/main\n")
        (bare / "config").write_text(
            f"[core]\n\tbare = false\n\tworktree = .\n\tfsmonitor = {self.program('nested')}\n"
        )

    def awf(self, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return self._awf(*arguments, cwd=cwd or self.root)

    def sprung(self) -> list[str]:
        return sorted(path.name for path in self.marks.iterdir())


@pytest.fixture
def trap(awf: Awf, tmp_path: Path) -> Trap:
    return Trap(awf, tmp_path)


@pytest.mark.parametrize("workflow", [WORKFLOW, PLAIN], ids=["worktree", "checkout"])
def test_no_program_of_the_repository_is_run(trap: Trap, workflow: str) -> None:
    """Hooks, filters, drivers, monitors, signers and aliases of the repository are never run."""
    (trap.root / "w.awf.kdl").write_text(workflow)
    (trap.root / "script.json").write_text(json.dumps({"rev": found(item(severity="P3"))}))
    (trap.root / "given.json").write_text(found(item()))
    ran = trap.awf("run", "w.awf.kdl", "--backend", "scripted", "--script", "script.json", "--run-id", "r")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    for words in (
        ("status", "r"),
        ("findings", "import", "given.json"),
        ("review", "--mode", "verify", "--open", "--backend", "scripted"),
        ("findings", "list"),
        ("report", "r"),
        ("findings", "why", "1"),
        ("verdict",),
    ):
        done = trap.awf(*words)
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode != 2, done.stderr
        assert trap.sprung() == [], words
    trap.awf("findings", "list", cwd=trap.root / "nested")
    trap.awf("findings", "import", str(trap.root / "given.json"), cwd=trap.root / "nested")
    assert trap.sprung() == []


def test_the_traps_are_set(trap: Trap) -> None:
    """Git as a person runs it does run them."""
    (trap.root / "app.py").write_text("changed\n")
    trap.git("-c", "commit.gpgSign=false", "commit", "-qam", "by hand")
    assert {"clean", "fsmonitor", "post-commit"} <= set(trap.sprung())


@pytest.mark.parametrize("worktree", [True, False], ids=["worktree", "checkout"])
def test_no_program_of_a_nested_repository_is_run(awf: Awf, tmp_path: Path, worktree: bool) -> None:  # noqa: FBT001 - drawn
    """An agent makes a nested repository, names a filter there, and links it: git does not look into it."""
    root, marks = tmp_path / "project", tmp_path / "marks"
    root.mkdir()
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\nenv >> {marks}\ncat\n")
    trap.chmod(0o755)
    evil = tmp_path / "evil.sh"
    evil.write_text(
        "#!/bin/sh\nset -e\ng='git -c user.name=t -c user.email=t@t.invalid'\n[ -d sub ] && exit 0\n"
        "git init -q sub; cd sub; echo '* filter=x' > .gitattributes; echo 1 > f; $g add -A; $g commit -qm y\n"
        f"git config filter.x.clean {trap}; cd ..; $g add sub; echo 22 > sub/f\n"
    )
    evil.chmod(0o755)
    text = (
        WORKFLOW
        if worktree
        else PLAIN.replace('start "rev"', 'start "edit"').replace(
            'transition from="rev" to="end"',
            'stage "edit" kind="tool" command="x"\ntransition from="edit" to="rev"\ntransition from="rev" to="end"',
        )
    )
    command = "echo x >> app.py && echo y > new.txt" if worktree else '"x"'
    text = text.replace(command, f"{evil}" if worktree else f'"{evil}"')
    (root / "w.awf.kdl").write_text(text)
    (root / "app.py").write_text(CODE)
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "start"]):
        named = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", *words]
        subprocess.run(named, cwd=root, check=True, capture_output=True)
    (root / "s.json").write_text(json.dumps({"rev": [found(item())]}))
    awf("run", "w.awf.kdl", "--run-id", "r", "--script", "s.json", cwd=root, ANTHROPIC_API_KEY="sk-ant-secret")
    awf("findings", "import", "s.json", cwd=root, ANTHROPIC_API_KEY="sk-ant-secret")
    assert not marks.exists()
    assert "rev" in awf("status", "r", cwd=root).stdout
