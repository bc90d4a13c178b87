"""The path every estimator takes: read the schema, plan, charge the ledger, compute, release."""

import numpy as np

from dpstats._validation import check, fail
from dpstats.data import open_source
from dpstats.errors import FormulaError, ReleaseFailed
from dpstats.formula import Design
from dpstats.mechanisms.rng import Randomness
from dpstats.privacy.filters import stopped_early
from dpstats.privacy.ledger import Ledger
from dpstats.schema import Schema

__all__ = ["estimate", "one_response"]


def one_response(design, method):
    """Refuse a formula with several responses."""
    if len(design.response_names) != 1:
        raise FormulaError(
            f"{method} takes one response, and {design.formula!r} has {len(design.response_names)}."
        )


def estimate(method, formula, data, *, bounds, levels, ledger, seed, plan, release):
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
        ReleaseFailed that it raises may carry a guarantee with some of the planned spends: then only
        those steps were run, and the rest of the charge is given back where that is sound.

    Returns
    -------
    What `release` returns.

    Notes
    -----
    The order is the point: everything that can go wrong for public reasons goes wrong first, then the
    whole budget is charged durably, and only then is a row of data read.
    """
    rng = Randomness(check("seed", seed))
    if not (ledger is None or isinstance(ledger, Ledger)):
        fail("ledger", type(ledger).__name__, "None or a dpstats.Ledger")
    source = open_source(data)
    design = Design.from_formula(formula, Schema.of(source, levels=levels, bounds=bounds))
    planned = plan(design, rng.seeded)
    charge = None if ledger is None else ledger.charge(planned.guarantee, method, design.formula)
    try:
        with np.errstate(all="ignore"):
            return release(design.blocks(source), design, planned, rng)
    except ReleaseFailed as failure:
        if failure.guarantee is None:
            failure.guarantee = planned.guarantee
        elif charge is None:
            failure.guarantee = stopped_early(planned.guarantee, failure.guarantee.spends)
        else:
            failure.guarantee = charge.keep(failure.guarantee.spends)
        raise
