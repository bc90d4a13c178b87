"""What a user asks for, what an estimator asks of it, and the three steps that an estimator is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from dpstats._format import listed
from dpstats._types import Bounds, Levels
from dpstats._validation import check, fail, quoted
from dpstats.data.schema import Schema
from dpstats.errors import FormulaError
from dpstats.formula.design import Blocks, Design, check_formula
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.guarantee import Guarantee
from dpstats.privacy.ledger import Ledger

__all__ = ["Budget", "Call", "Estimator", "Needs", "text_reminder"]


def text_reminder(design: Design) -> str:
    """What a failure says of columns that may hold text: a fact about the schema alone."""
    names = [quoted(name) for name in design.taken_as_numbers]
    if not names:
        return ""
    what = "What is no number counts as missing (pd.to_numeric; dates as days); text needs levels=."
    return f" (Of no declared type: {listed(names, 5)}. {what})"


class Budget(Protocol):
    """Everything public about a release: at least what it promises, and how that was divided."""

    @property
    def guarantee(self) -> Guarantee: ...


_SEVERAL = "; of several paste the values into one column with declared levels"
_EPS = 1e-20, 1e20
"""What mechanisms are made for: their arithmetic leaves the range of doubles far beyond."""


@dataclass(frozen=True)
class Call:
    """What every estimator can be asked for, as the user wrote it; an estimator's own parameters are its own.

    `eps` and `delta` are the budget of the whole, and of each group with `by`, the column of the groups. With
    `unit`, a column, neighbours differ by all rows of one of its values. `written` is what a ledger says of a
    formula with a second response: the user's, and the argument.
    """

    formula: str
    data: Any
    eps: float
    delta: float = 0.0
    bounds: Bounds | None = None
    levels: Levels | None = None
    by: str | None = None
    ledger: Ledger | None = None
    seed: int | None = None
    unit: str | None = None
    written: str | None = None

    @property
    def seeded(self) -> bool:
        """Whether the release protects nobody."""
        return self.seed is not None

    def checked(self, needs: "Needs") -> "Call":
        """The call with its parameters checked; whatever is refused here is refused before the data are
        looked at.
        """
        eps, delta = check("eps", self.eps), check("delta", self.delta, needs.delta)
        if eps is None or not _EPS[0] <= eps <= _EPS[1]:
            fail("eps", eps, f"from {_EPS[0]:g} to {_EPS[1]:g}")
        seed = check("seed", self.seed)
        if not (self.ledger is None or isinstance(self.ledger, Ledger)):
            fail("ledger", self.ledger, "None or a dpstats.Ledger")
        for name, column in (("by", self.by), ("unit", self.unit)):
            if not (column is None or isinstance(column, str)):
                several = _SEVERAL if name == "by" and isinstance(column, list | tuple) else ""
                fail(name, column, f"None or the name of a column{several}")
        check_formula(self.formula)
        # (names of NumPy are shown as those of Python)
        by, unit = (None if name is None else str(name) for name in (self.by, self.unit))
        return replace(self, eps=eps, delta=delta, seed=seed, by=by, unit=unit)

    @property
    def unit_reminder(self) -> str:
        """What a failure says of rows without a unit: a fact about the call alone."""
        if self.unit is None:
            return ""
        what = "is missing, or no plain value such as a number, a text or a date, are left out."
        return f" Rows whose unit {quoted(self.unit)} {what}"

    def about_bounds(self, results: Any, design: Design) -> Any:
        """Results whose notes name the declared bounds of the columns that were read as numbers."""
        numbers = getattr(getattr(design, "layout", None), "numbers", ())
        declared = {} if self.bounds is None else self.bounds
        ends = [
            f"{name} [{low:.12g}, {high:.12g}]" for name, (low, high) in declared.items() if name in numbers
        ]
        if not ends or not hasattr(results, "notes"):
            return results
        said = f"Values beyond declared bounds count as if they were at them: {listed(ends)}."
        return replace(results, notes=(*results.notes, said))

    def reminder(self, design: Any, *others: str) -> str:
        """What a failure says of the columns of a design, and of others, whose levels are declared in the
        call or written in its formula: a fact about the call alone.
        """
        coded: frozenset[str] = getattr(design, "coded", frozenset())
        written = coded - getattr(getattr(design, "layout", None), "declared", coded)
        declared = [name for name in self.levels or () if name in coded or name in others]
        names = [quoted(name) for name in dict.fromkeys([*declared, *sorted(written)])]
        if not names:
            return ""
        what = "Rows whose value is none of them are not used, and the level '1' is not the number 1."
        return f" (Of declared levels: {listed(names, 5)}. {what})"


@dataclass(frozen=True)
class Needs:
    """What an estimator asks of a call.

    Attributes
    ----------
    columns : {"any", "constant", "covariates", "one covariate"}
        What the right-hand side of the formula may be: ``"covariates"`` are a constant and at least one
        column.
    responses : {"one", "any", "several", "two"}
    delta : {"positive_delta", "delta"}
        Whether `delta` may be 0.
    public_rows : bool
        Whether the number of rows handed in is public, as it is for an estimator whose neighbours replace a
        record.
    classes : bool
        Whether a response may be one of two levels.
    numbers : bool
        Whether covariates must be numbers, and not levels.
    instead : str
        What an error recommends for other columns.
    values : str
        What a response may be, for a failure to name; any number if empty.
    """

    columns: str = "any"
    responses: str = "one"
    delta: str = "positive_delta"
    public_rows: bool = False
    numbers: bool = False
    instead: str = ""
    classes: bool = False
    values: str = ""

    @property
    def reminder(self) -> str:
        """What a failure says of responses that are left out: a fact about the estimator alone."""
        return f" Rows whose response is not {self.values} count as missing." if self.values else ""

    def check(self, name: str, design: Design) -> None:
        """Raise a FormulaError unless the estimator can use the design: formula and schema alone decide."""
        if design.class_responses and not self.classes:
            raise FormulaError(f"the response {design.class_responses[0]!r} must be numeric.")
        problem = self._problem(design)
        if problem:
            raise FormulaError(f"{name} takes {problem}")

    def _problem(self, design: Design) -> str | None:
        names, responses, formula = design.column_names, len(design.response_names), design.formula
        instead = f" {self.instead}" if self.instead else ""
        if self.columns == "one covariate" and names == ("Intercept",):
            instead = " For the response alone use dpstats.median or dpstats.mean."
        elif self.columns == "one covariate" and design.layout.categorical_terms:
            instead = " For levels use dpstats.huber or dpstats.ols."
        if self.responses == "one" and responses != 1:
            return f"one response, and {formula!r} has {responses}."
        if self.columns == "constant" and names != ("Intercept",):
            return f"formulas such as 'income ~ 1', got {formula!r}."
        if self.responses == "several" and responses < 2:
            return f"two or more columns, as in 'height + weight ~ 1', got {formula!r}.{instead}"
        if self.responses == "two" and responses != 2:
            return f"two columns, as in 'height + weight ~ 1', got {formula!r}.{instead}"
        if self.columns == "covariates" and not (design.has_intercept and len(names) > 1):
            return f"a constant and covariates, as in 'y ~ x', got {formula!r}."
        if self.columns == "one covariate" and not (design.has_intercept and len(names) == 2):
            made = ", ".join(map(repr, names[:5])) + (" and more" if len(names) > 5 else "")
            form = "formulas such as 'y ~ x', a constant and one column"
            return f"{form}; {formula!r} makes the columns {made}.{instead}"
        if self.numbers and design.layout.categorical_terms:
            term = quoted(design.layout.categorical_terms[0])
            return f"covariates of mostly different numbers, and {term} has levels.{instead}"
        return None


B = TypeVar("B", bound=Budget)
R = TypeVar("R")
T = TypeVar("T")


def _of_formula(call: Call, schema: Schema) -> Design:
    return Design.from_formula(call.formula, schema, (call.by, call.unit))


@dataclass(frozen=True)
class Estimator(Generic[B, R, T]):
    """An estimator, as the pipeline sees it: its own parameters are bound to the first step.

    Attributes
    ----------
    name : str
        For the ledger and for error messages.
    budget : callable
        ``budget(design, call, rows)`` divides the budget: public facts in, and a :class:`Budget` out. `rows`
        is the number of rows handed in where it is public, and else None. What it refuses is refused before
        any charge.
    release : callable
        ``release(blocks, budget, rng)`` is the mechanism, and the only step that sees rows. A ReleaseFailed
        that it raises may carry a guarantee with the first few of the budget's spends: then only those were
        used, and the ledger keeps only those.
    results : callable
        ``results(design, budget, released)`` is made from the release alone.
    needs : Needs
    design : callable
        ``design(call, schema)`` is what the call means for the public facts about the columns: by default the
        design of its formula.
    of_units : {"row", "all", "all in order"}
        What the release uses where units have several rows: one row of each, drawn at random, which is what
        the blocks are that it iterates over; or all, as :class:`~dpstats.formula.units.UnitBlocks` has them,
        in sums that workers can make of theirs, or one after another.
    """

    name: str
    budget: Callable[[Design, Call, Any], B]
    release: Callable[[Blocks, B, Randomness], R]
    results: Callable[[Design, B, R], T]
    needs: Needs = Needs()
    of_units: str = "row"
    design: Callable[[Call, Schema], Any] = _of_formula
