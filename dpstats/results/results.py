"""What an estimator returns: released numbers, their covariance, what they cost, and nothing else.

A :class:`Results` is built from a release alone. It holds no row, residual or fitted value, so a copy
of it publishes no more than its printed summary, and its size does not depend on the data.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpstats._boundary import guarded
from dpstats._text import Summary, Tabled
from dpstats._types import Floats
from dpstats._validation import check, fail
from dpstats.privacy.guarantee import Guarantee
from dpstats.results.estimates import TIDY, Estimates
from dpstats.results.habits import Habits, fixed
from dpstats.results.hypotheses import HetTest, Hypotheses
from dpstats.results.parts import Declared, Described, Heterogeneity, Interval, Origin, Predictor
from dpstats.results.prediction import Predictions
from dpstats.results.registry import Registered
from dpstats.results.roots import factor_of
from dpstats.results.saved import declared, design_facts, encoded, header, interval_facts
from dpstats.results.table import PRIVACY, RELEASED, SAMPLING_AND_PRIVACY, report
from dpstats.results.withheld import Withheld

__all__ = ["PRIVACY", "SAMPLING_AND_PRIVACY", "Results"]


@fixed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Results(Tabled, Estimates, Hypotheses, Predictions, Habits, Registered, Withheld):
    r"""Released estimates with standard errors, intervals, tests, a table, and the guarantee.

    The names are statsmodels' names. Whatever statsmodels computes from rows (``resid``,
    ``fittedvalues``, ``llf`` ...) raises :class:`~dpstats.errors.NotReleased`, an `AttributeError` that says
    why.

    Parameters
    ----------
    method : str
        Name of the estimator, for the title.
    formula : str
        As the user wrote it.
    names : tuple of str
        Distinct names of the ``d`` estimates.
    estimates : (d,) array_like
        Released estimates; NaN for one that was not.
    cov : (d, d) array_like or None
        Covariance of the released estimates around what the intervals are about (see `covers`). None,
        or NaN entries: no standard error.
    covers : str
        :data:`SAMPLING_AND_PRIVACY`, :data:`PRIVACY`, or, if there is neither `cov` nor `interval`, a
        sentence that says why there are no intervals.
    guarantee : Guarantee
    response : str or None
        Name of the response.
    released : mapping of str to number
        What else was released or is public; keys from :data:`RELEASED`. Kept as floats: a pickled
        integer tells its size.
    notes : sequence of str
        Sentences below the table: assumptions, clipped columns.
    terms : mapping of str to slice
        Where each term's estimates are, for joint tests.
    interval : Interval, optional
        Intervals that are not Wald intervals: anything small that pickles and has
        ``conf_int(alpha) -> (d, 2) array``, such as :class:`dpstats.results.inference.FixedInterval`.
    df : float, optional
        Degrees of freedom of Student's t for intervals and tests; None is the normal distribution.
    limited : tuple of (str, float, float)
        Names whose estimates are about values limited to an interval, and its ends; the table says so in
        their lines.
    design : Predictor, optional
        For :meth:`predict` only: anything small that pickles and has ``matrix(data) -> (rows, d) array``.
    cov_type : str, optional
        What `cov` allows for, in statsmodels' words where it has them: ``"robust"``, ``"nonrobust"``,
        ``"bootstrap"``.
    het : HetTest, optional
        The released test of constant error variance, for :meth:`het_test`.
    heterogeneity : Heterogeneity, optional
        Of several releases that were pooled (:func:`dpstats.combine`).
    origin : Origin, optional
        When the release was made, and by which version of the package.
    declared : tuple of Declared
        What was declared about columns that `design` does not read: all of a result without one, and those
        of an offset.
    bias : (d, d) array, optional
        The part of `cov` that is of bounds on biases: releases that are pooled may share these.
    root, bias_root : (d, k) arrays, optional
        Factors: ``cov = root @ root.T``, and so of `bias`. Of uncentred powers they hold what the matrices
        round away; predictions, joint tests and :func:`dpstats.combine` use them. A factor of another matrix
        than is given is left out.
    free : (d, m) array, optional
        How coefficients that are not determined may move together without a fitted value that changes, as
        where the rows of a reference level were left out. `root` has their rows, too: linear combinations
        that do not move, and predictions, are determined.

    Raises
    ------
    ParameterError
        If the parts do not fit together. The arrays are not shown.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import Guarantee
    >>> fit = Results(method="Example", formula="y ~ x", names=("Intercept", "x"), estimates=[1.0, -0.5],
    ...               cov=[[0.04, 0.0], [0.0, 0.01]], covers=SAMPLING_AND_PRIVACY,
    ...               guarantee=Guarantee(1, 0, "add-remove", "pure"))
    >>> fit
    <Results Example: y ~ x, (1, 0)-DP, pure; neighbours: one record added or removed>
    >>> fit.conf_int().round(2)
                  0     1
    Intercept  0.61  1.39
    x         -0.70 -0.30
    >>> fit.resid
    Traceback (most recent call last):
    ...
    dpstats.errors.NotReleased: 'resid' has one entry for each row of private data and was not released.
    """

    method: str
    formula: str
    names: tuple[str, ...]
    estimates: Floats
    cov: Floats | None
    covers: str
    guarantee: Guarantee
    response: str | None = None
    released: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    terms: Mapping[str, slice] = field(default_factory=dict)
    interval: Interval | None = None
    df: float | None = None
    limited: tuple[tuple[str, float, float], ...] = ()
    design: Predictor | None = None
    cov_type: str | None = None
    het: HetTest | None = None
    heterogeneity: Heterogeneity | None = None
    origin: Origin | None = None
    declared: tuple[Declared, ...] = ()
    bias: Floats | None = None
    root: Floats | None = None
    bias_root: Floats | None = None
    free: Floats | None = None

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("names", tuple(str(name) for name in self.names))
        put("notes", tuple(self.notes))
        put("estimates", _frozen(self.estimates))
        for name in ("cov", "bias"):
            put(name, None if (matrix := getattr(self, name)) is None else _frozen(matrix))
        put("released", MappingProxyType({key: float(value) for key, value in self.released.items()}))
        put("terms", MappingProxyType(dict(self.terms)))
        put("df", check("df", self.df, "positive", optional=True))
        d = len(self.names)
        if len(set(self.names)) != d:
            fail("names", self.names, "distinct")
        if self.estimates.shape != (d,):
            fail("estimates", f"shape {self.estimates.shape}", f"of shape ({d},), one for each name")
        for name in ("cov", "bias"):
            matrix = getattr(self, name)
            if matrix is not None and matrix.shape != (d, d):
                fail(name, f"shape {matrix.shape}", f"None or of shape ({d}, {d})")
        put("bias_root", factor_of(self.bias_root, self.bias, self.cov))
        free = None if self.root is None or self.free is None else _frozen(self.free)
        if free is not None and (free.ndim != 2 or len(free) != d):
            fail("free", f"shape {free.shape}", f"None or of shape ({d}, m)")
        put("root", factor_of(self.root, self.cov, self.cov, free))
        put("free", None if self.root is None else free)
        if not self.released.keys() <= RELEASED.keys():
            fail("released", self.released, f"a mapping with keys among {sorted(RELEASED)}")
        if not (self.cov_type is None or isinstance(self.cov_type, str)):
            fail("cov_type", self.cov_type, "None or a string")
        if not (self.het is None or isinstance(self.het, HetTest)):
            fail("het", self.het, "None or a HetTest")
        if not isinstance(self.guarantee, Guarantee):
            fail("guarantee", self.guarantee, "a Guarantee")
        if self._has_intervals != (self.covers in (SAMPLING_AND_PRIVACY, PRIVACY)):
            fail(
                "covers",
                self.covers,
                f"{SAMPLING_AND_PRIVACY!r} or {PRIVACY!r} where there is a covariance or an interval, "
                "and else a sentence that says why there is none",
            )

    @classmethod
    def of_regression(
        cls,
        design: Described,
        method: str,
        estimates: ArrayLike,
        guarantee: Guarantee,
        covers: str,
        *,
        cov: ArrayLike | None = None,
        interval: Interval | None = None,
        released: Mapping[str, float] | None = None,
        notes: Sequence[str] = (),
        cov_type: str | None = None,
        het: HetTest | None = None,
    ) -> Self:
        """Results for the columns of a :class:`~dpstats.formula.design.Design` of one response.

        Parameters as of the class; what it leaves out, the design tells.

        Returns
        -------
        Results

        Examples
        --------
        >>> import dpstats
        >>> design, price = dpstats.datasets.load_fit().design, dpstats.Guarantee(1, 0, "add-remove", "pure")
        >>> words = "There are no intervals."
        >>> Results.of_regression(design, "By hand", [1, 2, 3, 4, 5, 6], price, words).estimates.tolist()
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        """
        return cls(
            method=method,
            formula=design.formula,
            response=design.response_names[0],
            names=design.column_names,
            estimates=_frozen(estimates),
            cov=None if cov is None else _frozen(cov),
            covers=covers,
            guarantee=guarantee,
            interval=interval,
            released=released or {},
            notes=tuple(notes),
            terms=dict(design.term_slices),
            design=design,
            cov_type=cov_type,
            het=het,
        )

    @classmethod
    def of_columns(
        cls,
        design: Described,
        method: str,
        estimates: ArrayLike,
        guarantee: Guarantee,
        covers: str,
        *,
        cov: ArrayLike | None = None,
        interval: Interval | None = None,
        released: Mapping[str, float] | None = None,
        notes: Sequence[str] = (),
    ) -> Self:
        """Results with one estimate for each response of a :class:`~dpstats.formula.design.Design`.

        Parameters as of the class; what it leaves out, the design tells.

        Returns
        -------
        Results

        Examples
        --------
        >>> import dpstats
        >>> design, price = dpstats.datasets.load_fit().design, dpstats.Guarantee(1, 0, "add-remove", "pure")
        >>> Results.of_columns(design, "By hand", [3933.0], price, PRIVACY, cov=[[9.0]]).bse.to_dict()
        {'price': 3.0}
        """
        names, facts = design.response_names, design_facts(design)
        return cls(
            method=method,
            formula=design.formula,
            response=names[0] if len(names) == 1 else None,
            names=names,
            estimates=_frozen(estimates),
            cov=cov if cov is None else _frozen(cov),
            covers=covers,
            guarantee=guarantee,
            interval=interval,
            released=released or {},
            notes=tuple(notes),
            declared=() if facts is None else declared(facts["columns"]),
        )

    # -- tables -----------------------------------------------------------------------------------

    @guarded
    def summary(self, alpha: float | None = None) -> Summary:
        """The table: coefficients, what was released, the guarantee, and what the intervals cover.

        A coefficient that the release does not determine has ``n.d.`` in place of a standard error and an
        interval; see :attr:`determined`. There are no significance stars: with the privacy noise in the
        standard errors, the interval is what to read.

        Parameters
        ----------
        alpha : float in (0, 1), optional
            One minus the confidence of the intervals; see :meth:`conf_int`.

        Returns
        -------
        dpstats._text.Summary
            Prints as text of 78 columns; ``as_text()``, ``as_html()``, ``as_latex()``.

        Raises
        ------
        ParameterError
            If `alpha` is out of range, or not that of intervals that were released for one confidence.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> print("\\n".join(fit.summary().as_text().splitlines()[7:15]))
                                       coef  std err       z   P>|z|   [0.025   0.975]
        ------------------------------------------------------------------------------
        Intercept                   -3838.6     85.2  -45.06  <0.001  -4005.6  -3671.7
        cut[T.Good]                   971.3     85.2   11.40  <0.001    804.2   1138.3
        cut[T.Very Good]             1440.6     83.8   17.19  <0.001   1276.3   1604.8
        cut[T.Premium]               1356.2     77.8   17.43  <0.001   1203.7   1508.7
        cut[T.Ideal]                 1725.2     82.6   20.88  <0.001   1563.3   1887.2
        carat                        7917.2     39.2  202.06  <0.001   7840.4   7994.0
        """
        return report(self, self._alpha(alpha))

    def glance(self) -> pd.DataFrame:
        """One row for the fit, with broom's column names where it has them.

        Returns
        -------
        DataFrame
            Columns ``method, r.squared, sigma, nobs, eps, delta, neighbours, kind, seeded``; NaN where
            nothing was released.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.glance()[["r.squared", "nobs", "eps"]].round(2)
           r.squared      nobs  eps
        0       0.86  53943.37  1.0
        """
        get, g = self.released.get, self.guarantee
        return pd.DataFrame([{
            "method": self.method,
            "r.squared": get("rsquared", math.nan),
            "sigma": get("sigma", math.nan),
            "nobs": get("nobs", get("n", math.nan)),
            "eps": g.eps,
            "delta": g.delta,
            "neighbours": g.neighbours,
            "kind": g.kind,
            "seeded": g.seeded,
        }])  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The whole result as plain dicts, lists, strings and numbers for JSON.

        :func:`dpstats.from_dict` makes the result again, to the last digit, also from the JSON. NaN is None,
        and infinity the text ``"Infinity"``, but None in the columns that are computed from the rest.

        Returns
        -------
        dict
            With the version of the package and the UTC time of the release under ``"dpstats"``.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> sorted(fit.to_dict()["coefficients"][0])
        ['conf.high', 'conf.low', 'estimate', 'p.value', 'statistic', 'std.error', 'term']
        """
        return {
            "dpstats": header(type(self).__name__, self.origin),
            "method": self.method,
            "formula": self.formula,
            "response": self.response,
            "coefficients": [
                {"term": name, "estimate": encoded(estimate)}
                | dict(zip(TIDY[1:], map(_plain, row[1:]), strict=True))
                for name, estimate, row in zip(self.names, self.estimates, Results.table(self), strict=True)
            ],
            "cov": encoded(self.cov),
            "bias": encoded(self.bias),
            "root": encoded(self.root),
            "bias_root": encoded(self.bias_root),
            "free": encoded(self.free),
            "df": self.df,
            "covers": self.covers,
            "cov_type": self.cov_type,
            "het": None if self.het is None else encoded(self.het.to_dict()),
            "alpha": self.alpha,
            "released": encoded(self.released),
            "notes": list(self.notes),
            "terms": {k: list(self.names[s]) for k, s in self.terms.items()},
            "limited": encoded(self.limited),
            "interval": interval_facts(self.interval, self.alpha),
            "heterogeneity": None if self.heterogeneity is None else encoded(self.heterogeneity.to_dict()),
            "design": design_facts(self.design),
            "declared": [encoded(asdict(column)) for column in self.declared],
            "guarantee": self.guarantee.to_dict(),
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method}: {self.formula}, {self.guarantee}>"

    # -- value semantics --------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Results):
            return NotImplemented
        return (
            self._numbers() == other._numbers()
            and np.array_equal(self.estimates, other.estimates, equal_nan=True)
            and dict(self.terms) == dict(other.terms)
        )

    def _numbers(self) -> dict[str, Any]:
        """What equal results have in common: not when they were released, nor how they predict."""
        apart = ("dpstats", "design", "interval", "declared")
        return {key: value for key, value in self.to_dict().items() if key not in apart}

    __hash__ = None  # type: ignore[assignment]  # how Python says that there is no hash

    def __reduce__(self) -> tuple[Any, ...]:
        state = {f.name: getattr(self, f.name) for f in fields(self)}
        state |= {"released": dict(self.released), "terms": dict(self.terms)}
        return (_restore, (type(self), state))


def _restore(cls: type[Results], state: dict[str, Any]) -> Results:
    return cls(**state)


def _frozen(values: ArrayLike) -> Floats:
    array = np.array(values, float)
    array.flags.writeable = False
    return array


def _plain(x: float) -> float | None:
    return float(x) if math.isfinite(x) else None
