"""The choice of terms as a step of a release: what is public about it, what it costs, and running it."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Self

from scipy.special import log_ndtr

from dpstats._validation import check, fail, one_of
from dpstats.formula.design import Blocks, Design
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import per_round, rounds_rho
from dpstats.privacy.conversions import pure_mu, round_down, round_up
from dpstats.privacy.guarantee import Neighbours, Spend
from dpstats.selection import kendall, pairs, sub_lasso

__all__ = ["AUTO", "METHODS", "UNUSED", "Choice", "candidates", "reduced_formula"]

METHODS = {"kendall": "DPKendall", "pairs": "Signs of pairs", "sub_lasso": "SubLasso"}
AUTO = "auto"
UNUSED = (
    "Rows in which any candidate is missing are not used: of a text column without declared levels that is "
    "every row, and the choice is noise alone."
)
"""What a table says, whatever the rows: which are missing is not released."""
_FEWEST_AT_ONCE = 4
"""From so many terms on, sets chosen at once are better than terms chosen one by one
(``benchmarks/selection/methods.csv``).
"""
_LARGEST = 600.0
"""Budget of a round beyond which there is no noise to speak of, nor a conversion."""
_COUNT = 0.1
"""Share of eps for the number of rows, which SubLasso needs."""


def candidates(design: Design) -> dict[str, tuple[int, ...]]:
    """The terms that can be chosen: a mapping of names to tuples of columns, without the intercept.

    A term without columns, as that of a factor with one level, has nothing to be chosen for.
    """
    return {
        name: tuple(range(columns.start, columns.stop))
        for name, columns in design.term_slices.items()
        if columns.start < columns.stop and not (name == "Intercept" and design.has_intercept)
    }


def reduced_formula(design: Design, terms: Collection[str]) -> str:
    """The formula with these terms alone, in the order of the design, and its constant if it has one."""
    kept = [name for name in design.term_slices if name in terms]
    return f"{design.response_names[0]} ~ " + " + ".join(kept if design.has_intercept else ["0", *kept])


@dataclass(frozen=True)
class Choice:
    """Everything public about a choice of terms.

    Attributes
    ----------
    terms : dict of str to tuple of int
        Names and columns of the candidates.
    k : int
    method : str
    neighbours : str
    rounds : int
        Number of rounds in which terms are chosen: `k`, or 1 if all are chosen at once.
    step : float
        Budget of a round, which is bounded-range in it, or an average of such rounds over coupled random
        orders.
    eps_count : float
        Budget of the number of rows; 0 where it is not needed.
    spends : tuple of Spend
    """

    terms: dict[str, Any]
    k: int
    method: str
    neighbours: Neighbours
    rounds: int
    step: float
    eps_count: float
    spends: tuple[Spend, ...]

    @classmethod
    def of(
        cls,
        design: Design,
        k: int,
        eps: float,
        delta: float,
        method: str,
        neighbours: Neighbours,
        parameter: str = "k",
    ) -> Self:
        """The public part of a choice of `k` terms.

        Parameters
        ----------
        design : Design
        k : int
        eps, delta : float
            What the choice may cost in all; a choice in one round leaves `delta` unspent.
        method : {"auto", "kendall", "pairs", "sub_lasso"}
        neighbours : {"add-remove", "substitution"}
        parameter : str
            What the user calls `k`, for errors.

        Returns
        -------
        Choice

        Raises
        ------
        ParameterError
            If there are not more candidates than terms to choose, `method` is unknown, or ``"pairs"`` would
            have too many sets to compare.
        ImportError
            If the method needs a package that is missing.
        """
        one_of("method", method, (AUTO, *METHODS))
        k = check(parameter, k, "count")
        terms = candidates(design)
        if k >= len(terms):
            fail(
                parameter, k, f"smaller than the number of terms besides the constant, which is {len(terms)}"
            )
        at_once = pairs.feasible([len(columns) for columns in terms.values()], k)
        if method == AUTO:
            method = "pairs" if at_once and k >= _FEWEST_AT_ONCE else "kendall"
        if method == "pairs" and not at_once:
            least = f"at most {pairs.MOST_TERMS} of them, in at most {pairs.MOST_SETS:,} sets of columns"
            fail(
                "method",
                method,
                f"'kendall' or 'sub_lasso' for so many terms: 'pairs' compares all choices of {least}",
            )
        eps_count = 0.0
        if method == "sub_lasso":
            sub_lasso.need_sklearn()
            eps_count = _COUNT * eps
        rounds = 1 if method == "pairs" else k
        step = per_round(eps - eps_count, delta, rounds)
        if rounds * step <= eps - eps_count:
            delta = 0.0
        rho = rounds_rho(step, rounds)
        what = "choice of 1 term" if k == 1 else f"choice of {k} terms"
        spends = [Spend("number of rows", "discrete Laplace noise", eps_count)] if eps_count else []
        spends.append(
            Spend(what, f"exponential mechanism, {METHODS[method]}", eps - eps_count, delta, rho=rho)
        )
        return cls(terms, k, method, neighbours, rounds, step, eps_count, tuple(spends))

    def beside_gaussian(self, mu: float) -> "Choice":
        """The same choice as a part of a release whose other steps are Gaussian.

        Parameters
        ----------
        mu : float
            What the Gaussian composition of the whole leaves to it.

        Returns
        -------
        Choice
            At a larger budget a round; or the same, if that is larger.

        Notes
        -----
        **Privacy.** `mu`-GDP: a round of budget ``e`` is ``pure_mu(e / 2)``-GDP, and rounds add up in
        ``mu^2``. Proof: ``docs/privacy/selection.md``.
        """
        half = mu / math.sqrt(self.rounds) / 2
        step = min(round_down(2 * float(log_ndtr(half) - log_ndtr(-half)), 1e-12), _LARGEST)
        if step <= self.step or self.rounds * pure_mu(step / 2) ** 2 > mu**2:
            return self
        (spend,) = self.spends
        rho = rounds_rho(step, self.rounds)
        spend = replace(spend, eps=round_up(self.rounds * step), delta=0.0, mu=mu, rho=rho)
        return replace(self, step=step, spends=(spend,))

    def run(self, blocks: Blocks, rng: Randomness) -> tuple[str, ...]:
        """Choose terms: their names in order of choice, or in their own if all are chosen at once.

        Notes
        -----
        **Privacy.** The spends together, under ``neighbours``; see the three ``choose_terms``. Proof:
        ``docs/privacy/selection.md``.
        """
        names, columns = list(self.terms), list(self.terms.values())
        if self.method == "kendall":
            flat = [j for term in columns for j in term]
            ranks = kendall.rank_columns(blocks, flat)
            position = iter(range(len(flat)))
            local = [[next(position) for _ in term] for term in columns]
            chosen = kendall.choose_terms(ranks, local, self.k, self.step, self.neighbours, rng)
        elif self.method == "pairs":
            chosen = pairs.choose_terms(blocks, columns, self.k, self.step, self.neighbours, rng)
        else:
            chosen = sub_lasso.choose_terms(blocks, columns, self.k, self.eps_count, self.step, rng)
        return tuple(names[t] for t in chosen)
