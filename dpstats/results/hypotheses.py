"""Tests of linear hypotheses about released estimates, in statsmodels' words and with its results."""

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from dpstats._boundary import guarded
from dpstats._format import format_p, format_statistic, listed
from dpstats._types import Floats
from dpstats._validation import check, fail, unknown_in
from dpstats.errors import NotReleased, ParameterError
from dpstats.results import inference
from dpstats.results.table import PRIVACY, SAMPLING_AND_PRIVACY
from dpstats.results.terms import TermTests, term_tests

__all__ = ["HetTest", "Hypotheses", "linear_hypothesis"]

Hypothesis = str | Sequence[str] | ArrayLike
_Equations = tuple[Floats, Floats, list[str]]
_NO_COVARIANCES = "A joint test needs covariances between its estimates, and none were released: see t_test()"


@dataclass(frozen=True, slots=True)
class HetTest:
    """A test of the hypothesis that the error variance is the same for all rows, from released values.

    Parameters
    ----------
    statistic : float
    pvalue : float
    df : float, optional
        Degrees of freedom, if `statistic` is chi-squared under the hypothesis.

    Examples
    --------
    >>> print(HetTest(41.3, 3.5e-10, 1))
    Constant error variance: chi2(1) = 41.30, p < 0.001
    """

    statistic: float
    pvalue: float
    df: float | None = None

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():  # a pickled integer tells its size
            object.__setattr__(self, name, None if value is None else float(value))

    def __str__(self) -> str:
        name = "statistic" if self.df is None else f"chi2({self.df:g})"
        p = "< 0.001" if self.pvalue < 0.001 else f"= {format_p(self.pvalue)}"
        return f"Constant error variance: {name} = {format_statistic(self.statistic)}, p {p}"

    def to_dict(self) -> dict[str, float | None]:
        """The numbers by name.

        Returns
        -------
        dict

        Examples
        --------
        >>> HetTest(41.3, 3.5e-10, 1).to_dict()
        {'statistic': 41.3, 'pvalue': 3.5e-10, 'df': 1.0}
        """
        return asdict(self)


