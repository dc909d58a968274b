"""What a user changes about an agent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AgentOverride:
    """What a user changes about how a program is started."""

    program: tuple[str, ...] = ()  # instead of its name: a path, or a program that runs it
    arguments: tuple[str, ...] = ()  # instead of ours
    extra: tuple[str, ...] = ()  # besides ours
    variables: tuple[str, ...] = ()  # names of more variables to pass on
