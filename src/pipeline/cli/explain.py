"""`awf explain`: the page of a rule."""

import json

import click

from pipeline.app.check import every_rule
from pipeline.errors import AwfError
from pipeline.language.diagnostics import Rule
from pipeline.text import did_you_mean


@click.command("explain")
@click.argument("code", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the rule as one object, or all rules as an array.")
def command(code: str | None, *, as_json: bool) -> None:
    """Print what a rule checks, why, and how to mend it.

    CODE is a rule's code or its name, such as AWF012 or unknown-choice. Without one, every rule is listed.
    """
    rules = every_rule()
    if code is None:
        rows = [_fields(rule) for rule in rules]
        click.echo(json.dumps(rows, indent=2) if as_json else "\n".join(map(_line, rules)))
        return
    rule = _find(code, rules)
    click.echo(json.dumps(_fields(rule), indent=2) if as_json else f"# {_title(rule)}\n\n{rule.page}")


def _find(code: str, rules: tuple[Rule[...], ...]) -> Rule[...]:
    for rule in rules:
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    help = did_you_mean(code, names) or '"awf explain" lists every rule'
    raise AwfError(f'there is no rule "{code}"', help=help)


def _title(rule: Rule[...]) -> str:
    return f"{rule.code} {rule.name} ({rule.severity})"


def _line(rule: Rule[...]) -> str:
    return f"{rule.code}  {rule.severity:<8}{rule.page.partition(chr(10))[0]}"


def _fields(rule: Rule[...]) -> dict[str, str]:
    return {"code": rule.code, "name": rule.name, "severity": rule.severity, "page": rule.page}
