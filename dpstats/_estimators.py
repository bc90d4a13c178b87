"""The one list of estimators: the package, its tests, audit, benchmarks and the checks of its documentation
read it.

It imports nothing, so that ``import dpstats`` stays fast.
"""

__all__ = ["ESTIMATORS", "Listed"]


class Listed:
    """Where an estimator lives, and a call of it on a table of rows ``y, x, z`` that makes a release.

    Parameters
    ----------
    module : str
        Its file; the tests are in the file of that name under ``tests/``.
    formula : str
        Of the example call.
    own : dict
        Parameters without which there is no release.
    rows : int
        Number of rows that makes a release likely at ``eps = 4``.
    not_in_r : str
        Why the R package has no function for it; empty if it has one.
    """

    __slots__ = ("formula", "module", "not_in_r", "own", "rows")
    formula: str
    module: str
    not_in_r: str
    own: dict[str, object]
    rows: int

    def __init__(
        self,
        module: str,
        formula: str,
        own: dict[str, object] | None = None,
        rows: int = 20_000,
        not_in_r: str = "",
    ) -> None:
        values = {"module": module, "formula": formula, "own": own or {}, "rows": rows, "not_in_r": not_in_r}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the list of estimators is fixed")


_BOUNDS = {"x": (-10, 10), "y": (-50, 50)}

# the exact depths take n^2 log n steps
ESTIMATORS = {
    "adassp": Listed("dpstats.regression.adassp", "y ~ x + z"),
    "boosted_adassp": Listed("dpstats.regression.boosted_adassp", "y ~ x + z"),
    "bounding_box": Listed("dpstats.location.bounding_box", "y ~ 1"),
    "deepest_regression": Listed("dpstats.regression.deepest", "y ~ x", rows=2_000),
    "gradient_descent": Listed("dpstats.regression.gradient_descent", "y ~ x + z"),
    "huber": Listed("dpstats.regression.huber", "y ~ x + z"),
    "mean": Listed("dpstats.location.mean", "y ~ 1"),
    "median": Listed("dpstats.location.median", "y ~ 1"),
    "medsweep": Listed("dpstats.regression.medsweep", "y ~ x + z", rows=6_000),
    "noisy_stats": Listed("dpstats.regression.noisy_stats", "y ~ x", {"bounds": _BOUNDS}),
    "ols": Listed("dpstats.regression.ols", "y ~ x + z"),
    "quantile": Listed("dpstats.location.median", "y ~ 1", {"q": 0.9}),
    "select_features": Listed("dpstats.selection.features", "y ~ x + z", {"k": 1}),
    "theil_sen": Listed("dpstats.regression.theil_sen", "y ~ x"),
    "tukey_em": Listed("dpstats.regression.tukey_em", "y ~ x + z"),
    "tukey_median": Listed("dpstats.location.tukey_median", "y + x ~ 1", rows=4_000),
}
"""By public name."""
