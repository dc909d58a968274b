"""The durable history of runs behind the `Journal` port: what was recorded is never lost, changed or invented."""
