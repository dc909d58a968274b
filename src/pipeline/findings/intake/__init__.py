"""One pass: from what reviewers and tools returned to drafts of findings. Nothing they returned is without a fate."""
