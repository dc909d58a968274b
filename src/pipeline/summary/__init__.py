"""The text about the run that an agent is given before its prompt. Values in, text out: no clock, no disk."""
