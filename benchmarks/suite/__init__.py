"""The benchmark suite: accuracy, validity, speed; one runner, ``benchmarks/run.py``."""
