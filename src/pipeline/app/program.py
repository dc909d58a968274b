"""This program once more, as a process of its own."""

import sys

AWF_COMMAND = (sys.executable, "-P", "-c", "from pipeline.cli.main import main; main()")
