"""Guarantees as data, their composition and conversions, and the ledger that adds them up."""
