"""What a budget will buy: a whole estimator is simulated on public or made-up data before any release."""

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpstats._boundary import guarded
from dpstats._format import MISSING, format_value
from dpstats._text import Summary, Table, Tabled
from dpstats._validation import allows, check, fail, one_of
from dpstats.explore.lookalike import lookalike
from dpstats.explore.regressions import REGRESSIONS
from dpstats.explore.response import made
from dpstats.explore.search import Needed, criteria, powers, search
from dpstats.explore.simulate import Progress, Runs, Simulation, Task, median

__all__ = ["Plan", "plan"]

_RESERVED = set("formula data eps delta seed ledger by unit select offset exposure weights".split())
_COLUMNS = (
    "eps", "n", "term", "se", "error", "width", "ratio", "power", "determined", "refused", "runs"
)  # fmt: skip
_BATCH, _MOST = 100, 600
_WANTED = 0.03
"""The relative standard error of the median standard errors at which simulation ends."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Tabled):
    """What a budget is expected to buy; :func:`dpstats.plan` makes it.

    Attributes
    ----------
    formula, estimator : str
    delta, alpha : float
    seed : int
    target : str
        What was asked for, in words; empty if nothing was.
    needed : Needed or None
        With a target, the least number of rows or the least `eps` that meets it: ``needed.n``,
        ``needed.eps``, ``needed.low`` and ``needed.high``, between which it is as far as the simulation
        tells, and ``needed.reached``.

    Examples
    --------
    >>> import dpstats
    >>> p = dpstats.plan("y ~ x", {"x": "normal"}, n=2_000, eps=4, effects={"x": 1}, sigma=1, runs=3)
    >>> p.table[["eps", "n", "term", "runs"]]
       eps     n       term  runs
    0  4.0  2000  Intercept     3
    1  4.0  2000          x     3
    """

    formula: str
    estimator: str
    delta: float
    alpha: float
    seed: int
    rows: tuple[tuple[Any, ...], ...]
    target: str = ""
    needed: Needed | None = None

    @property
    def table(self) -> pd.DataFrame:
        """One row for each `eps`, number of rows and term.

        Returns
        -------
        DataFrame
            ``eps``, ``n`` and ``term``; ``se``, the median standard error of the releases that determine the
            coefficient, and ``error``, the simulation's standard error of that; ``width``, the median width
            of the interval; ``ratio`` of `se` to the standard error without privacy; ``power`` of the test
            that the coefficient is 0, where `effects` says what it is; ``determined``, the share of runs that
            release and determine it; ``refused``, the share of runs without a release; ``runs``.
        """
        return pd.DataFrame(list(self.rows), columns=list(_COLUMNS))

    def summary(self) -> Summary:
        """The table as text, also in a notebook.

        Returns
        -------
        dpstats._text.Summary

        Examples
        --------
        >>> import dpstats
        >>> p = dpstats.plan("y ~ x", {"x": "normal"}, n=2_000, eps=4, effects={"x": 1}, sigma=1, runs=3)
        >>> print(p.summary().as_csv().splitlines()[0])
        ,eps,n,std err,width,ratio,power,determ.,refused
        """
        return _summary(self)

    def __repr__(self) -> str:
        return str(self.summary())

    @guarded
    def plot(
        self,
        ax: Any = None,
        *,
        y: str = "se",
        x: str | None = None,
        terms: str | Sequence[str] | None = None,
    ) -> Any:
        """Standard errors, or another column of :attr:`table`, over `eps` or the number of rows.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default a new figure.
        y : {"se", "width", "ratio", "power", "determined", "refused"}
            What is drawn.
        x : {"eps", "n"}, optional
            Over what; by default that of which there are more values.
        terms : str or sequence of str, optional
            By default all but the intercept.

        Returns
        -------
        matplotlib.axes.Axes
            One line for each term and each value of the other of `eps` and the number of rows.

        Raises
        ------
        ParameterError
            If an argument is not allowed.

        Examples
        --------
        >>> import dpstats
        >>> p = dpstats.plan("y ~ x", {"x": "normal"}, n=2_000, eps=[1, 4], effects={"x": 1}, sigma=1, runs=3)
        >>> p.plot().get_xlabel()
        'eps'
        """
        from dpstats.explore.plots import planned

        return planned(self.table, ax, y=y, x=x, terms=terms)


@guarded
def plan(
    formula: str,
    like: Any,
    n: int | Sequence[int] | None = None,
    eps: float | Sequence[float] | None = None,
    *,
    estimator: str = "ols",
    delta: float = 1e-6,
    options: Mapping[str, Any] | None = None,
    correlation: Mapping[tuple[str, str], float] | None = None,
    effects: Mapping[str, float] | None = None,
    sigma: float | None = None,
    r2: float | None = None,
    errors: Any = "normal",
    spread: Mapping[str, float] | None = None,
    target: Mapping[str, Mapping[str, float]] | None = None,
    alpha: float = 0.05,
    runs: int | None = None,
    seed: int = 0,
    processes: int | None = None,
    progress: Progress | bool | None = None,
) -> Plan:
    r"""Standard errors, widths, power and the chance of no result, before any budget is spent.

    The whole estimator is run again and again, on tables drawn from a public table or from a description.
    Nothing private is read, and nothing is charged.

    Parameters
    ----------
    formula : str
        As for the estimator.
    like : DataFrame, dict or list of dict
        A public table, whose rows are drawn with replacement, or the columns of a made-up one. A column is
        described by a law and its parameters, in this order or in a dictionary: ``("normal", mean, sd)``,
        ``("lognormal", mean, sd)``, ``("gamma", mean, sd)``, ``("exponential", mean)``,
        ``("laplace", mean, sd)``, ``("t", mean, sd, df)``, ``("uniform", low, high)``,
        ``("beta", mean, sd, low, high)``, ``("poisson", mean)``, ``("negbinomial", mean, sd)``,
        ``("bernoulli", p)``, ``("integers", low, high)``. Mean and sd are those of the column itself, also
        where ``low`` and ``high`` in a dictionary cut it off, as in
        ``("gamma", {"mean": 0.8, "sd": 0.47, "low": 0.2})``. A name alone is enough for ``"normal"``,
        ``"exponential"``, ``"laplace"``, ``"t"`` and ``"uniform"``.
        ``("quantiles", {0: 18, 0.5: 40, 1: 90})`` has straight lines between quantiles.
        ``{"yes": 0.3, "no": 0.7}`` is a factor, and ``{1: 0.2, 2: 0.8}`` has numbers, with their shares.
        A list has groups of rows, such as classes of the residuals of a fit, each described by itself:
        ``{"share": 0.2, "columns": {...}, "correlation": {...}}``. Never give private data here.
    n : int or sequence of int
        Numbers of rows.
    eps : float or sequence of float
        Budgets.
    estimator : str
        The name of a regression with intervals, such as ``"ols"`` or ``"logit"``.
    delta : float
        As for the estimator.
    options : dict, optional
        The estimator's own parameters, such as ``{"cov_type": "bootstrap", "bounds": {...}}``.
    correlation : dict, optional
        Correlations of described columns, as ``{("carat", "depth"): 0.1}``; of a factor, with its levels
        numbered as they are given. The others are 0. They are joined by a Gaussian copula.
    effects : dict, optional
        Coefficients by the names that the fit gives them, with ``"Intercept"``; others are 0. They are what
        the power is for. If `like` has no response, it is made from them.
    sigma, r2 : float, optional
        Of a made response: the standard deviation of the errors, or the share of the variance explained.
    errors : str, tuple or dict
        Their law, described as a column is, and then moved to mean 0 and its standard deviation:
        ``"normal"``, ``("t", {"df": 4})`` or ``"t4"``, ``"laplace"``, ``("gamma", 1, 0.7)`` (skewed) ...
    spread : dict, optional
        How their standard deviation depends on columns: ``{"carat": 0.5}`` multiplies it by
        :math:`e^{0.5}` for each standard deviation of the column.
    target : dict, optional
        Such as ``{"carat": {"width": 100}}`` or ``{"carat": {"power": 0.8}}``, also with ``"se"``. Leave out
        `n` or `eps`, and the least that meets the target is found by bisection.
    alpha : float
        One minus the confidence of the intervals, and the size of the tests.
    runs : int, optional
        Tables for each number of rows. By default 100, and more, up to 600, until the median standard
        errors are known to 3 %. With a target: the most at one point, by default 600.
    seed : int
        The plan is a function of its arguments; the number of processes does not matter.
    processes : int, optional
        By default two where there is work for some seconds (on Linux), else one. Elsewhere, 2 or more need
        a main module that can be imported.
    progress : bool or callable, optional
        By default a bar on a terminal after some seconds, where tqdm is installed (``dpstats[progress]``).
        A callable gets the numbers of tables done and expected.

    Returns
    -------
    Plan
        ``table``, ``summary()``, ``plot()``, ``needed``.

    Raises
    ------
    ParameterError
        If an argument is not allowed.
    FormulaError, SchemaError
        If the formula does not fit the columns.

    Notes
    -----
    The releases that are simulated are seeded, of public or made-up rows, and charged to no ledger. A plan
    made from private data would publish them.

    Standard errors are medians over the runs that determine a coefficient; power is the mean, over all runs,
    of that of the Wald test at the run's standard error, and 0 for a run without one: too small, if anything,
    as standard errors include bounds on a bias. Standard errors without privacy are those of least squares
    (robust unless ``options`` says otherwise), or of maximum likelihood for `logit` and `poisson`, on the
    same tables.

    Where privacy noise matters, standard errors depend on the tails and the skewness of the errors, and on
    how both change with the columns. Some public rows tell that, and so do the quantiles of all columns
    within classes of residuals, from the lowest twentieth to the highest; a description of whole columns
    hardly does, and a plan from it, or from normal errors, is as a rule too optimistic
    (``benchmarks/plan/README.md``).

    Examples
    --------
    >>> columns = {"carat": ("gamma", {"mean": 0.8, "sd": 0.47, "low": 0.2}), "table": ("normal", 57.5, 2.2)}
    >>> price = {"effects": {"carat": 7800, "table": -75}, "r2": 0.85}
    >>> p = plan("price ~ carat + table", columns, n=5_000, eps=(0.5, 2), runs=10, **price)
    >>> p.table[["eps", "n", "term", "ratio", "determined"]].round(1)
       eps     n       term  ratio  determined
    0  0.5  5000  Intercept    2.1         1.0
    1  0.5  5000      carat    2.5         1.0
    2  0.5  5000      table    2.2         1.0
    3  2.0  5000  Intercept    1.1         1.0
    4  2.0  5000      carat    1.2         1.0
    5  2.0  5000      table    1.1         1.0
    """
    call = _checked(
        formula, n, eps, estimator, delta, options, target, alpha, runs, seed, processes, progress
    )
    table = lookalike(like, correlation)
    design, known, response = made(
        formula, table, estimator, call.options, effects, sigma, r2, errors, spread,
        np.random.default_rng([call.seed, 0]),
    )  # fmt: skip
    if len(design.response_names) != 1:
        fail("formula", formula, "a formula with one response")
    wanted = () if target is None else criteria(target, design.column_names, known)
    task = Task(
        call.function, formula, table, design, response, call.alpha, call.seed, call.robust,
        call.options,
    )  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    needed = None
    with Simulation(task, processes, progress) as simulation:
        if wanted:
            only_n, only_eps = (call.n or (None,))[0], (call.eps or (None,))[0]
            needed, found = search(simulation, wanted, known, only_n, only_eps, runs or _MOST)
            rows += _rows(task, needed.n, (needed.eps,), found, known)
        else:
            simulation.expect(len(call.n) * (runs or _BATCH))
            for size in call.n:
                found = _runs(simulation, size, call.eps, runs)
                rows += _rows(task, size, call.eps, found, known)
    words = "; ".join(map(str, wanted))
    return Plan(formula, estimator, call.delta, call.alpha, call.seed, tuple(rows), words, needed)


@dataclass(frozen=True)
class _Call:
    n: tuple[int, ...]
    eps: tuple[float, ...]
    function: Any
    delta: float
    options: dict[str, Any]
    alpha: float
    seed: int
    robust: bool


def _checked(
    formula: Any, n: Any, eps: Any, estimator: Any, delta: Any, options: Any, target: Any, alpha: Any,
    runs: Any, seed: Any, processes: Any, progress: Any,
) -> _Call:  # fmt: skip
    """What was asked, checked before anything is drawn."""
    if not isinstance(formula, str):
        fail("formula", formula, "a formula such as 'y ~ x'")
    name = one_of("estimator", estimator, tuple(REGRESSIONS))
    function = REGRESSIONS[name]
    parameters = inspect.signature(function).parameters
    own = set(parameters) - _RESERVED
    if options is None:
        options = {}
    if not (isinstance(options, Mapping) and all(key in own for key in options)):
        fail("options", options, f"a dictionary of parameters of {name} among {sorted(own)}")
    if seed is None:
        fail("seed", seed, "a non-negative integer")
    check("runs", runs, "count", optional=True)
    check("processes", processes, "count", optional=True)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        fail("progress", progress, "None, True, False or a function of two numbers")
    sizes, budgets = _several("n", n, "count"), _several("eps", eps, "eps")
    if target is None:
        for what, given in (("n", sizes), ("eps", budgets)):
            if not given:
                fail(what, None, "given, unless a target says what is to be found")
    elif bool(sizes) == bool(budgets) or len(sizes) + len(budgets) != 1:
        fail("target", None if not sizes else f"{len(sizes)} n and {len(budgets)} eps",
             "given with one n or one eps, of which the other is to be found")  # fmt: skip
    usual = parameters["cov_type"].default if "cov_type" in parameters else "robust"
    robust = options.get("cov_type", usual) != "nonrobust"
    delta, options = check("delta", delta), dict(options)
    if "delta" in parameters:
        options["delta"] = delta
    return _Call(
        sizes, budgets, function, delta, options, check("alpha", alpha), check("seed", seed), robust,
    )  # fmt: skip


def _several(name: str, given: Any, kind: str) -> tuple[Any, ...]:
    """One value or several, each checked."""
    if given is None:
        return ()
    values = (
        list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else [given]
    )
    if not (values and all(allows(value, kind) for value in values)):
        fail(name, given, "a positive number or a sequence of them" if kind == "eps" else
             "a positive integer or a sequence of them")  # fmt: skip
    return tuple(check(name, value, kind) for value in values)


def _runs(simulation: Simulation, n: int, budgets: tuple[float, ...], runs: int | None) -> Runs:
    """Runs at one number of rows: so many, or as many as the median standard errors ask for."""
    outcomes = list(simulation.outcomes(n, range(runs or _BATCH), budgets))
    while runs is None and len(outcomes) < _MOST and _uncertain(Runs.of(outcomes)):
        simulation.expect(_BATCH)
        outcomes += simulation.outcomes(n, range(len(outcomes), len(outcomes) + _BATCH), budgets)
    return Runs.of(outcomes)


def _uncertain(runs: Runs) -> bool:
    """Whether a median standard error is known less well than wanted."""
    columns = runs.se.reshape(len(runs), -1).T
    return any(error > _WANTED * middle for middle, error in map(median, columns))


def _rows(
    task: Task, n: int, budgets: tuple[float, ...], runs: Runs, effects: Mapping[str, float]
) -> list[tuple[Any, ...]]:
    """The rows of the table for one number of rows."""
    rows = []
    for k, eps in enumerate(budgets):
        for j, term in enumerate(task.terms):
            se, width = runs.se[:, k, j], runs.width[:, k, j]
            middle, error = median(se)
            power = math.nan
            if term in effects and not np.isnan(se).all():
                power = float(powers(se, effects[term], task.alpha).mean())
            plain, _ = median(runs.plain[:, j])
            rows.append((
                eps, n, term, middle, error, median(width)[0], middle / plain if plain else math.nan, power,
                1 - float(np.isnan(width).mean()), float(runs.refused[:, k].mean()), len(runs),
            ))  # fmt: skip
    return rows


def _summary(made: Plan) -> Summary:
    table = made.table
    percent = f"{100 * (1 - made.alpha):.10g} %"

    def share(x: float) -> str:
        return MISSING if math.isnan(x) else f"{x:z.2f}"

    rows = tuple(
        (
            row.term, f"{row.eps:.6g}", f"{row.n:,}", format_value(row.se), format_value(row.width),
            share(row.ratio), share(row.power), share(row.determined), share(row.refused),
        )
        for row in table.itertuples()
    )  # fmt: skip
    worst = (table["error"] / table["se"]).max()
    facts = [("Estimator", made.estimator), ("delta", f"{made.delta:.6g}")]
    few, many = table["runs"].min(), table["runs"].max()
    facts += [("Tables", f"{few:,}" + (f" to {many:,}" if many > few else "")), ("Seed", str(made.seed))]
    paragraphs = [
        f"Medians over simulated releases; width: that of the {percent} interval; ratio: to the standard "
        "error without privacy; determ.: chance of a release that determines the coefficient."
    ]
    if not math.isnan(worst):
        paragraphs.append(f"The simulation knows these standard errors to {100 * worst:.1f} %, or better.")
    if made.needed is not None:
        paragraphs.insert(0, _needed(made.needed, made.target))
    paragraphs.append("Computed from `like` alone, which must be public; nothing was charged.")
    header = ("", "eps", "n", "std err", "width", "ratio", "power", "determ.", "refused")
    return Summary("Plan", made.formula, tuple(facts), Table(header, rows), tuple(paragraphs))


def _needed(needed: Needed, target: str) -> str:
    value = f"{needed.n:,} rows" if needed.found == "n" else f"eps = {needed.eps:.3g}"
    given = f"eps = {needed.eps:.6g}" if needed.found == "n" else f"{needed.n:,} rows"
    if not needed.reached:
        most = "as many" if needed.found == "n" else "as much"
        return f"Target: {target}. Not reached at {given} with {most} as {value}."
    ends = [f"{x:,.0f}" if needed.found == "n" else f"{x:.3g}" for x in (needed.low, needed.high)]
    return (
        f"Target: {target}. At {given} it takes {value} (the simulation tells: between {' and '.join(ends)})."
    )
