"""The regressions, one file each."""
