"""What would stop a run halfway, found before it starts: all problems at once, as errors to print."""

import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.app.catalog import CatalogEntry
from pipeline.app.doctor import Doctor
from pipeline.backends.select import BackendSelector, format_stages
from pipeline.engine.context import Context, Key
from pipeline.engine.ports import Backend
from pipeline.errors import AwfError
from pipeline.files import read_text
from pipeline.findings.git import query_git, read_checkout
from pipeline.handlers.variables import expand_prompt, shell_command
from pipeline.language.model import (
    LlmStage,
    ModelChoice,
    Stage,
    StageKind,
    ToolStage,
    Workflow,
    agent_stages,
    choose_model,
    prompt_files,
)

SELF_CHECK = ".awf/self-check"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks for them
_RUN_MAKE = r"\s*(?:exec\s+)?make(?:\s+(?P<target>[\w.-]*\w))?\s*(?:;|&&|\n|\|(?!\|)|$)"
_MAKE_FIRST = re.compile("^" + _RUN_MAKE)
_MAKE_FALLBACK = re.compile(r"\belse" + _RUN_MAKE)
_SELF_CHECK_FIRST = re.compile(rf"^\s*(?:exec\s+)?(?:\./)?{re.escape(SELF_CHECK)}\b")
_INCLUDE = re.compile(r"^\s*[-s]?include\s", re.MULTILINE)


def goal_problems(name: str, entry: CatalogEntry, workflow: Workflow, goal: str) -> Iterator[AwfError]:
    """An empty goal that prompts or commands use, and prompt files that cannot be read."""
    texts = dict[str, str]()
    for path in prompt_files(workflow):
        try:
            if found := entry.prompt(path):  # a missing file is a diagnostic of the workflow
                texts[path] = read_text(found, "a prompt file must be readable UTF-8 text")
        except AwfError as error:
            yield error
    if (goal or workflow.goal).strip():
        return
    users = [stage.id for stage in workflow.stages if _uses_goal(stage, texts)]
    if users:
        words = f"the goal is empty, and $goal is used by {format_stages(users)}"
        yield AwfError(words, help=f'give one: awf run {name} --goal "..."')


def _uses_goal(stage: Stage, texts: Mapping[str, str]) -> bool:
    if isinstance(stage, ToolStage):
        return "AWF_GOAL" in shell_command(stage.command).text
    if not isinstance(stage, LlmStage):
        return False
    prompts = [stage.prompt or "", *(texts.get(path, "") for path in stage.prompt_file)]
    given = Context({Key.GOAL: "x"})
    return any(expand_prompt(text, "x", given) != expand_prompt(text, "", Context({})) for text in prompts)


def project_problems(workflow: Workflow, root: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[AwfError]:
    """What the workspace and the commands of tool stages need and the project does not have."""
    isolated = [stage.id for stage in workflow.stages if stage.kind == StageKind.WORKSPACE_CREATE]
    commit = read_checkout(root, environ).head if isolated else ""
    if isolated and not commit:
        words = f"{format_stages(isolated)} needs a git repository with a commit"
        yield AwfError(words, help="create one: git init, git add, git commit")
    prefix = "" if cwd == root else f"{os.path.relpath(root, cwd)}/"
    project = ProjectFiles(root, prefix, environ if commit else None)
    missing = defaultdict[tuple[str, str], list[str]](list)
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and not stage.cwd:
            lack = _missing_check(stage.command, project)
            if lack:
                missing[lack].append(stage.id)
    for (words, help), stages in missing.items():
        yield AwfError(f"{format_stages(stages)} cannot run: {words}", help=help)


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files that stages will see: those on disk, or with `environ` those of HEAD, from which a worktree is made."""

    root: Path
    prefix: str  # from the current directory to the root, for the commands that messages suggest
    environ: Mapping[str, str] | None

    def executable(self, name: str) -> bool:
        """Whether there is an executable file of this name."""
        if self.environ is None:
            path = self.root / name
            return path.is_file() and bool(path.stat().st_mode & 0o111)
        return query_git(self.root, self.environ, "ls-tree", "HEAD", name).startswith(("100755", "120000"))

    def text(self, name: str) -> str | None:
        """The text of a file; None without one."""
        if self.environ is not None:
            return query_git(self.root, self.environ, "cat-file", "-p", f"HEAD:{name}") or None
        path = self.root / name
        return path.read_text(errors="replace") if path.is_file() else None


def _missing_check(command: str, project: ProjectFiles) -> tuple[str, str] | None:
    """What a command needs and the project does not have, and how to add it.

    Only commands that start with `make TARGET` or the self-check, or fall back from it to make, are understood. What
    any other command needs is unknown, or made by the stages before it.
    """
    where, commit = (" in HEAD, from which the worktree is made", " and commit it") if project.environ else ("", "")
    path = f"{project.prefix}{SELF_CHECK}"
    write_check = f"mkdir -p {project.prefix}.awf; printf '#!/bin/sh\\nexec pytest -q\\n' > {path}; chmod +x {path}"
    if SELF_CHECK not in command:
        make = _MAKE_FIRST.search(command)
        lacking = make and _missing_target(make["target"], project)
        if not make or not lacking:
            return None
        example = f"printf '{make['target'] or 'all'}:\\n\\tpytest -q\\n' >> {project.prefix}Makefile"
        return f"there is no {lacking}{where}", f"add it{commit}, such as: {example}"
    if project.executable(SELF_CHECK):
        return None
    make = _MAKE_FALLBACK.search(command)
    if make:
        lacking = _missing_target(make["target"], project)
        words = f"there is neither an executable {SELF_CHECK} nor a {lacking}{where}"
        return (words, f"write your check{commit}, such as: {write_check}") if lacking else None
    if _SELF_CHECK_FIRST.search(command):
        return f"there is no executable {SELF_CHECK}{where}", f"write your check{commit}, such as: {write_check}"
    return None


def _missing_target(target: str | None, project: ProjectFiles) -> str:
    """Return what make lacks; empty if it has the target, or if only make itself can tell."""
    texts = (project.text(name) for name in _MAKEFILES)
    makefile = next((text for text in texts if text is not None), None)
    if makefile is None:
        return f'Makefile with a "{target}" target' if target else "Makefile"
    if not target or _INCLUDE.search(makefile):
        return ""
    rule = rf"^(?:[^\t#:=\n]* )?(?:{re.escape(target)}|%|\S*\$\S*)(?: [^:=\n]*)?::?(?!=)"
    return "" if re.search(rule, makefile, re.MULTILINE) else f'"{target}" target in the Makefile'


async def agent_problems(workflow: Workflow, backends: BackendSelector, doctor: Doctor) -> list[AwfError]:
    """Ask every agent and model of the workflow for one word; an error for each that does not answer."""
    used = dict[tuple[str, ModelChoice], Backend]()
    stages = defaultdict[tuple[str, ModelChoice], list[str]](list)
    for stage in agent_stages(workflow):
        choice = choose_model(stage, workflow.models, doctor.settings.model_choice, doctor.settings.profiles)
        backend = backends.choose(stage, choice.provider)
        used[backend.name, choice] = backend
        stages[backend.name, choice].append(stage.id)
    errors = []
    for (name, choice), backend in used.items():
        call = await doctor.ask(backend, choice)
        if call.error:
            agent = f"{name} with the model {choice.model}" if choice.model else name
            cause = f"{call.error}: {call.message}" if call.message else call.error
            words = f"{format_stages(stages[name, choice])} cannot run: {agent} does not answer ({cause})"
            errors.append(AwfError(words, help="fix the agent; awf doctor --probe asks all of them"))
    return errors
