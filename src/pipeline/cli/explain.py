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
    """Print what a rule checks, why, and how to fix what it reports.

    CODE is a rule's code or name, such as AWF012 or unknown-choice. Without one, all rules are listed.
    """
    rules = every_rule()
    if code is not None:
        rule = _find(code, rules)
        title = f"# {rule.code} {rule.name} ({rule.severity})"
        click.echo(json.dumps(_fields(rule), indent=2) if as_json else f"{title}\n\n{rule.page}")
    elif as_json:
        click.echo(json.dumps([_fields(rule) for rule in rules], indent=2))
    else:
        click.echo("\n".join(f"{rule.code}  {rule.severity:<8}{rule.summary}" for rule in rules))


def _find(code: str, rules: tuple[Rule, ...]) -> Rule:
    for rule in rules:
        if code.upper() == rule.code or code.lower() == rule.name:
            return rule
    names = [name for rule in rules for name in (rule.code, rule.name)]
    raise AwfError(f'unknown rule "{code}"', help=did_you_mean(code, names) or '"awf explain" lists all rules')


def _fields(rule: Rule) -> dict[str, str]:
    return {"code": rule.code, "name": rule.name, "severity": rule.severity, "page": rule.page}