class Hypotheses:
    """The tests of a result: what :class:`~dpstats.results.results.Results` inherits, over its fields.

    All of them raise `NotReleased` if the standard errors do not cover the sampling variation, and
    `ParameterError` if the hypothesis cannot be read. Joint tests of what is not determined raise
    `NotReleased`, and :meth:`t_test` gives NaN; differences beside a reference level that left may be.
    """

    __slots__ = ()
    het: HetTest | None
    names: tuple[str, ...]
    estimates: Floats
    cov: Floats | None
    root: Floats | None
    free: Floats | None
    covers: str
    terms: Mapping[str, slice]
    df: float | None
    method: str
    formula: str

    @guarded
    def diagnose(
        self, data: Any, *, eps: float, delta: float = 1e-6, ledger: Any = None, seed: int | None = None
    ) -> Any:
        """Private diagnostics of this fit, a further release: see :func:`dpstats.diagnose`.

        Parameters
        ----------
        data : table
            The rows of the fit, or others with its columns.
        eps, delta, ledger, seed
            As of :func:`dpstats.diagnose`.

        Returns
        -------
        dpstats.explore.diagnosis.Diagnosis

        Raises
        ------
        NotReleased
            If the result has no regression function.
        ReleaseFailed, ParameterError, SchemaError, BudgetExceeded
            As of :func:`dpstats.diagnose`.

        Examples
        --------
        >>> import dpstats
        >>> fit, diamonds = dpstats.datasets.load_fit(), dpstats.datasets.load_diamonds()
        >>> found = fit.diagnose(diamonds[::10], eps=1, seed=1)  # seeded for the example
        >>> found.test_table[["df", "pvalue"]].round(3)
                                            df  pvalue
        Powers of the prediction (RESET)     2     0.0
        Constant error variance              2     0.0
        Normal errors (skewness, kurtosis)   2     0.0
        """
        # a verb of a higher floor, which is loaded when it is asked for
        return sys.modules["dpstats"].diagnose(self, data, eps=eps, delta=delta, ledger=ledger, seed=seed)

    @guarded
    def t_test(self, r_matrix: Hypothesis) -> Any:
        """Tests of linear hypotheses one at a time.

        Parameters
        ----------
        r_matrix : str, sequence of str, array, or (R, q)
            ``"carat = 0"``, ``"carat = 2 * table, depth = 1"``, ``"carat = table = 0"``, names of
            coefficients, a ``(q, d)`` array of contrasts that are 0 under the hypothesis, or a tuple of
            such an array and their values.

        Returns
        -------
        statsmodels.stats.contrast.ContrastResults
            With ``effect, sd, tvalue, pvalue, conf_int(), summary_frame()``.

        Raises
        ------
        NotReleased
            If the standard errors do not cover the sampling variation.
        ParameterError
            If the hypothesis cannot be read.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> fit.t_test("cut[T.Ideal] - cut[T.Premium] = 0, carat = 8000").summary_frame().iloc[:, :4].round(3)
                                               coef  std err       z  P>|z|
        cut[T.Ideal] - cut[T.Premium] = 0   369.080   35.996  10.253  0.000
        carat = 8000                       7917.155   39.183  -2.114  0.034
        """
        from statsmodels.stats.contrast import ContrastResults

        cov, R, values, labels = self._hypothesis(r_matrix)
        effect, sd = inference.contrasts(self.estimates, cov, R, self.root, self.free)
        t = inference.wald_statistics(effect - values, sd)
        if self.df is None:
            test = ContrastResults(effect=effect, statistic=t, sd=sd, distribution="norm")
        else:
            test = ContrastResults(effect=effect, t=t, sd=sd, df_denom=self.df)
        test.c_names = labels
        return test

    @guarded
    def wald_test(self, r_matrix: Hypothesis, scalar: bool = True) -> Any:
        """The joint Wald test of linear hypotheses.

        Parameters
        ----------
        r_matrix : str, sequence of str, array, or (R, q)
            As of :meth:`t_test`, or names of terms (``["clarity"]``). All are tested together.
        scalar : True
            As statsmodels has it: the statistic is a number, and no array.

        Returns
        -------
        statsmodels.stats.contrast.ContrastResults
            With ``statistic``, ``pvalue`` and ``df_denom``: an F test if the result has degrees of freedom,
            otherwise the chi-squared test (whose degrees of freedom statsmodels calls ``df_denom``).

        Raises
        ------
        NotReleased
            If the standard errors do not cover the sampling variation, or the hypothesis is about a
            coefficient that is not determined or has no covariances with others.
        ParameterError
            If the hypothesis cannot be read, or contradicts itself.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> test = fit.wald_test("cut[T.Premium] = cut[T.Ideal] = 1500")
        >>> round(float(test.statistic), 2), f"{test.pvalue:.1e}", int(test.df_denom)
        (105.94, '9.9e-24', 2)
        """
        from statsmodels.stats.contrast import ContrastResults

        if scalar is not True:
            fail("scalar", scalar, "True")
        cov, R, values, _ = self._hypothesis(r_matrix)
        if _contradictory(R, values):
            fail("hypothesis", r_matrix, "of equations that can hold together")
        parts = R, values, self.df, self.root, self.free
        statistic, q, _ = inference.joint_test(self.estimates, cov, *parts)
        used = np.any(R != 0, axis=0)
        lost = used & np.isnan(inference.standard_errors(cov))
        if np.isnan(statistic) and lost.any():
            names = listed([self.names[i] for i in np.flatnonzero(lost)])
            raise NotReleased(f"A joint test has coefficients that are not determined: {names}. Name others.")
        if np.isnan(statistic) and np.isnan(cov[np.ix_(used, used)]).any():
            raise NotReleased(f"{_NO_COVARIANCES}.")
        if self.df is None:
            return ContrastResults(chi2=statistic, statistic=statistic, df_denom=q, distribution="chi2")
        return ContrastResults(F=statistic, df_num=q, df_denom=self.df)

    @guarded
    def wald_test_terms(self, skip_single: bool = False) -> TermTests:
        """The joint Wald test of every term of the formula, the constant among them.

        Parameters
        ----------
        skip_single : bool
            Whether terms of one coefficient are left out.

        Returns
        -------
        dpstats.results.terms.TermTests
            With ``table``, a DataFrame with a row for each term and statsmodels' columns ``statistic, pvalue,
            df_constraint``; NaN for a term with a coefficient that is not determined.

        Raises
        ------
        NotReleased
            If the standard errors do not cover the sampling variation.
        ParameterError
            If `skip_single` is no truth value.

        Examples
        --------
        >>> import dpstats
        >>> dpstats.datasets.load_fit().wald_test_terms().table.round(1)
                   statistic  pvalue  df_constraint
        Intercept     2030.8     0.0              1
        cut            537.8     0.0              4
        carat        40826.6     0.0              1
        """
        cov, skip_single = self._tested(), check("skip_single", skip_single, "flag")
        terms = self.terms or {name: slice(i, i + 1) for i, name in enumerate(self.names)}
        named = set().union(*(self.names[where] for where in terms.values()))
        if "Intercept" not in terms and "Intercept" in self.names and "Intercept" not in named:
            at = self.names.index("Intercept")
            terms = {"Intercept": slice(at, at + 1), **terms}
        if skip_single:
            terms = {name: where for name, where in terms.items() if len(self.names[where]) > 1}
        given = self.estimates, cov, terms, self.df, self.root, self.free
        return term_tests(*given, method=self.method, formula=self.formula)

    @guarded
    def f_test(self, terms: Hypothesis | None = None) -> Any:
        """The joint test of some terms, or of all coefficients but the intercept; see :meth:`wald_test`.

        Parameters
        ----------
        terms : str, sequence of str, or array, optional
            As of :meth:`wald_test`; by default all coefficients but the intercept.

        Returns
        -------
        statsmodels.stats.contrast.ContrastResults
            As of :meth:`wald_test`.

        Raises
        ------
        NotReleased, ParameterError
            As of :meth:`wald_test`.

        Examples
        --------
        >>> import dpstats
        >>> test = dpstats.datasets.load_fit().f_test("cut")
        >>> round(float(test.statistic), 2), int(test.df_denom)
        (537.8, 4)
        """
        names = [name for name in self.names if name != "Intercept"]
        if terms is None and not names:
            raise ParameterError("terms must be given, as the fit has a constant alone: f_test('Intercept').")
        return self.wald_test(names if terms is None else terms)

    def het_test(self) -> HetTest:
        """The test of constant error variance (homoskedasticity), from released values. Conservative, but for
        columns that differ in a few dozen rows it rejects too often where the budget is large.

        Returns
        -------
        HetTest
            With ``statistic``, ``pvalue`` and ``df``.

        Raises
        ------
        NotReleased
            If the estimator releases nothing that tells.

        Examples
        --------
        >>> import dpstats
        >>> fit = dpstats.datasets.load_fit()
        >>> print(fit.het_test())
        Constant error variance: chi2(20) = 35.04, p = 0.020
        """
        if self.het is None:
            raise NotReleased(
                "This result has no test of constant error variance: its estimator releases none, or nothing "
                "is determined."
            )
        return self.het

    def _hypothesis(self, spec: Hypothesis) -> tuple[Floats, Floats, Floats, list[str]]:
        """The covariance, and the hypothesis as :func:`linear_hypothesis` reads it."""
        return self._tested(), *linear_hypothesis(spec, self.names, self.terms)

    def _tested(self) -> Floats:
        """The covariance; NotReleased if it is not one for tests."""
        if self.cov is None or self.covers != SAMPLING_AND_PRIVACY:
            why = {SAMPLING_AND_PRIVACY: "there is no covariance", PRIVACY: f"the intervals cover {PRIVACY}"}
            raise NotReleased(f"This result has no tests: {why.get(self.covers, self.covers.rstrip('.'))}.")
        return self.cov


