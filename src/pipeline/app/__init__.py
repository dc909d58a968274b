"""The composition root: what knows the machine a run stands on, and puts the layers together."""
