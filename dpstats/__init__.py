"""Differentially private location and regression: a formula in, a classical results table out.

The public names are imported on first use, so ``import dpstats`` stays fast.
"""

import importlib
from typing import TYPE_CHECKING, Any

from dpstats._estimators import ESTIMATORS

if TYPE_CHECKING:
    from dpstats import datasets as datasets
    from dpstats import depth as depth
    from dpstats.errors import BudgetExceeded as BudgetExceeded
    from dpstats.errors import DpstatsError as DpstatsError
    from dpstats.errors import FormulaError as FormulaError
    from dpstats.errors import LedgerError as LedgerError
    from dpstats.errors import NotReleased as NotReleased
    from dpstats.errors import ParameterError as ParameterError
    from dpstats.errors import ReleaseFailed as ReleaseFailed
    from dpstats.errors import SchemaError as SchemaError
    from dpstats.estimation.saved import from_dict as from_dict
    from dpstats.estimation.saved import load as load
    from dpstats.explore.describe import describe as describe
    from dpstats.explore.diagnose import diagnose as diagnose
    from dpstats.explore.plan import plan as plan
    from dpstats.location.bounding_box import bounding_box as bounding_box
    from dpstats.location.mean import mean as mean
    from dpstats.location.median import median as median
    from dpstats.location.median import quantile as quantile
    from dpstats.location.tukey_median import tukey_median as tukey_median
    from dpstats.privacy.guarantee import Guarantee as Guarantee
    from dpstats.privacy.ledger import Ledger as Ledger
    from dpstats.privacy.split import split as split
    from dpstats.regression.adassp import adassp as adassp
    from dpstats.regression.boosted_adassp import boosted_adassp as boosted_adassp
    from dpstats.regression.deepest import deepest_regression as deepest_regression
    from dpstats.regression.gradient_descent import gradient_descent as gradient_descent
    from dpstats.regression.huber import huber as huber
    from dpstats.regression.logit import logit as logit
    from dpstats.regression.medsweep import medsweep as medsweep
    from dpstats.regression.noisy_stats import noisy_stats as noisy_stats
    from dpstats.regression.ols import ols as ols
    from dpstats.regression.poisson import poisson as poisson
    from dpstats.regression.theil_sen import theil_sen as theil_sen
    from dpstats.regression.tukey_em import tukey_em as tukey_em
    from dpstats.results.anova import anova as anova
    from dpstats.results.combine import combine as combine
    from dpstats.selection.features import select_features as select_features

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
    "anova": "dpstats.results.anova",
    "combine": "dpstats.results.combine",
    "from_dict": "dpstats.estimation.saved",
    "load": "dpstats.estimation.saved",
    "describe": "dpstats.explore.describe",
    "diagnose": "dpstats.explore.diagnose",
    "plan": "dpstats.explore.plan",
    "split": "dpstats.privacy.split",
}
_SUBMODULES = ("datasets", "depth")

__all__ = sorted([*_PUBLIC, *_SUBMODULES])


if not TYPE_CHECKING:  # so that a type checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name in _PUBLIC:
            value = getattr(importlib.import_module(_PUBLIC[name]), name)
        elif name in _SUBMODULES:
            value = importlib.import_module(f"dpstats.{name}")
        else:
            import difflib

            usual = {"lm": "ols", "linear_regression": "ols", "glm": "logit", "rlm": "huber"}
            close = difflib.get_close_matches(usual.get(name.lower(), name.lower()), __all__, 1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            if name.startswith("load_"):
                meant = "; example data are in dpstats.datasets, as dpstats.datasets.load_diamonds()"
            raise AttributeError(f"module 'dpstats' has no attribute {name!r}{meant}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
