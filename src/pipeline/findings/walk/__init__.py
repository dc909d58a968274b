"""The walk through findings: a person decides on them one by one, at the terminal, in a triage stage or in a file."""
