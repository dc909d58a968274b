"""The text about the run that an agent gets before its prompt. Values in, text out: no clock, no disk."""
