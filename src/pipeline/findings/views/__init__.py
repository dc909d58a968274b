"""The files that show findings to people and agents, and bring back what they changed. The ledger has the truth."""
