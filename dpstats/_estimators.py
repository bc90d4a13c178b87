"""The one list of estimators: the package, its tests, audit, benchmarks and the checks of its documentation
read it.

It imports nothing of the package, so that ``import dpstats`` stays fast.
"""

from collections.abc import Mapping, Sequence

__all__ = ["AUDITED", "ESTIMATORS", "Listed"]


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
    variants : tuple of dict
        Arguments of further calls. With the example call they try every parameter of its own, and every value
        of those that have names for values. `w` in a formula is a factor.
    rows : int
        Number of rows that makes a release likely at ``eps = 4``.
    small : (int, float)
        Rows and `eps` of a release that succeeds, in little time.
    never_fails : bool
        Whether there is a release whatever the rows are.
    not_in_r : str
        Why the R package has no function for it; empty if it has one.
    experimental : bool
        All general tests hold for it, but it is not audited: the audit, the search for neighbours, mutants,
        benchmarks, the tables of the documentation and R are still to come. Its docstring says so by itself.
    """

    __slots__ = (
        "experimental", "formula", "module", "never_fails", "not_in_r", "own", "rows", "small", "variants",
    )  # fmt: skip
    experimental: bool
    formula: str
    module: str
    never_fails: bool
    not_in_r: str
    own: Mapping[str, object]
    rows: int
    small: tuple[int, float]
    variants: Sequence[Mapping[str, object]]

    def __init__(
        self,
        module: str,
        formula: str,
        own: dict[str, object] | None = None,
        variants: Sequence[Mapping[str, object]] = (),
        *,
        rows: int = 20_000,
        small: tuple[int, float] = (6_000, 4.0),
        never_fails: bool = False,
        not_in_r: str = "",
        experimental: bool = False,
    ) -> None:
        values = dict(locals())
        for name in self.__slots__:
            object.__setattr__(self, name, values[name])
        object.__setattr__(self, "own", own or {})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("the list of estimators is fixed")


_BOUNDS = {"x": (-10, 10), "y": (-50, 50)}
_ALL_BOUNDS = _BOUNDS | {"z": (-10, 10)}
_FACTOR = "y ~ x + z + w"
_SMOOTH = {"mechanism": "smooth"}
_RANDOM_DP = _SMOOTH | {"guarantee": "random", "gamma": 0.1}

# the exact depths take n^2 log n steps
ESTIMATORS = {
    "adassp": Listed(
        "dpstats.regression.adassp",
        "y ~ x + z",
        variants=(
            {"standardize": False, "clip": 2.0},
            {"cov_type": "bootstrap"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": _FACTOR},
        ),
    ),
    "boosted_adassp": Listed(
        "dpstats.regression.boosted_adassp",
        "y ~ x + z",
        variants=(
            {"standardize": False, "clip": 2.0},
            {"rounds": 5},
            {"cov_type": "bootstrap"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
        ),
    ),
    "bounding_box": Listed(
        "dpstats.location.bounding_box",
        "y ~ 1",
        variants=({"share": 0.5, "bounds": _BOUNDS}, {"formula": "y + x ~ 1"}),
        never_fails=True,
    ),
    "deepest_regression": Listed(
        "dpstats.regression.deepest",
        "y ~ x",
        variants=(
            {"at": (-1, 1)},
            {"bounds": _BOUNDS},
            {"intervals": "median-zero"},
            {"intervals": None},
            _SMOOTH,
            _SMOOTH | {"bounds": _BOUNDS},
            _RANDOM_DP,
        ),
        rows=2_000,
        small=(500, 20.0),
        never_fails=True,
    ),
    "gradient_descent": Listed(
        "dpstats.regression.gradient_descent",
        "y ~ x + z",
        variants=(
            {"clip": 1.0, "steps": 5, "learning_rate": 0.1, "schedule": "1/t"},
            {"standardize": False},
            {"bounds": _ALL_BOUNDS},
        ),
    ),
    "huber": Listed(
        "dpstats.regression.huber",
        "y ~ x + z",
        variants=(
            {"c": 2.0, "rounds": 8},
            {"cov_type": "bootstrap"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": _FACTOR},
        ),
    ),
    "logit": Listed(
        "dpstats.regression.logit",
        "I(y > 5) ~ x + z",
        variants=(
            {"cov_type": "robust"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": "I(y > 5) ~ x + z + w"},
        ),
    ),
    "mean": Listed(
        "dpstats.location.mean",
        "y ~ 1",
        variants=({"clip": 2.0, "rounds": 4}, {"bounds": _BOUNDS}, {"formula": "y + x ~ 1"}),
    ),
    "median": Listed(
        "dpstats.location.median",
        "y ~ 1",
        variants=({"alpha": None}, {"bounds": _BOUNDS}, _SMOOTH, _SMOOTH | {"bounds": _BOUNDS}, _RANDOM_DP),
        never_fails=True,
    ),
    "medsweep": Listed(
        "dpstats.regression.medsweep",
        "y ~ x + z",
        variants=(
            {"delta": 0.0},
            {"bounds": _ALL_BOUNDS},
            {"variant": "joint", "bounds": _ALL_BOUNDS, "clamp": 1.0},
        ),
        rows=6_000,
        small=(1_500, 20.0),
    ),
    "noisy_stats": Listed("dpstats.regression.noisy_stats", "y ~ x", {"bounds": _BOUNDS}),
    "ols": Listed(
        "dpstats.regression.ols",
        "y ~ x + z",
        variants=(
            {"winsorize": True},
            {"winsorize": False},
            {"cov_type": "bootstrap"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": _FACTOR},
            {"weights": "np.exp(z)"},
        ),
    ),
    "poisson": Listed(
        "dpstats.regression.poisson",
        "np.floor(np.abs(y)) ~ x + z",
        variants=(
            {"cov_type": "nonrobust"},
            {"offset": "z"},
            {"exposure": "x"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": "np.floor(np.abs(y)) ~ x + z + w"},
        ),
    ),
    "quantile": Listed(
        "dpstats.location.median",
        "y ~ 1",
        {"q": 0.9},
        variants=({"alpha": None}, {"bounds": _BOUNDS}, {"q": [0.25, 0.5, 0.9]}),
        never_fails=True,
    ),
    "select_features": Listed(
        "dpstats.selection.features",
        "y ~ x + z",
        {"k": 1},
        variants=(
            {"method": "kendall", "neighbours": "substitution"},
            {"method": "pairs"},
            {"method": "sub_lasso"},
            {"method": "kendall", "delta": 1e-6},
            {"bounds": _ALL_BOUNDS},
        ),
        small=(2_000, 4.0),
        never_fails=True,
    ),
    "theil_sen": Listed(
        "dpstats.regression.theil_sen", "y ~ x", variants=({"matchings": 3}, {"bounds": _BOUNDS})
    ),
    "tukey_em": Listed(
        "dpstats.regression.tukey_em",
        "y ~ x + z",
        variants=(
            {"models": 800},
            {"whiten": False, "models": 800},
            {"neighbours": "substitution"},
            {"bounds": _ALL_BOUNDS},
            {"select": 1},
            {"formula": _FACTOR},
        ),
        small=(6_000, 20.0),
    ),
    "tukey_median": Listed(
        "dpstats.location.tukey_median",
        "y + x ~ 1",
        variants=(
            {"scale": {"x": 1.0, "y": 2.0}},
            {"formula": "y + x + z ~ 1", "directions": 20},
            {"intervals": False},
            {"bounds": _BOUNDS},
            _SMOOTH,
            _SMOOTH | {"bounds": _BOUNDS},
            _RANDOM_DP,
        ),
        rows=4_000,
        small=(500, 60.0),
        never_fails=True,
    ),
}
"""By public name."""

AUDITED = tuple(name for name, listed in ESTIMATORS.items() if not listed.experimental)
"""The names of those that are not experimental."""
