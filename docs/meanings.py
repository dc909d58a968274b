"""What each word of the language is for: the half of the reference that no model can say."""

from collections.abc import Mapping

from pipeline.errors import ExitCode
from pipeline.language.expressions.parse import Function
from pipeline.language.model import (
    Branch,
    DecisionRoute,
    Element,
    HumanOption,
    HumanStage,
    LlmStage,
    Loop,
    LoopExit,
    Models,
    ParallelStage,
    Profile,
    Retry,
    StageKind,
    ToolStage,
    Transition,
    Workflow,
    WorkflowSettings,
    WorkspaceStage,
)

MEANINGS: Mapping[type[Element], Mapping[str, str]] = {
    Workflow: {
        "name": "how it is called in lists and reports",
        "version": "the version of the language",
        "description": "a sentence for `awf workflows`",
        "goal": "what to reach unless `--goal` says otherwise",
        "start": "the stage a run begins with",
    },
    WorkflowSettings: {
        "max_visits": "how often one stage may run",
        "max_stages": "how many stages may run in all",
        "max_duration": "running time; waiting for a person does not count",
        "max_cost_usd": "what the agents may cost, as far as they report it",
        "summary_budget": "characters about the run that an agent is given before its prompt",
    },
    Models: {"default": "the profile, or the model, of stages that choose none"},
    Profile: {
        "name": "what `model_profile` names it by",
        "model": "the model's name, as its provider calls it",
        "provider": "who offers it",
        "reasoning_effort": "handed to agents that know it",
    },
    LlmStage: {
        "prompt": "what the agent is told",
        "prompt_file": "files with the prompt, put together; from the root of the repository, or beside the workflow",
        "model": "which model",
        "provider": "who offers it",
        "model_profile": "a profile of `models`",
        "reasoning_effort": "handed to agents that know it",
        "backend": "which agent",
        "access": "what the agent may do to files",
        "auto_status": "makes it a **review stage**: its answer decides its outcome",
        "goal_gate": "must have passed when the run reaches an exit",
        "response_key_base": "the name its answer is kept under, instead of its id",
        "lens": "the reviewer's name in findings, instead of the stage's id",
        "summary_budget": "instead of the workflow's setting",
        "timeout": "the longest one attempt may take; else that of the [settings](agents.md#settings)",
        "on_error": "what an error of the stage does to the run; see [after an error](#after-an-error)",
        "retry_target": "where to go when it fails, or when its goal gate is not satisfied",
    },
    ToolStage: {
        "command": "run by `/bin/sh`",
        "cwd": "a directory inside the workspace",
        "timeout": "the longest one attempt may take",
        "findings": "how to read what it reports",
        "effects": "what it may have changed when it is interrupted",
        "goal_gate": "must have passed when the run reaches an exit",
        "on_error": "what an error of the stage does to the run; see [after an error](#after-an-error)",
        "retry_target": "where to go when it fails, or when its goal gate is not satisfied",
    },
    HumanStage: {
        "prompt": "the question",
        "require_feedback_on": "options that need a word of explanation",
        "details_from": "context keys that are shown with the question",
        "re_review": "ask again before what an approval leads to, after a choice that does not approve",
        "timeout": "how long to wait, from the first time it is asked",
        "default": "the option that is taken then",
    },
    HumanOption: {
        "key": "what is typed to choose it",
        "label": "what it says",
        "to": "where it leads",
        "approves": "whether it is an approval; when no option says so, the first is",
    },
    DecisionRoute: {
        "when": "when it is open",
        "to": "where it leads",
        "priority": "the highest wins",
    },
    ParallelStage: {
        "max_parallel": "how many run at once; all by default",
        "join": "how many must succeed",
    },
    Branch: {"stage": "an `llm` or `tool` stage that is named nowhere else"},
    WorkspaceStage: {
        "workspace_name": "added to the run's id in the names of the worktree and its branch",
        "on_error": "what an error of the stage does to the run; see [after an error](#after-an-error)",
    },
    Retry: {
        "max_attempts": "how often a visit is tried",
        "backoff": "how the wait between attempts grows; `fixed` when only a delay is given",
        "delay": "the first wait",
        "max_delay": "the longest wait",
    },
    Transition: {
        "from": "the stage it leaves",
        "to": "where it leads",
        "on": "the result after which it is followed; with `when`, both must hold",
        "when": 'the condition under which it is followed; `when="true"` is `on="always"`',
        "priority": "the highest wins",
    },
    Loop: {
        "name": "how it is called in `awf why`",
        "stages": "the stages in it; a round begins at the first",
        "max_rounds": "how many rounds before it is exhausted",
    },
    LoopExit: {"signal": "which of the two", "to": "a stage outside of the loop"},
}

KINDS: Mapping[StageKind, str] = {
    StageKind.LLM: "an agent with a prompt",
    StageKind.TOOL: "a shell command",
    StageKind.HUMAN: "a person who chooses",
    StageKind.DECISION: "conditions alone",
    StageKind.TRIAGE: "a person who decides on findings one by one",
    StageKind.PARALLEL: "several stages at once",
    StageKind.WORKSPACE_CREATE: "a git worktree for the run",
    StageKind.WORKSPACE_MERGE: "its branch brought back",
    StageKind.WORKSPACE_CLEANUP: "worktree and branch removed",
    StageKind.EXIT: "the end",
}

FUNCTIONS: Mapping[Function, tuple[str, str]] = {  # how it is written, and what it gives
    Function.OUTCOME: ('`outcome("stage")`', "the status of its last visit"),
    Function.OUTPUT: ('`output("stage.key")`', "a value that a stage left, or null"),
    Function.EXISTS: ('`exists("stage.key")`', "whether the value is there"),
    Function.CONTEXT: ('`context("key")`', "a value of the context, or null"),
    Function.VISITS: ('`visits("stage")`', "how often the stage has completed"),
    Function.FINDINGS: ('`findings()` `findings("stage")`', "how many reports are outstanding, in all or of one stage"),
    Function.VERDICT: ("`verdict()`", "what the last structured review comes to"),
}

EXIT_CODES: Mapping[ExitCode, str] = {
    ExitCode.SUCCESS: "success",
    ExitCode.RUN_FAILED: "the run failed; `awf verdict` does not pass; an import is incomplete; an answer is too late",
    ExitCode.USAGE: "wrong usage, an invalid workflow, a file or a run that is not there",
    ExitCode.PAUSED: "the run is paused at a limit, or waits for a person",
    ExitCode.CANCELLED: "the run was cancelled, or the command interrupted",
}
