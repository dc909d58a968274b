"""What the commands about findings do, one use case a module. None of them needs a run."""
