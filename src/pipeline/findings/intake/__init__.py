"""One pass: from what reviewers and tools returned to drafts of findings. Nothing they returned is without a fate."""

from pipeline.findings.intake.assess import Assessment, assess
from pipeline.findings.intake.files import MemoryFiles, RepositoryFiles, Sources
from pipeline.findings.intake.judging import Judge
from pipeline.findings.intake.policy import CAPS, Policy

__all__ = ["CAPS", "Assessment", "Judge", "MemoryFiles", "Policy", "RepositoryFiles", "Sources", "assess"]