def linear_hypothesis(
    spec: Hypothesis, names: Sequence[str], terms: Mapping[str, slice] | None = None
) -> _Equations:
    r"""A hypothesis :math:`R\theta = r` in a user's words, as a matrix and values.

    Parameters
    ----------
    spec : str, sequence of str, or array_like
        ``"carat = 0"``, ``"carat = 2 * table, depth = 1"``, ``"carat = table = 0"`` or a list of such
        equations; names of terms or coefficients, which are then 0; the ``(q, d)`` matrix `R`, with values
        0; or, as in statsmodels, the tuple ``(R, r)`` of it and its values, a number or ``q`` of them.
    names : sequence of str
        The ``d`` coefficients.
    terms : mapping of str to slice, optional
        Where each term's coefficients are.

    Returns
    -------
    R : (q, d) ndarray
    r : (q,) ndarray
    labels : list of str
        One for each row.

    Raises
    ------
    ParameterError
        If the hypothesis is empty, names something else, is not linear, or has another shape.

    Examples
    --------
    >>> linear_hypothesis("a = 2 * b", ["a", "b"])
    (array([[ 1., -2.]]), array([0.]), ['a = 2 * b'])
    >>> linear_hypothesis(["f"], ["a", "f[1]", "f[2]"], {"f": slice(1, 3)})[2]
    ['f[1]', 'f[2]']
    >>> linear_hypothesis("a = b = 1", ["a", "b"])[1:]
    (array([0., 1.]), ['a = b', 'b = 1'])
    """
    names, terms = list(names), terms or {}
    if isinstance(spec, str) or (isinstance(spec, (list, tuple)) and all(isinstance(s, str) for s in spec)):
        parts = [spec] if isinstance(spec, str) else list(spec)
        if not parts or not all(part.strip() for part in parts):
            fail("hypothesis", spec, "about one coefficient at least")
        if all(part in terms or part in names for part in parts):
            rows = [i for part in parts for i in _positions(part, names, terms)]
            return np.eye(len(names))[rows], np.zeros(len(rows)), [names[i] for i in rows]
        return _parsed(spec, parts, names, [*names, *terms])
    matrix, values = spec if _has_values(spec) else (spec, 0.0)
    try:
        R, r = np.atleast_2d(np.asarray(matrix, float)), np.asarray(values, float)
    except (TypeError, ValueError):
        fail("hypothesis", spec, "a string, a list of strings, an array of numbers, or a tuple (R, q)")
    if R.ndim != 2 or R.shape[1] != len(names) or len(R) == 0:
        fail("hypothesis", spec, f"of shape (q, {len(names)}), one column for each coefficient")
    if r.ndim > 2 or r.size not in (1, len(R)):
        fail("hypothesis", spec, f"with one value, or {len(R)}, one for each row of R")
    if not (np.isfinite(R).all() and np.isfinite(r).all()):
        raise ParameterError("hypothesis must be an array of finite numbers, without NaN or infinity.")
    return R, np.resize(r.ravel(), len(R)), [f"c{i}" for i in range(len(R))]


