"""What is checked before a run starts: everything that would stop it halfway, in one list, with exit code 2."""

import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from tests.integration.conftest import Awf

SELF_CHECK = ".awf/self-check"
FALLBACK = f"if [ -x {SELF_CHECK} ]; then exec {SELF_CHECK}; else exec make check; fi"
Refused = Callable[..., list[str]]


def workflow(folder: Path, *stages: str) -> Path:
    names = [stage.split('"')[1] for stage in stages] + ["end"]
    lines = [*stages, 'stage "end" kind="exit"']
    lines += [f'transition from="{one}" to="{two}"' for one, two in pairwise(names)]
    path = folder / "w.awf.kdl"
    path.write_text(f'workflow "W" {{\nversion 2\nstart "{names[0]}"\n' + "\n".join(lines) + "\n}\n")
    return path


def tool(command: str, more: str = "") -> str:
    return f'stage "check" kind="tool" command="{command}"{more}'


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def problems(awf: Awf, tmp_path: Path) -> Refused:
    """Run a workflow in a dry run; the problems it was refused for, none if it ran."""

    def refused(*arguments: str, name: str = "w.awf.kdl", backend: str = "scripted") -> list[str]:
        done = awf("run", name, "--backend", backend, *arguments)
        assert "Traceback" not in done.stderr
        found = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert (done.returncode == 2) == bool(found), done.stderr
        if found:
            assert not (tmp_path / ".awf/awf.db").exists()
            assert done.stderr.count("help: ") == len(found)
        return found

    return refused


def test_all_problems_of_a_shipped_workflow_are_listed_at_once(awf: Awf, tmp_path: Path) -> None:
    """No goal, no agent, no check: three errors with what to do about each, exit code 2, and nothing is recorded."""
    done = awf("run", "quick-dev", PATH="/nowhere")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.returncode, done.stdout, len(errors)) == (2, "", 3)
    for name in ("plan", "implement", "review_code", "fix"):
        assert name in done.stderr
    assert "awf run quick-dev --goal" in done.stderr
    assert f"chmod +x {SELF_CHECK}" in done.stderr
    assert not (tmp_path / ".awf").exists()


@pytest.mark.parametrize(
    "stage",
    [
        'stage "a" kind="llm" prompt="Do $goal"',
        'stage "a" kind="llm" prompt="Do ${goal}"',
        'stage "a" kind="llm" prompt="Do ${context.graph.goal}"',
        'stage "a" kind="llm" prompt_file="p.md"',
        'stage "a" kind="tool" command="echo $goal"',
    ],
)
def test_a_goal_that_is_used_is_needed(problems: Refused, tmp_path: Path, stage: str) -> None:
    """Wherever a prompt or a command uses it; the goal that the workflow itself sets counts."""
    (tmp_path / "p.md").write_text("Do $goal\n")
    path = workflow(tmp_path, stage)
    (error,) = problems("--goal", "  ")
    assert '"a"' in error
    assert problems("--goal", "this") == []
    path.write_text(path.read_text().replace("version 2", 'version 2\ngoal "this"'))
    assert problems() == []


def test_a_goal_that_is_not_used_is_not_needed(problems: Refused, tmp_path: Path) -> None:
    """`$goals` is something else."""
    workflow(tmp_path, 'stage "a" kind="llm" prompt="Do $goals"', tool("echo $goals"))
    assert problems() == []


def test_missing_agents_are_listed_with_their_stages(problems: Refused, tmp_path: Path) -> None:
    """One error for each agent; a dry run needs those that stages name, and no others."""
    stages = [
        f'stage "{name}" kind="llm" prompt="x" backend="{backend}"'
        for name, backend in (("a", "acp"), ("b", "acp"), ("c", "nosuch"))
    ]
    workflow(tmp_path, *stages, 'stage "d" kind="llm" prompt="x"')
    first, second = problems()
    assert ('"a" and "b"' in first, '"c"' in second) == (True, True)


def test_prompt_files_are_in_the_same_list(awf: Awf, tmp_path: Path) -> None:
    """A missing file, a file that is not text, and a missing goal are listed together."""
    (tmp_path / "binary.md").write_bytes(b"\xff\xfe")
    workflow(
        tmp_path,
        'stage "a" kind="llm" prompt_file="lost.md"',
        'stage "c" kind="llm" prompt="Do $goal"',
        'stage "b" kind="llm" prompt_file="binary.md"',
    )
    done = awf("run", "w.awf.kdl", "--backend", "scripted")
    assert done.returncode == 2
    for part in ("AWF037", "lost.md", "binary.md", "goal is empty"):
        assert part in done.stderr + done.stdout


