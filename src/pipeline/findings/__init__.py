"""What reviews and tools found. A plugin: nothing below this package knows that it exists."""

VIEWS = (".wystack", ".code-review")  # directories in which findings are shown; not part of the work
