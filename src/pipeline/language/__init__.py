"""From the text of a `.awf.kdl` file to a checked `Workflow`; values only, no disk, no clock."""
