"""Differentially private location and regression: a formula in, a classical results table out.

The public names are imported on first use, so ``import dpstats`` stays fast.
"""

import importlib

__version__ = "0.2.0"

_PUBLIC = {
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
    "adassp": "dpstats.regression.adassp",
    "boosted_adassp": "dpstats.regression.boosted_adassp",
    "bounding_box": "dpstats.location.bounding_box",
    "deepest_regression": "dpstats.regression.deepest",
    "gradient_descent": "dpstats.regression.gradient_descent",
    "huber": "dpstats.regression.huber",
    "mean": "dpstats.location.mean",
    "median": "dpstats.location.median",
    "medsweep": "dpstats.regression.medsweep",
    "noisy_stats": "dpstats.regression.noisy_stats",
    "ols": "dpstats.regression.ols",
    "quantile": "dpstats.location.median",
    "select_features": "dpstats.selection.features",
    "theil_sen": "dpstats.regression.theil_sen",
    "tukey_em": "dpstats.regression.tukey_em",
    "tukey_median": "dpstats.location.tukey_median",
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
