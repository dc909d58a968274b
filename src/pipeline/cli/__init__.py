"""The command line: terminals, formats and exit codes. Each command is loaded when it is called."""