def _contradictory(R: Floats, values: Floats) -> bool:
    """Whether no coefficients fulfil all equations."""
    sizes = np.linalg.norm(R, axis=1)
    sizes[sizes == 0] = 1.0
    R, values = R / sizes[:, None], values / sizes
    values = values / max(float(np.abs(values).max()), 1e-300)
    rank: int = np.linalg.matrix_rank(R)
    return bool(np.linalg.matrix_rank(np.column_stack([R, values])) > rank)


def _has_values(spec: Any) -> TypeGuard[tuple[Any, Any]]:
    """Whether it is ``(R, q)`` and not two rows of a matrix."""
    if not (isinstance(spec, tuple) and len(spec) == 2):
        return False
    try:
        R, r = np.asarray(spec[0], float), np.asarray(spec[1], float)
    except (TypeError, ValueError):
        return False
    return R.ndim == 2 or r.ndim == 0 or (R.ndim == r.ndim == 1 and r.size == 1)


def _positions(part: str, names: list[str], terms: Mapping[str, slice]) -> Iterable[int]:
    return range(*terms[part].indices(len(names))) if part in terms else [names.index(part)]


def _parsed(spec: Hypothesis, parts: list[str], names: list[str], known: list[str]) -> _Equations:
    import patsy

    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            constraint = patsy.DesignInfo(names).linear_constraint(spec)
    except (patsy.PatsyError, ValueError, ArithmeticError):
        allowed = f"an equation linear in the coefficients {listed(names, 6)}, or names of these or terms"
        fail("hypothesis", spec, allowed + unknown_in(spec if isinstance(spec, str) else parts, known))
    if not (np.isfinite(constraint.coefs).all() and np.isfinite(constraint.constants).all()):
        fail("hypothesis", spec, "finite")
    labels = [label for part in parts for text in part.split(",") for label in _equations(text)]
    if len(labels) != len(constraint.coefs):  # a name that holds a comma
        labels = [f"c{i}" for i in range(len(constraint.coefs))]
    return constraint.coefs, constraint.constants[:, 0], labels


def _equations(text: str) -> list[str]:
    """What ``"a = b = 0"`` stands for: ``"a = b"`` and ``"b = 0"``."""
    sides = [side.strip() for side in text.split("=")]
    if len(sides) < 3:
        return [text.strip()]
    return [f"{a} = {b}" for a, b in itertools.pairwise(sides)]
