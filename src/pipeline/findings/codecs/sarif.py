"""SARIF 2.1.0, the format in which static analysis tools tell what they found: in and out."""

from pipeline.findings.codecs.sarif_in import decode
from pipeline.findings.codecs.sarif_out import encode

__all__ = ["decode", "encode"]
