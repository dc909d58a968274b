"""Rules about single stages: their prompts, commands, paths, options and profiles."""

from collections import Counter
from collections.abc import Iterator
from pathlib import PurePosixPath

from pipeline.language.diagnostics import Problem, error
from pipeline.language.model import HumanStage, LlmStage, ToolStage, Workflow
from pipeline.text import did_you_mean


@error("AWF019")
def duplicate_stage(workflow: Workflow) -> Iterator[Problem]:
    """Two stages have the same id.

    ## Why is this bad?
    Transitions, conditions and what a stage leaves in the context all go by its id.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make"
    stage "build" kind="tool" command="make all"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make"
    stage "build_all" kind="tool" command="make all"
    transition from="build" to="build_all"
    transition from="build_all" to="done"
    ```
    """
    if len(workflow.by_id) == len(workflow.stages):
        return
    seen: set[str] = set()
    for stage in workflow.stages:
        if stage.id in seen:
            yield Problem(stage.at.of("id"), f'a second stage "{stage.id}"', "give it a name of its own", stage.id)
        seen.add(stage.id)


@error("AWF021")
def prompt_source(workflow: Workflow) -> Iterator[Problem]:
    """An `llm` stage has exactly one of `prompt` and `prompt_file`, and neither is empty or points outside.

    `prompt_file` names one or more files, separated by commas, relative to the repository.

    ## Why is this bad?
    With none an agent would be started with nothing to do; with both, one would be ignored. A path that is absolute or
    climbs with `..` means something else on every machine.

    ## Example
    ```kdl
    stage "plan" kind="llm"
    transition from="plan" to="done"
    ```

    ## Use instead
    ```kdl
    stage "plan" kind="llm" prompt="Plan the change for: $goal"
    transition from="plan" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, LlmStage):
            yield from _prompt_problems(stage)
        elif isinstance(stage, HumanStage) and "prompt" in stage.at.attributes and not stage.prompt.strip():
            yield Problem(stage.at.of("prompt"), f'stage "{stage.id}" asks nothing', "say what to decide", stage.id)


def _prompt_problems(stage: LlmStage) -> Iterator[Problem]:
    written = stage.at.attributes
    if "prompt" in written and "prompt_file" in written:
        message = f'stage "{stage.id}" has both "prompt" and "prompt_file"'
        yield Problem(stage.at.of("prompt_file"), message, "keep one of them", stage.id)
    elif "prompt" in written:
        if stage.prompt is not None and not stage.prompt.strip():
            yield Problem(
                stage.at.of("prompt"), f'the prompt of stage "{stage.id}" is empty', "say what to do", stage.id
            )
    elif "prompt_file" not in written:
        help = 'add prompt="..." or prompt_file="path"'
        yield Problem(stage.at.span, f'stage "{stage.id}" has no prompt', help, stage.id)
    elif not stage.prompt_file:
        yield Problem(stage.at.of("prompt_file"), f'stage "{stage.id}" names no prompt file', "name one", stage.id)
    for path in stage.prompt_file:
        if why := _points_outside(path):
            help = "name it relative to the repository"
            yield Problem(stage.at.of("prompt_file"), f'the prompt file "{path}" {why}', help, stage.id)


@error("AWF022")
def empty_command(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage's command is empty.

    ## Why is this bad?
    The shell runs nothing with success, so an empty check always passes.

    ## Example
    ```kdl
    stage "check" kind="tool" command=""
    transition from="check" to="done"
    ```

    ## Use instead
    ```kdl
    stage "check" kind="tool" command="make check"
    transition from="check" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and "command" in stage.at.attributes and not stage.command.strip():
            yield Problem(
                stage.at.of("command"), f'the command of stage "{stage.id}" is empty', "say what to run", stage.id
            )


@error("AWF023")
def too_few_options(workflow: Workflow) -> Iterator[Problem]:
    """A human stage has fewer than two options.

    ## Why is this bad?
    A question with one answer is not a question.

    ## Example
    ```kdl
    stage "ask" kind="human" prompt="Go on?" {
      option "yes" label="Go on" to="done"
    }
    ```

    ## Use instead
    ```kdl
    stage "ask" kind="human" prompt="Go on?" {
      option "yes" label="Go on" to="done"
      option "no" label="Build it first" to="build"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, HumanStage) and len(stage.options) < 2:
            message = f'stage "{stage.id}" offers {["no option", "one option"][len(stage.options)]}'
            help = 'add another: option "key" label="..." to="stage"'
            yield Problem(stage.at.span, message, help, stage.id)


@error("AWF024")
def unknown_option(workflow: Workflow) -> Iterator[Problem]:
    """A human stage's `default` or `require_feedback_on` names an option that it does not have.

    ## Why is this bad?
    The default would never be taken and the feedback never be asked for.

    ## Example
    ```kdl
    stage "ask" kind="human" prompt="Release?" timeout="2d" {
      option "yes" label="Release" to="done"
      option "no" label="Build it again" to="build"
      default "nope"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "ask" kind="human" prompt="Release?" timeout="2d" {
      option "yes" label="Release" to="done"
      option "no" label="Build it again" to="build"
      default "no"
    }
    stage "build" kind="tool" command="make"
    transition from="build" to="done"
    ```
    """
    for stage in workflow.stages:
        if not isinstance(stage, HumanStage):
            continue
        keys = [option.key for option in stage.options]
        named = [("default", stage.default)] if stage.default is not None else []
        named += [("require_feedback_on", key) for key in stage.require_feedback_on]
        for attribute, key in named:
            if key not in keys:
                message = f'stage "{stage.id}" has no option "{key}"'
                help = did_you_mean(key, keys) or f"its options are {', '.join(keys)}"
                yield Problem(stage.at.of(attribute), message, help, stage.id)


@error("AWF028")
def unknown_profile(workflow: Workflow) -> Iterator[Problem]:
    """A stage asks for a model profile that is not declared.

    ## Why is this bad?
    The stage would run with some other model, and nobody would notice but the bill.

    ## Example
    ```kdl
    models { profile "heavy" model="claude-opus-4-6"; }
    stage "plan" kind="llm" prompt="Plan it" model_profile="haevy"
    transition from="plan" to="done"
    ```

    ## Use instead
    ```kdl
    models { profile "heavy" model="claude-opus-4-6"; }
    stage "plan" kind="llm" prompt="Plan it" model_profile="heavy"
    transition from="plan" to="done"
    ```
    """
    names = [profile.name for profile in workflow.models.profiles]
    for stage in workflow.stages:
        if isinstance(stage, LlmStage) and stage.model_profile is not None and stage.model_profile not in names:
            message = f'stage "{stage.id}" asks for the model profile "{stage.model_profile}", which is not declared'
            help = did_you_mean(stage.model_profile, names) or 'declare it: models { profile "name" model="..." }'
            yield Problem(stage.at.of("model_profile"), message, help, stage.id)


@error("AWF032")
def path_outside(workflow: Workflow) -> Iterator[Problem]:
    """A tool stage's `cwd` is absolute or climbs out of the workspace.

    ## Why is this bad?
    A command that runs elsewhere changes what no checkpoint covers.

    ## Example
    ```kdl
    stage "build" kind="tool" command="make" cwd="../other"
    transition from="build" to="done"
    ```

    ## Use instead
    ```kdl
    stage "build" kind="tool" command="make" cwd="packages/core"
    transition from="build" to="done"
    ```
    """
    for stage in workflow.stages:
        if isinstance(stage, ToolStage) and stage.cwd is not None and (why := _points_outside(stage.cwd)):
            help = "name a directory inside the workspace"
            yield Problem(stage.at.of("cwd"), f'the directory "{stage.cwd}" {why}', help, stage.id)


@error("AWF033")
def repeated_name(workflow: Workflow) -> Iterator[Problem]:
    """Two options of one stage, or two model profiles, have the same name.

    ## Why is this bad?
    They are chosen by name, so one of the two could never be chosen.

    ## Example
    ```kdl
    models {
      profile "fast" model="claude-sonnet-4-5"
      profile "fast" model="claude-haiku-4-5"
    }
    stage "plan" kind="llm" prompt="Plan it" model_profile="fast"
    transition from="plan" to="done"
    ```

    ## Use instead
    ```kdl
    models {
      profile "fast" model="claude-haiku-4-5"
    }
    stage "plan" kind="llm" prompt="Plan it" model_profile="fast"
    transition from="plan" to="done"
    ```
    """
    profiles = Counter(profile.name for profile in workflow.models.profiles)
    for profile in workflow.models.profiles:
        if profiles[profile.name] > 1:
            yield Problem(
                profile.at.of("name"), f'the model profile "{profile.name}" is declared twice', "keep one of them"
            )
    for stage in workflow.stages:
        if isinstance(stage, HumanStage):
            keys = Counter(option.key for option in stage.options)
            for option in stage.options:
                if keys[option.key] > 1:
                    message = f'stage "{stage.id}" has the option "{option.key}" twice'
                    yield Problem(option.at.of("key"), message, "give each a key of its own", stage.id)


def _points_outside(path: str) -> str | None:
    """Why a path is not one inside the repository, or None."""
    if PurePosixPath(path).is_absolute():
        return "is absolute"
    if path.startswith("~"):
        return "starts in a home directory"
    return "climbs out with .." if ".." in PurePosixPath(path).parts else None
