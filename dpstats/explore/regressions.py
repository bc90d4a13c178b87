"""The estimators that a plan can be about: regressions with intervals."""

from collections.abc import Callable
from typing import Any

from dpstats.regression.adassp import adassp
from dpstats.regression.boosted_adassp import boosted_adassp
from dpstats.regression.deepest import deepest_regression
from dpstats.regression.huber import huber
from dpstats.regression.logit import logit
from dpstats.regression.ols import ols
from dpstats.regression.poisson import poisson
from dpstats.regression.tukey_em import tukey_em

__all__ = ["REGRESSIONS"]

REGRESSIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        adassp,
        boosted_adassp,
        deepest_regression,
        huber,
        logit,
        ols,
        poisson,
        tukey_em,
    )
}
