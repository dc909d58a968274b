"""Checks of inputs: what conditions, prompts and commands make of them."""

import pytest
from tests.unit.language.examples import bounded, check_text, codes, problems

END = '\ntransition from="a" to="done"'
INPUT = 'input "branch" default="main"\n'


@pytest.mark.parametrize(
    ("stage", "marked"),
    [
        ('stage "a" kind="tool" command="git diff $input.brnch"' + END, "$input.brnch"),
        ('stage "a" kind="tool" command="cat \'${input.my-branch}\'"' + END, "${input.my-branch}"),
        ('stage "a" kind="llm" prompt="On $input.brnch."' + END, "$input.brnch"),
        (
            'stage "a" kind="human" prompt="Merge ${input.brnch}?" {\n'
            'option "y" label="Yes" to="done"\noption "n" label="No" to="done"\n}',
            "${input.brnch}",
        ),
        (
            'stage "a" kind="tool" command="x"\ntransition from="a" to="done" when=r#"input("brnch") == "x""#' + END,
            'input("brnch")',
        ),
    ],
)
def test_an_unknown_input_is_marked(stage: str, marked: str) -> None:
    """In commands, prompts, questions and conditions, with the nearest name."""
    text = bounded(INPUT + stage)
    assert problems(text) == [("AWF042", marked)]
    assert "branch" in (check_text(text).diagnostics[0].help or "")


def test_an_unknown_input_in_a_prompt_file_is_found() -> None:
    """The stage that uses the file is marked."""
    text = bounded(INPUT + 'stage "a" kind="llm" prompt_file="p.md"' + END)
    assert [one.code for one in check_text(text, {"p.md": "$input.branch $input.brnch"}.get).diagnostics] == ["AWF042"]
    assert check_text(text, {"p.md": "$input.branch"}.get).diagnostics == ()


@pytest.mark.parametrize("command", ["cc ${input}.o", "echo \\\\$input.o", "echo $inputs.o", "read input; echo $input"])
def test_a_variable_of_the_shell_is_not_an_input(command: str) -> None:
    """Only `$input.name` and `${input.name}` are."""
    assert codes(bounded(f'stage "a" kind="tool" command="{command}"' + END)) == []


@pytest.mark.parametrize("name", ['"input" kind="llm"', '"a" kind="llm" response_key_base="input"'])
def test_a_stage_does_not_write_to_the_keys_of_inputs(name: str) -> None:
    """Without inputs there is nothing to replace."""
    lines = f'stage {name} prompt="x"\ntransition from={name.partition(" ")[0]} to="done"'
    assert codes(bounded(INPUT + lines)) == ["AWF043"]
    assert codes(bounded(lines)) == []
