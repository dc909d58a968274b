"""Checks of single stages: prompts, commands, paths, options and profiles."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import PurePosixPath

from pipeline.language.diagnostics import Problem, error, warning
from pipeline.language.model import (
    HumanStage,
    LlmStage,
    ParallelStage,
    StageKind,
    ToolStage,
    TriageStage,
    Workflow,
    WorkspaceStage,
    may_write,
)
from pipeline.text import did_you_mean


@error("AWF019")
def duplicate_stage(workflow: Workflow) -> Iterator[Problem]:
    """Two stages have the same id."""
    seen: set[str] = set()
    for stage in workflow.stages:
        if stage.id in seen:
            yield Problem(stage.spans.of("id"), f'duplicate stage "{stage.id}"', "rename one of them", stage.id)
        seen.add(stage.id)


@error("AWF021")
def prompt_source(workflow: Workflow) -> Iterator[Problem]:
    """A prompt is missing, empty, given twice, or in a file outside the repository."""
    for stage in workflow.stages:
        if not isinstance(stage, LlmStage | HumanStage):
            continue
        written, files = stage.spans.attributes, stage.prompt_file if isinstance(stage, LlmStage) else ()
        file_span = stage.spans.of("prompt_file")
        if "prompt" in written and "prompt_file" in written:
            message = f'stage "{stage.id}" has both "prompt" and "prompt_file"'
            yield Problem(file_span, message, "remove one of them", stage.id)
        elif "prompt" in written:
            if stage.prompt is not None and not stage.prompt.strip():
                message = f'the prompt of stage "{stage.id}" is empty'
                yield Problem(stage.spans.of("prompt"), message, "say what to do or decide", stage.id)
        elif isinstance(stage, LlmStage) and "prompt_file" not in written:
            help = 'add prompt="..." or prompt_file="path"'
            yield Problem(stage.spans.node, f'stage "{stage.id}" has no prompt', help, stage.id)
        elif isinstance(stage, LlmStage) and not files:
            yield Problem(file_span, f'stage "{stage.id}" names no prompt file', "name a file", stage.id)
        for path in files:
            if why := _why_outside(path):
                help = "use a path relative to the repository"
                yield Problem(file_span, f'prompt file "{path}" {why}', help, stage.id)


@error("AWF022")
def empty_command(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage has an empty command."""
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and "command" in stage.spans.attributes and not stage.command.strip():
            message = f'the command of stage "{stage.id}" is empty'
            yield Problem(stage.spans.of("command"), message, "say what to run", stage.id)


@error("AWF023")
def too_few_options(workflow: Workflow) -> Iterator[Problem]:
    """A human stage has fewer than two options."""
    for stage in workflow.stages:
        if isinstance(stage, HumanStage) and len(stage.options) < 2:
            message = f'stage "{stage.id}" has {"only one option" if stage.options else "no options"}'
            yield Problem(stage.spans.node, message, 'add: option "key" label="..." to="stage"', stage.id)


@error("AWF024")
def unknown_option(workflow: Workflow) -> Iterator[Problem]:
    """A human stage's `default` or `require_feedback_on` names an option that does not exist."""
    for stage in workflow.stages:
        if not isinstance(stage, HumanStage):
            continue
        keys = [option.key for option in stage.options]
        named = [("default", stage.default)] if stage.default is not None else []
        named += [("require_feedback_on", key) for key in stage.require_feedback_on]
        for attribute, key in named:
            if key not in keys:
                help = did_you_mean(key, keys) or f"its options are {', '.join(keys)}"
                yield Problem(stage.spans.of(attribute), f'stage "{stage.id}" has no option "{key}"', help, stage.id)


@error("AWF028")
def unknown_profile(workflow: Workflow) -> Iterator[Problem]:
    """A stage uses a model profile that is not declared."""
    names = [profile.name for profile in workflow.models.profiles]
    for stage in workflow.stages:
        if (
            isinstance(stage, LlmStage | TriageStage)
            and stage.model_profile is not None
            and stage.model_profile not in names
        ):
            message = f'unknown model profile "{stage.model_profile}" in stage "{stage.id}"'
            help = did_you_mean(stage.model_profile, names) or 'declare it: models { profile "name" }'
            yield Problem(stage.spans.of("model_profile"), message, help, stage.id)


