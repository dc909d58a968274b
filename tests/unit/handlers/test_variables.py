"""Variables in prompts become text; in commands they stay data."""

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.context import Context
from pipeline.handlers.variables import expand_prompt, shell_command

CONTEXT = Context({"input.ticket": "A-1", "input.on": True, "plan.response": "do $goal", "n": 3, "deep": {"a": [1]}})


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("Reach $goal.", "Reach G."),
        ("Reach ${goal}!", "Reach G!"),
        ("$goals and $goal_x stay", "$goals and $goal_x stay"),
        ("Plan: ${context.plan.response}", "Plan: do $goal"),
        ("${context.n} ${context.deep}", '3 {"a": [1]}'),
        ("${context.missing}|", "|"),
        ("Work on $input.ticket. ${input.ticket}s", "Work on A-1. A-1s"),
        ("$input.on $inputs.on $input.", "true $inputs.on $input."),
        ("$HOME ${other}", "$HOME ${other}"),
    ],
)
def test_prompt_variables_are_replaced_once(text: str, expanded: str) -> None:
    """`$goals` is not `$goal`, and a value is not searched for variables."""
    assert expand_prompt(text, "G", CONTEXT) == expanded


@pytest.mark.parametrize(
    ("command", "rewritten"),
    [
        ("echo $goal", 'echo "${AWF_GOAL}"'),
        ("echo ${goal}", 'echo "${AWF_GOAL}"'),
        ('echo "for $goal now"', 'echo "for ${AWF_GOAL} now"'),
        ("echo 'for $goal now'", "echo 'for '\"${AWF_GOAL}\"' now'"),
        ("echo $goals $HOME $$", "echo $goals $HOME $$"),
        (r"echo \$goal", r"echo \$goal"),
        ("echo ${context.plan.response}", 'echo "${AWF_CTX_PLAN_RESPONSE}"'),
        (r'echo "a\"$goal"', r'echo "a\"${AWF_GOAL}"'),
        ("echo $input.ticket.txt", 'echo "${AWF_INPUT_TICKET}".txt'),
        ("echo '${input.ticket}'", "echo ''\"${AWF_INPUT_TICKET}\"''"),
        (r"echo \$input.ticket ${input}.o", r"echo \$input.ticket ${input}.o"),
    ],
)
def test_commands_take_values_from_the_environment(command: str, rewritten: str) -> None:
    """No value becomes part of the command; quotes around a variable are respected."""
    assert shell_command(command).text == rewritten


def test_two_keys_never_share_a_variable() -> None:
    """`a.b` and `a_b` give the same name, and are kept apart."""
    command = shell_command("echo ${context.a.b} ${context.a_b}")
    assert command.keys == {"AWF_CTX_A_B": "a.b", "AWF_CTX_A_B_": "a_b"}


HOSTILE = [
    '"; touch hacked; "',
    "$(touch hacked)",
    "`touch hacked`",
    "'; touch hacked; '",
    "* ? ~ \\ \n && touch hacked",
    "-n\ttab",
    "\x1b[2J ünï 🙂",
]


@pytest.mark.parametrize("goal", HOSTILE)
@pytest.mark.parametrize(
    "template",
    ["printf %s $goal", 'printf %s "$goal"', "printf %s '$goal'", "printf %s ${context.v}", "printf %s $input.v"],
)
def test_a_hostile_value_stays_data(tmp_path: object, goal: str, template: str) -> None:
    """Whatever a goal or an agent's answer contains, the command gets it as one argument and runs none of it."""
    command = shell_command(template)
    env = {"AWF_GOAL": goal, "AWF_INPUT_V": goal, **dict.fromkeys(command.keys, goal), "PATH": "/usr/bin:/bin"}
    shell = subprocess.run(["/bin/sh", "-c", command.text], env=env, cwd=str(tmp_path), capture_output=True, check=True)
    assert shell.stdout.decode() == goal
    assert list(tmp_path.iterdir()) == []  # type: ignore[attr-defined]  # pytest's tmp_path


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
@settings(max_examples=25, deadline=None)
def test_any_value_stays_data(goal: str) -> None:
    """The same for values nobody thought of."""
    shell = subprocess.run(
        ["/bin/sh", "-c", shell_command("printf %s $goal").text],
        env={"AWF_GOAL": goal, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=True,
    )
    assert shell.stdout.decode() == goal
