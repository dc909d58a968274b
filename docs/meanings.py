"""What each attribute of the language means: the part of the reference that the models do not contain."""

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
    TriageStage,
    Workflow,
    WorkflowInput,
    WorkflowSettings,
    WorkspaceStage,
)

MEANINGS: Mapping[type[Element], Mapping[str, str]] = {
    Workflow: {
        "name": "its name in lists and reports",
        "version": "the version of the language",
        "description": "a sentence for `awf workflows`",
        "goal": "the default goal, overridden by `--goal`",
        "start": "the first stage of a run",
    },
    WorkflowSettings: {
        "max_visits": "how often one stage may run",
        "max_stages": "how many stages may run in total",
        "max_duration": "running time; waiting for a person does not count",
        "max_cost_usd": "what the agents may cost, as reported by them or by the `price` of the settings",
        "summary_budget": "length of the summary that an agent gets before its prompt, in characters",
    },
    WorkflowInput: {
        "name": "lowercase letters, digits and `_`",
        "default": "its value in a run that is not given one; fixes its type",
        "required": "whether every run must be given it",
        "description": "a sentence for `awf workflows` and the dashboard",
    },
    Models: {"default": "the profile or model of stages that choose none"},
    Profile: {
        "name": "its name for `model_profile`",
        "model": "the provider's name for the model; without one, the settings or the default choose it",
        "provider": "who offers the model",
        "reasoning_effort": "passed on to agents that support it",
    },
    LlmStage: {
        "prompt": "what the agent is asked to do",
        "prompt_file": "files that make up the prompt; relative to the repository's root or to the workflow",
        "model": "the model",
        "provider": "who offers the model",
        "model_profile": "a profile of `models`",
        "reasoning_effort": "passed on to agents that support it",
        "backend": "the agent",
        "access": "what the agent may do to files",
        "findings": "makes it a **structured review**: asked for findings in the [review format](review-format.md)",
        "auto_status": "makes it a **status review**: the `[STATUS: ...]` in its answer decides its outcome",
        "reviewer": "the reviewer's name in findings, instead of the stage's id",
        "lens": "what it looks at; findings and records name it",
        "goal_gate": "must have succeeded before the run can exit",
        "response_key_base": "the context key of its answer, instead of its id",
        "summary_budget": "overrides the workflow's setting",
        "timeout": "the time limit of an attempt; by default that of the [settings](agents.md#settings)",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
        "retry_target": "the next stage if it fails or its goal gate is not satisfied",
    },
    ToolStage: {
        "command": "run by `/bin/sh`",
        "cwd": "a directory inside the workspace",
        "timeout": "the time limit of an attempt",
        "findings": "the format of its report",
        "effects": "what it may have changed when it is interrupted",
        "goal_gate": "must have succeeded before the run can exit",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
        "retry_target": "the next stage if it fails or its goal gate is not satisfied",
    },
    HumanStage: {
        "prompt": "the question",
        "require_feedback_on": "options that require a comment",
        "details_from": "context keys to show with the question",
        "re_review": "after a choice that does not approve, ask again before going where an approval leads",
        "timeout": "how long to wait, from when it is first asked",
        "default": "the option that is chosen after that",
    },
    HumanOption: {
        "key": "what a person types to choose it",
        "label": "its description",
        "to": "the next stage",
        "approves": "whether it is an approval; if no option is, the first counts as one",
    },
    DecisionRoute: {
        "when": "the condition",
        "to": "the next stage",
        "priority": "the highest wins",
    },
    TriageStage: {
        "route": "`each` one by one, `all` as recommended, `must` what must be fixed, without asking, "
        "`file` a ticket for each, `report` only, or `ask` which",
        "tracker": "where tickets go; it must be usable. By default the first that works",
        "advisory": "whether to ask about findings with nothing to fix",
        "validation": "whether a read-only agent checks findings against the code before all are acted on at once",
        "model_profile": "the declared profile whose model validates",
    },
    ParallelStage: {
        "max_parallel": "how many run at once; all by default",
        "join": "how many must succeed",
    },
    Branch: {"stage": "an `llm` or `tool` stage that nothing else refers to"},
    WorkspaceStage: {
        "workspace_name": "added to the run's id to name the worktree and branch",
        "on_error": "what happens to the run after an error; see [after an error](#after-an-error)",
    },
    Retry: {
        "max_attempts": "how often a visit is attempted",
        "backoff": "how the wait between attempts grows; `fixed` if only a delay is given",
        "delay": "the first wait",
        "max_delay": "the longest wait",
    },
    Transition: {
        "from": "the stage that it leaves",
        "to": "the next stage",
        "on": "the result after which it is followed; with `when`, both must hold",
        "when": 'the condition under which it is followed; `when="true"` is `on="always"`',
        "priority": "the highest wins",
    },
    Loop: {
        "name": "its name in `awf why`",
        "stages": "its stages; a round begins at the first",
        "max_rounds": "after how many rounds it is exhausted",
    },
    LoopExit: {"signal": "when it is followed", "to": "a stage outside the loop"},
}

KINDS: Mapping[StageKind, str] = {
    StageKind.LLM: "an agent with a prompt",
    StageKind.TOOL: "a shell command",
    StageKind.HUMAN: "a person who chooses an option",
    StageKind.DECISION: "conditions alone",
    StageKind.TRIAGE: "a person who decides on findings one by one",
    StageKind.PARALLEL: "several stages at once",
    StageKind.WORKSPACE_CREATE: "create a git worktree for the run",
    StageKind.WORKSPACE_MERGE: "merge its branch back",
    StageKind.WORKSPACE_CLEANUP: "remove worktree and branch",
    StageKind.EXIT: "the end",
}

FUNCTIONS: Mapping[Function, tuple[str, str]] = {  # how it is written, and what it gives
    Function.OUTCOME: ('`outcome("stage")`', "the status of its last visit"),
    Function.OUTPUT: ('`output("stage.key")`', "a value that a stage produced, or null"),
    Function.EXISTS: ('`exists("stage.key")`', "whether the value exists"),
    Function.CONTEXT: ('`context("key")`', "a value of the context, or null"),
    Function.INPUT: ('`input("name")`', "the value of an input, of the type of its default"),
    Function.VISITS: ('`visits("stage")`', "how often the stage has completed"),
    Function.FINDINGS: (
        '`findings()` `findings("stage")`',
        "the open findings of this run that are to be fixed, in all or of one stage; 0 without an open report",
    ),
    Function.REPORTS: ('`reports()` `reports("stage")`', "the number of open reports, of all stages or of one"),
    Function.VERDICT: (
        "`verdict()`",
        "the [verdict](findings.md#the-verdict) on everything open about the change, as of the last pass of this run",
    ),
}