@error("AWF032")
def path_outside(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage's `cwd` is absolute or leaves the workspace."""
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and stage.cwd is not None and (why := _why_outside(stage.cwd)):
            help = "name a directory inside the workspace"
            yield Problem(stage.spans.of("cwd"), f'directory "{stage.cwd}" {why}', help, stage.id)


def _why_outside(path: str) -> str | None:
    """Why a path is not inside the repository, or None."""
    if PurePosixPath(path).is_absolute():
        return "is absolute"
    if path.startswith("~"):
        return "is in a home directory"
    return "leaves the repository with .." if ".." in PurePosixPath(path).parts else None


@error("AWF033")
def repeated_name(workflow: Workflow) -> Iterator[Problem]:
    """Two options of a stage, two model profiles or two inputs have the same name."""
    for what, declared in (("model profile", workflow.models.profiles), ("input", workflow.inputs)):
        names = Counter(item.name for item in declared)
        for item in declared:
            if names[item.name] > 1:
                message = f'{what} "{item.name}" is declared twice'
                yield Problem(item.spans.of("name"), message, "remove one of them")
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            keys = Counter(option.key for option in stage.options)
            for option in stage.options:
                if keys[option.key] > 1:
                    message = f'stage "{stage.id}" has the option "{option.key}" twice'
                    yield Problem(option.spans.of("key"), message, "rename one of them", stage.id)


_ALWAYS_SUCCEED = frozenset(
    {"tee", "cat", "head", "tail", "less", "more", "sed", "awk", "sort", "uniq", "tr", "cut", "ts"}
)
_PIPE = re.compile(r"(?<!\|)\|&?(?!\|)")


@warning("AWF105")
def piped_exit_code(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage pipes its output into a program that always succeeds, which hides the real exit code."""
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and (program := _last_in_pipe(stage.command)) in _ALWAYS_SUCCEED:
            message = f'stage "{stage.id}" reports the exit code of "{program}", not of the command before it'
            help = "remove the pipe: the complete output is kept anyway"
            yield Problem(stage.spans.of("command"), message, help, stage.id)


def _last_in_pipe(command: str) -> str | None:
    """The program whose exit code hides those before it in a pipe, or None."""
    if not _PIPE.search(command) or "pipefail" in command:
        return None
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    try:
        parsed = list(words)
    except ValueError:
        return None  # an unclosed quote: the shell reports it
    return next((after for pipe, after in reversed([*pairwise(parsed)]) if pipe in ("|", "|&")), None)


@warning("AWF107")
def timeout_without_default(workflow: Workflow) -> Iterator[Problem]:
    """A human stage has a timeout and no default option."""
    for stage in workflow.stages:
        if isinstance(stage, HumanStage) and stage.timeout is not None and stage.default is None:
            message = f'stage "{stage.id}" has a timeout and no default option: it fails if nobody answers'
            yield Problem(stage.spans.of("timeout"), message, 'add: default "key"', stage.id)


@warning("AWF109")
def shared_workspace(workflow: Workflow) -> Iterator[Problem]:
    """Branches that run at the same time may all change files of the workspace."""
    workspaces = [stage.kind for stage in workflow.stages if isinstance(stage, WorkspaceStage)]
    if StageKind.WORKSPACE_CREATE not in workspaces:
        return
    for stage in workflow.stages:
        if isinstance(stage, ParallelStage) and stage.max_parallel != 1:
            branches = [branch.stage for branch in stage.branches if branch.stage in workflow.by_id]
            writers = [f'"{name}"' for name in branches if may_write(workflow.by_id[name])]
            if len(writers) > 1:
                message = f"{', '.join(writers[:-1])} and {writers[-1]} may write to the workspace at the same time"
                help = 'set access="read-only" or effects="none" on those that only read, or run them one by one'
                yield Problem(stage.spans.node, message, help, stage.id)


CHECKS = (
    *(duplicate_stage, prompt_source, empty_command, too_few_options, unknown_option, unknown_profile),
    *(path_outside, repeated_name, piped_exit_code, timeout_without_default, shared_workspace),
)
