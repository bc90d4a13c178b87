"""The path every estimator takes: read the schema, plan, charge the ledger, compute, release."""

import numpy as np

from dpstats._boundary import contained
from dpstats._validation import check, fail, quoted
from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.errors import FormulaError, ParameterError, ReleaseFailed
from dpstats.estimation.groups import GroupedResults, Groups, run_groups
from dpstats.formula.design import Design, check_formula
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.filters import stopped_early
from dpstats.privacy.ledger import Ledger, reserve

__all__ = ["all_rows", "estimate", "location_only", "one_response"]


def one_response(design, method):
    """Refuse a formula with several responses."""
    if len(design.response_names) != 1:
        raise FormulaError(
            f"{method} takes one response, and {design.formula!r} has {len(design.response_names)}."
        )


def location_only(design, method):
    """Refuse a formula with anything but a constant on its right-hand side."""
    if design.column_names != ("Intercept",):
        raise FormulaError(f"{method} takes formulas such as 'income ~ 1', got {design.formula!r}.")


def all_rows(blocks):
    """All usable rows of an iterable of ``(X, Y)``, as two arrays."""
    parts = list(blocks)
    if len(parts) == 1:
        return parts[0]
    X, Y = zip(*parts, strict=True) if parts else ((np.empty((0, 0)),), (np.empty((0, 0)),))
    return np.concatenate(X), np.concatenate(Y)


def estimate(
    method, formula, data, *, bounds, levels, ledger, seed, plan, release, by=None, public_rows=False
):
    """Run one private estimator from formula to results.

    Parameters
    ----------
    method : str
        The estimator's name, for the ledger and for error messages.
    formula, data, bounds, levels, ledger, seed
        As the user passed them.
    plan : callable
        ``plan(design, seeded)`` returns an object with the attribute ``guarantee``. It sees public facts only.
    release : callable
        ``release(blocks, design, plan, rng)`` returns the Results. It is the only step that reads rows. A
        ReleaseFailed that it raises may carry a guarantee with the first few of the planned spends: then
        only those were used, and the ledger keeps only those.
    by : str, optional
        A column with declared levels: each group is estimated on its own rows (:mod:`dpstats.estimation.groups`).
    public_rows : bool
        Whether the number of rows handed in is public, as it is for an estimator whose neighbours replace a
        record. The plan is then ``plan(design, seeded, rows)``, and may refuse too few rows with a ParameterError.

    Returns
    -------
    What `release` returns, or a GroupedResults of it.

    Notes
    -----
    The order is the point: everything that can go wrong for public reasons goes wrong first, then the
    whole budget is charged durably, and only then is a row of data read. What goes wrong after that without being
    foreseen becomes a ReleaseFailed that does not say what it was (:mod:`dpstats._boundary`).
    """
    rng = Randomness(check("seed", seed))
    if not (ledger is None or isinstance(ledger, Ledger)):
        fail("ledger", ledger, "None or a dpstats.Ledger")
    check_formula(formula)
    source = open_source(data)
    schema = Schema.of(source, levels=levels, bounds=bounds)
    design = Design.from_formula(formula, schema)
    if by is not None:
        by_level = Groups.check(by, schema)
        return _grouped(
            method, source, design, by, by_level, ledger, seed, plan, release, public_rows, rng.seeded
        )
    planned = plan(design, rng.seeded, _count(source)) if public_rows else plan(design, rng.seeded)
    reserved = None if ledger is None else reserve(ledger, planned.guarantee, method, design.formula)
    try:
        with np.errstate(all="ignore"):
            return release(design.blocks(source), design, planned, rng)
    except ReleaseFailed as failure:
        failure.args = (f"{failure}{_reminder(design)}",)
        if failure.guarantee is None:
            failure.guarantee = planned.guarantee
        elif reserved is None:
            failure.guarantee = stopped_early(planned.guarantee, failure.guarantee.spends)
        else:
            failure.guarantee = reserved.keep(failure.guarantee.spends)
        raise
    except Exception as error:
        raise contained(error, method, planned.guarantee) from None


def _reminder(design):
    """What a failure says of columns that may hold text: a fact about the schema alone."""
    names = design.taken_as_numbers
    if not names:
        return ""
    shown = ", ".join(quoted(name) for name in names[:5]) + (", ..." if len(names) > 5 else "")
    return (
        f" (Of no declared type: {shown}. What is no number in them counts as missing; text needs levels=.)"
    )


def _count(source):
    """The number of rows handed in."""
    return sum(batch.rows for batch in source.batches(()))


def _grouped(method, source, design, by, levels, ledger, seed, plan, release, public_rows, seeded):
    """Estimate every declared group on its own rows; the charge is that of one group."""
    groups = None
    if public_rows:
        groups = Groups(source, design, by, levels)
        plans, refused = [], {}
        for i, level in enumerate(levels):
            try:
                if groups.size(i) == 0:
                    raise ParameterError(f"{method}: there are no rows.")
                plans.append(plan(design, seeded, groups.size(i)))
            except ParameterError as error:
                plans.append(None)
                refused[level] = error
        if len(refused) == len(levels):
            raise next(iter(refused.values()))
        failed = {level: str(error) for level, error in refused.items()}
    else:
        plans, failed = [plan(design, seeded)] * len(levels), {}
    guarantee = next(p for p in plans if p is not None).guarantee
    guarantee = guarantee.replace(scope=Groups.scope(by, guarantee))
    if ledger is not None:
        ledger.charge(guarantee, method, f"{design.formula}, by {by}")

    def one(i):
        rng = Randomness(None if seed is None else Groups.seed(seed, i))
        try:
            with np.errstate(all="ignore"):
                return release(design.blocks(groups.source(i)), design, plans[i], rng)
        except Exception as error:
            raise contained(error, method) from None

    todo = [i for i, p in enumerate(plans) if p is not None]
    results = {}
    try:
        groups = groups or Groups(source, design, by, levels)
        for i, outcome in run_groups(one, todo, method):
            if isinstance(outcome, ReleaseFailed):
                failed[levels[i]] = f"{outcome}{_reminder(design)}"
            else:
                results[levels[i]] = outcome
        return GroupedResults.of(method, design, by, levels, results, failed, guarantee)
    except Exception as error:
        raise contained(error, method, guarantee) from None
