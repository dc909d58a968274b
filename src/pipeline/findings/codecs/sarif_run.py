"""One run of a SARIF file: its tool, its rules and the texts they define, which its results refer to."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pipeline.findings.codecs.reading import Unreadable
from pipeline.findings.codecs.sarif_places import Bases, at, mapping, sequence, text
from pipeline.findings.codecs.tools import name_of

_WORDS = ("id", "name", "shortDescription", "helpUri")
_HOLE = re.compile(r"\{\{|\}\}|\{(\d{1,4})\}")
_LINK = re.compile(r"\[((?:[^\[\]\\]|\\.)*)\]\(\d+\)")  # a reference to a related location by its number

_NOTIFICATIONS = ("toolExecutionNotifications", "toolConfigurationNotifications")
_KILLED = ("processStartFailureMessage", "exitSignalName", "exitSignalNumber")
_SHOWN = 100  # characters of an exit code


@dataclass(frozen=True, slots=True)
class SarifRun:
    """What the results of a run have in common."""

    tool: str  # as it calls itself
    reviewer: str  # as we call it
    rules: Mapping[str, Mapping[str, Any]]  # of the driver and its extensions, by id
    components: Sequence[Sequence[Any]]  # the same by index: the driver's, then those of each extension
    strings: Mapping[str, Any]
    words: Mapping[str, Mapping[str, Any]]  # what is kept of a rule with its results, by id
    bases: Bases
    results: list[Any]
    problem: str = ""  # why its results may not be all
    shared: dict[str, dict[str, Any]] = field(default_factory=dict)  # what several claims keep beside

    @classmethod
    def of(cls, value: Any, root: str) -> "SarifRun":
        """A run as it stands in the file."""
        run = mapping(value)
        tool = mapping(run.get("tool"))
        parts = [mapping(tool.get("driver")), *map(mapping, sequence(tool.get("extensions")))]
        name = text(parts[0].get("name"))
        components = [sequence(part.get("rules")) for part in parts]
        rules = {rule["id"]: rule for rule in _named(components)}
        return cls(
            tool=name,
            reviewer=name_of(name) or "sarif",
            rules=rules,
            words={key: {word: rule[word] for word in _WORDS if word in rule} for key, rule in rules.items()},
            components=components,
            strings=mapping(parts[0].get("globalMessageStrings")),
            bases=Bases.of(run, root),
            results=_results(run, name),
            problem=_failure(run, name),
        )

    def rule(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """The rule that a result breaks; an empty one when the run does not describe it."""
        told = mapping(result.get("rule"))
        name = rule_id(result)
        while name and name not in self.rules:
            name = name.rpartition("/")[0]  # a rule's id may go on with that of a part of the rule
        return self.rules[name] if name else self._numbered(told, result.get("ruleIndex", told.get("index")))

    def _numbered(self, told: Mapping[str, Any], index: Any) -> Mapping[str, Any]:
        driver, *extensions = self.components
        component = mapping(told.get("toolComponent")).get("index")
        return mapping(at(driver if component is None else sequence(at(extensions, component)), index))

    def message(self, value: Any, rule: Mapping[str, Any]) -> str:
        """A message in full: its text, or the one its id stands for, with its arguments in their places."""
        told = mapping(value)
        said = text(told.get("text")) or self._defined(text(told.get("id")), rule) or text(told.get("markdown"))
        whole = filled(said, sequence(told.get("arguments")))
        return (_LINK.sub(r"\1", whole) if "](" in whole else whole).strip()

    def _defined(self, name: str, rule: Mapping[str, Any]) -> str:
        found = mapping(rule.get("messageStrings")).get(name) or self.strings.get(name)
        return text(mapping(found).get("text"))


def filled(template: str, arguments: Sequence[Any]) -> str:
    """A template with its arguments; one for which there is none stays as it stands."""

    def fill(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        index = int(match[1])
        return str(arguments[index]) if index < len(arguments) else match[0]

    return _HOLE.sub(fill, template) if arguments else template


def rule_id(result: Mapping[str, Any]) -> str:
    """What a result calls the rule it breaks."""
    return text(result.get("ruleId")) or text(mapping(result.get("rule")).get("id"))


def _named(components: Sequence[Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for rules in reversed(components):  # the driver's own win
        yield from (rule for rule in rules if isinstance(rule, dict) and isinstance(rule.get("id"), str))


def _results(run: Mapping[str, Any], name: str) -> list[Any]:
    if mapping(run.get("externalPropertyFileReferences")).get("results"):
        raise Unreadable(f"the run of {name or 'a tool'} keeps its results in other files; put them into one")
    results = run.get("results")
    if not isinstance(results, list):
        raise Unreadable(f"the run of {name or 'a tool'} has no results; one that found nothing has an empty list")
    return results


def _failure(run: Mapping[str, Any], name: str) -> str:
    """Why the results of a run may not be all: what it says about how the tool was run."""
    invocations = run.get("invocations", [])
    if not isinstance(invocations, list):
        return f"{name or 'a tool'} does not say how it was run: its invocations are not a list"
    reason = next((reason for item in invocations if (reason := _unsuccessful(item, run["results"]))), "")
    return f"{name or 'a tool'} may have found more: {reason}" if reason else ""


def _unsuccessful(invocation: Any, results: Sequence[Any]) -> str:
    if not isinstance(invocation, dict):
        return "an invocation is not an object"
    if invocation.get("executionSuccessful", True) is not True:
        return "its run did not succeed"
    if any(invocation.get(key) is not None for key in _KILLED):
        return "its process did not start, or was killed"
    if "executionSuccessful" not in invocation and invocation.get("exitCode", 0) != 0 and not results:
        return f"its exit code is {str(invocation['exitCode'])[:_SHOWN]}, and it has no results"
    for key in _NOTIFICATIONS:
        notes = invocation.get(key, [])
        if not isinstance(notes, list) or not all(map(_harmless, notes)):
            return f"its {key} report an error"
    return ""


def _harmless(notification: Any) -> bool:
    return isinstance(notification, dict) and notification.get("level", "warning") in ("warning", "note", "none")
