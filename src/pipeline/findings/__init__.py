"""What reviews and tools found. A plugin: nothing below this package knows that it exists."""
