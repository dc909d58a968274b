"""What would waste an agent's first hour, found before a run starts: all of it at once, as errors to print."""

import os
import re
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
from pipeline.findings.repository import asked, head
from pipeline.handlers.variables import expand_prompt, shell_command
from pipeline.language.model import LlmStage, ModelChoice, Stage, StageKind, ToolStage, Workflow, choose_model

SELF_CHECK = ".awf/self-check"
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks for them
_RUN_MAKE = r"\s*(?:exec\s+)?make(?:\s+(?P<target>[\w.-]*\w))?\s*(?:;|&&|\n|\|(?!\|)|$)"
_MAKE_FIRST = re.compile("^" + _RUN_MAKE)
_MAKE_OTHERWISE = re.compile(r"\belse" + _RUN_MAKE)
_SELF_CHECK_FIRST = re.compile(rf"^\s*(?:exec\s+)?(?:\./)?{re.escape(SELF_CHECK)}\b")
_INCLUDE = re.compile(r"^\s*[-s]?include\s", re.MULTILINE)


def goal_problems(name: str, entry: CatalogEntry, workflow: Workflow, goal: str) -> Iterator[AwfError]:
    """An empty goal where prompts or commands use it, and prompt files that cannot be read."""
    texts = dict[str, str]()
    for path in sorted(
        {path for stage in workflow.stages if isinstance(stage, LlmStage) for path in stage.prompt_file}
    ):
        try:
            if found := entry.prompt(path):  # a missing one is a diagnostic of the workflow
                texts[path] = read_text(found, "a prompt file has to be text in UTF-8 that you may read")
        except AwfError as error:
            yield error
    if (goal or workflow.goal).strip():
        return
    if users := [stage.id for stage in workflow.stages if _uses_goal(stage, texts)]:
        words = f"the goal is empty, and {format_stages(users)} {'uses' if len(users) == 1 else 'use'} $goal"
        yield AwfError(words, help=f'give one: awf run {name} --goal "..."')


def _uses_goal(stage: Stage, texts: Mapping[str, str]) -> bool:
    match stage:
        case LlmStage():
            prompts = [stage.prompt or "", *(texts.get(path, "") for path in stage.prompt_file)]
        case ToolStage():
            return "AWF_GOAL" in shell_command(stage.command).text
        case _:
            return False
    given = Context({Key.GOAL: "x"})
    return any(expand_prompt(text, "x", given) != expand_prompt(text, "", Context({})) for text in prompts)


def project_problems(workflow: Workflow, root: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[AwfError]:
    """What the workflow's workspace and the commands of its tool stages need, and the project does not have."""
    apart = [stage.id for stage in workflow.stages if stage.kind == StageKind.WORKSPACE_CREATE]
    commit = head(root, environ) if apart else ""
    if apart and not commit:
        words = f"{format_stages(apart)} needs a git repository with a commit, and there is none here"
        yield AwfError(words, help="make one: git init, git add, git commit")
    above = "" if cwd == root else f"{os.path.relpath(root, cwd)}/"
    project = ProjectFiles(root, above, environ if commit else None)
    missing = dict[tuple[str, str], list[str]]()
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and not stage.cwd and (lack := _lack(stage.command, project)):
            missing.setdefault(lack, []).append(stage.id)
    for (words, help), stages in missing.items():
        yield AwfError(f"{format_stages(stages)} cannot run: {words}", help=help)


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """The files that stages will see: those on disk, or with `environ` those of HEAD, which a worktree is made from."""

    root: Path
    above: str  # the path from where the user is to the root, as advice needs it
    environ: Mapping[str, str] | None

    def executable(self, name: str) -> bool:
        if self.environ is None:
            path = self.root / name
            return path.is_file() and bool(path.stat().st_mode & 0o111)
        return asked(self.root, self.environ, "ls-tree", "HEAD", name).startswith(("100755", "120000"))

    def text(self, name: str) -> str | None:
        if self.environ is not None:
            return asked(self.root, self.environ, "cat-file", "-p", f"HEAD:{name}") or None
        path = self.root / name
        return path.read_text(errors="replace") if path.is_file() else None


def _lack(command: str, project: ProjectFiles) -> tuple[str, str] | None:
    """What a command needs and the project does not have, and how to make it.

    Known are commands that begin with `make TARGET` or the self-check, and those that fall back from it to make. Of any
    other nothing is said: what it needs is not known, or made by the stages before it.
    """
    own = SELF_CHECK in command
    make = (_MAKE_OTHERWISE if own else _MAKE_FIRST).search(command)
    if own and project.executable(SELF_CHECK):
        return None
    where, commit = (" in HEAD, from which the worktree is made", " and commit it") if project.environ else ("", "")
    if make:
        target = make["target"] or ""
        lacking = _no_target(target, project)
        if not lacking:
            return None
        if not own:
            example = f"printf '{target or 'all'}:\\n\\tpytest -q\\n' >> {project.above}Makefile"
            return f"there is no {lacking}{where}", f"add it{commit}, such as: {example}"
        lost = f"there is neither an executable {SELF_CHECK} nor a {lacking}{where}"
    elif _SELF_CHECK_FIRST.search(command):
        lost = f"there is no executable {SELF_CHECK}{where}"
    else:
        return None
    path = f"{project.above}{SELF_CHECK}"
    example = f"mkdir -p {project.above}.awf; printf '#!/bin/sh\\nexec pytest -q\\n' > {path}; chmod +x {path}"
    return lost, f"write your check{commit}, such as: {example}"


def _no_target(target: str, project: ProjectFiles) -> str:
    """What make lacks; nothing where it has the target, or only make itself can tell."""
    text = next((text for name in _MAKEFILES if (text := project.text(name)) is not None), None)
    if text is None:
        return f'Makefile with a "{target}" target' if target else "Makefile"
    rule = rf"^(?:[^\t#:=\n]* )?(?:{re.escape(target)}|%|\S*\$\S*)(?: [^:=\n]*)?::?(?!=)"
    if not target or re.search(rule, text, re.MULTILINE) or _INCLUDE.search(text):
        return ""
    return f'"{target}" target in the Makefile'


async def agent_problems(workflow: Workflow, backends: BackendSelector, doctor: Doctor) -> list[AwfError]:
    """Ask every agent and model that the workflow uses for one word; an error for each that does not answer."""
    used = dict[tuple[str, ModelChoice], tuple[Backend, list[str]]]()
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            choice = choose_model(stage, workflow.models, doctor.settings.model_choice)
            backend = backends.choose(stage, choice.provider)
            used.setdefault((backend.name, choice), (backend, []))[1].append(stage.id)
    errors = []
    for (name, choice), (backend, stages) in used.items():
        call = await doctor.ask(backend, choice)
        if call.error:
            agent = f"{name} with the model {choice.model}" if choice.model else name
            said = f"{call.error}: {call.message}" if call.message else call.error
            words = f"{format_stages(stages)} cannot run: {agent} does not answer ({said})"
            errors.append(AwfError(words, help="see to the agent; awf doctor --probe asks all of them"))
    return errors