@pytest.mark.parametrize("command", [FALLBACK, "make check", "exec make check", f"exec {SELF_CHECK}"])
def test_a_missing_check_command(problems: Refused, tmp_path: Path, command: str) -> None:
    """Neither the self-check nor the make target: refused in a dry run too, since the command really runs."""
    workflow(tmp_path, tool(command))
    (error,) = problems()
    assert '"check"' in error
    (tmp_path / "Makefile").write_text(".PHONY: check\nCHECK := check\nchecks: check-all\n\techo check: no\n")
    assert len(problems()) == 1
    executable(tmp_path / SELF_CHECK, "#!/bin/sh\n")
    assert (problems() == []) is (SELF_CHECK in command)


@pytest.mark.parametrize(
    "makefile",
    [
        "check:\n\ttrue\n",
        "lint check: ; true\n",
        "check :: \n\ttrue\n",
        "include more.mk\n",
        "T = check\n$(T):\n\ttrue\n",
    ],
)
@pytest.mark.parametrize("name", ["Makefile", "GNUmakefile"])
def test_a_make_target_that_exists_or_may_exist(problems: Refused, tmp_path: Path, makefile: str, name: str) -> None:
    """A run is not refused for what only make itself can tell."""
    workflow(tmp_path, tool(FALLBACK))
    (tmp_path / name).write_text(makefile)
    (tmp_path / "more.mk").write_text("check:\n\ttrue\n")
    assert problems() == []


@pytest.mark.parametrize(
    "command",
    ["make check || true", "make -C sub check", "test -e Makefile && make check", f"test -e {SELF_CHECK} || true"],
)
def test_commands_of_another_form_are_left_alone(problems: Refused, tmp_path: Path, command: str) -> None:
    """What they need is unknown, or an earlier stage may make it."""
    workflow(tmp_path, tool(command, " goal_gate=false"))
    assert problems() == []


def test_a_worktree_has_only_what_is_committed(problems: Refused, tmp_path: Path) -> None:
    """With a workspace.create stage there must be a repository with the check in it."""
    workflow(tmp_path, 'stage "w" kind="workspace.create"', tool(FALLBACK))
    assert len(problems()) == 2
    executable(tmp_path / SELF_CHECK, "#!/bin/sh\n")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "empty"], check=True)
    (error,) = problems()
    assert "HEAD" in error
    subprocess.run([*git, "add", SELF_CHECK], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "check"], check=True)
    assert problems() == []


def test_preflight_asks_every_agent(problems: Refused, tmp_path: Path) -> None:
    """`--preflight` refuses a run whose agent does not answer, and asks it once for all of its stages."""
    executable(tmp_path / "agent", f"#!/bin/sh\ncat >/dev/null\necho asked >> {tmp_path}/asked\necho OK\n")
    executable(tmp_path / "broken", "#!/bin/sh\necho 'not logged in' >&2\nexit 1\n")
    workflow(tmp_path, 'stage "a" kind="llm" prompt="x"', 'stage "b" kind="llm" prompt="x"')
    (error,) = problems("--preflight", "--agent-command", str(tmp_path / "broken"), backend="command")
    assert '"a" and "b"' in error
    assert problems("--preflight", "--agent-command", str(tmp_path / "agent"), backend="command") == []
    assert len((tmp_path / "asked").read_text().splitlines()) == 3  # once before the run, and once for each stage


def test_advice_in_a_subdirectory_names_the_root(awf: Awf, tmp_path: Path) -> None:
    """The example writes the check where the run will look for it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/HEAD").touch()
    (tmp_path / "sub").mkdir()
    workflow(tmp_path / "sub", tool(FALLBACK))
    done = awf("run", "w.awf.kdl", "--backend", "scripted", cwd=tmp_path / "sub")
    assert done.returncode == 2
    example = done.stderr.partition("such as: ")[2]
    subprocess.run(["sh", "-c", example], cwd=tmp_path / "sub", check=True)
    assert (tmp_path / SELF_CHECK).read_text() == "#!/bin/sh\nexec pytest -q\n"


def test_preflight_is_for_this_machine(awf: Awf, tmp_path: Path) -> None:
    """The agents of a cluster's workers cannot be asked from here, and an option that does nothing is refused."""
    workflow(tmp_path, 'stage "a" kind="llm" prompt="x"')
    done = awf("run", "w.awf.kdl", "--preflight", "--on", "temporal://nowhere:1/x", "--artifacts", "shared")
    assert done.returncode == 2
    assert "--preflight" in done.stderr
