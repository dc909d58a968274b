"""The meaning of each attribute, stage kind and function of the language: what the models cannot say."""

from collections.abc import Mapping

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
        "name": "the name in lists and reports",
        "version": "the version of the language",
        "description": "a sentence for `awf workflows`",
        "goal": "the default for `--goal`",
        "start": "the first stage of a run",
    },
    WorkflowSettings: {
        "max_visits": "how many times one stage may run",
        "max_stages": "how many visits a run may have in total",
        "max_duration": "running time, without waiting for people",
        "max_cost_usd": "total cost of the agents that report theirs",
        "summary_budget": "characters of the summary that precedes a prompt",
    },
    Models: {"default": "the profile or model of stages that choose none"},
    Profile: {
        "name": "the name that `model_profile` refers to",
        "model": "the provider's name for the model",
        "provider": "the provider of the model",
        "reasoning_effort": "passed to agents that support it",
    },
    LlmStage: {
        "prompt": "the prompt",
        "prompt_file": "files with the prompt, concatenated; relative to the repository root or the workflow file",
        "model": "the model",
        "provider": "the provider of the model",
        "model_profile": "a profile of `models`",
        "reasoning_effort": "passed to agents that support it",
        "backend": "the agent",
        "access": "what the agent may do to files",
        "auto_status": "makes it a **review stage**: its answer decides its outcome",
        "goal_gate": "must have passed when the run reaches an exit",
        "response_key_base": "context key of its answer, instead of its id",
        "lens": "the reviewer's name in findings, instead of the stage's id",
        "summary_budget": "overrides the workflow's setting",
        "timeout": "longest time for one attempt; the default is in the [settings](agents.md#settings)",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
        "retry_target": "where to continue when it fails or its goal gate is not satisfied",
    },
    ToolStage: {
        "command": "run by `/bin/sh`",
        "cwd": "a directory inside the workspace",
        "timeout": "longest time for one attempt",
        "findings": "the format of its report",
        "effects": "what it may have changed if it is interrupted",
        "goal_gate": "must have passed when the run reaches an exit",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
        "retry_target": "where to continue when it fails or its goal gate is not satisfied",
    },
    HumanStage: {
        "prompt": "the question",
        "require_feedback_on": "options that require feedback",
        "details_from": "context keys shown with the question",
        "re_review": "after a choice that does not approve, ask again before continuing to the target of an approval",
        "timeout": "how long to wait, from the first time the question is asked",
        "default": "the option chosen after the timeout",
    },
    HumanOption: {
        "key": "what a person types to choose it",
        "label": "its description",
        "to": "the next stage",
        "approves": "whether it approves; if no option says so, the first one does",
    },
    DecisionRoute: {
        "when": "the condition",
        "to": "the next stage",
        "priority": "the highest wins",
    },
    ParallelStage: {
        "max_parallel": "how many run at once; default all",
        "join": "how many must succeed",
    },
    Branch: {"stage": "an `llm` or `tool` stage that nothing else refers to"},
    WorkspaceStage: {
        "workspace_name": "added to the run's id in the names of the worktree and its branch",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
    },
    Retry: {
        "max_attempts": "the number of attempts per visit",
        "backoff": "how the wait between attempts grows; `fixed` if only a delay is given",
        "delay": "the first wait",
        "max_delay": "the longest wait",
    },
    Transition: {
        "from": "the stage it leaves",
        "to": "the next stage",
        "on": "the result after which it is taken; with `when`, both must be true",
        "when": 'the condition under which it is taken; `when="true"` is the same as `on="always"`',
        "priority": "the highest wins",
    },
    Loop: {
        "name": "the name in `awf why`",
        "stages": "the stages in it; a round begins at the first",
        "max_rounds": "how many rounds before it is exhausted",
    },
    LoopExit: {"signal": "the signal", "to": "a stage outside the loop"},
}

KINDS: Mapping[StageKind, str] = {
    StageKind.LLM: "an agent with a prompt",
    StageKind.TOOL: "a shell command",
    StageKind.HUMAN: "a person who chooses",
    StageKind.DECISION: "conditions that choose the next stage",
    StageKind.TRIAGE: "a person who decides findings one by one",
    StageKind.PARALLEL: "several stages at once",
    StageKind.WORKSPACE_CREATE: "create a git worktree for the run",
    StageKind.WORKSPACE_MERGE: "merge its branch",
    StageKind.WORKSPACE_CLEANUP: "remove the worktree and its branch",
    StageKind.EXIT: "the end of the run",
}

FUNCTIONS: Mapping[Function, tuple[str, str]] = {  # how to write it, and its value
    Function.OUTCOME: ('`outcome("stage")`', "the status of its last visit"),
    Function.OUTPUT: ('`output("stage.key")`', "an output of a stage, or null"),
    Function.EXISTS: ('`exists("stage.key")`', "whether that output exists"),
    Function.CONTEXT: ('`context("key")`', "a value of the context, or null"),
    Function.VISITS: ('`visits("stage")`', "how many visits of the stage have completed"),
    Function.FINDINGS: (
        '`findings()` `findings("stage")`',
        "the number of outstanding reports, in total or of one stage",
    ),
    Function.VERDICT: ("`verdict()`", "the verdict of the last structured review"),
}
