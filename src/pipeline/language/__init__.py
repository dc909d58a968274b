"""From the text of a `.awf.kdl` file to a `Workflow` and its diagnostics. Knows no run, no clock and no other file."""
