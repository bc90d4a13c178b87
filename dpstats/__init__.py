"""Differentially private location and regression: a formula in, a classical results table out.

The public names are imported on first use, so ``import dpstats`` stays fast.
"""

import importlib

from dpstats._estimators import ESTIMATORS

__version__ = "0.2.0"

_PUBLIC = {name: listed.module for name, listed in ESTIMATORS.items()} | {
    "BudgetExceeded": "dpstats.errors",
    "DpstatsError": "dpstats.errors",
    "FormulaError": "dpstats.errors",
    "Guarantee": "dpstats.privacy.guarantee",
    "Ledger": "dpstats.privacy.ledger",
    "LedgerError": "dpstats.errors",
    "NotReleased": "dpstats.errors",
    "ParameterError": "dpstats.errors",
    "ReleaseFailed": "dpstats.errors",
    "SchemaError": "dpstats.errors",
}
_SUBMODULES = ("datasets", "depth")

__all__ = sorted([*_PUBLIC, *_SUBMODULES])


def __getattr__(name):
    if name in _PUBLIC:
        value = getattr(importlib.import_module(_PUBLIC[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(f"dpstats.{name}")
    else:
        raise AttributeError(f"module 'dpstats' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__():
    return sorted({*globals(), *__all__})
