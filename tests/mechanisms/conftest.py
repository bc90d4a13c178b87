"""Attacks on releases use the transcripts of the audit, in ``benchmarks/``, which is no installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
