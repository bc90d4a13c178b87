"""What the estimators of one slope have in common: the form of the formula, and the two numbers per row."""

import numpy as np

from dpstats.errors import FormulaError

__all__ = ["one_covariate", "pairs_of"]


def one_covariate(design, method):
    """Refuse a formula that is not ``y ~ x``: one response, a constant and one column."""
    if len(design.response_names) != 1:
        raise FormulaError(
            f"{method} takes one response, and {design.formula!r} has {len(design.response_names)}."
        )
    if not design.has_intercept or len(design.column_names) != 2:
        raise FormulaError(
            f"{method} takes formulas such as 'y ~ x', a constant and one column; {design.formula!r} makes the columns "
            f"{', '.join(map(repr, design.column_names[:5]))}{', ...' if len(design.column_names) > 5 else ''}."
        )


def pairs_of(blocks):
    """The usable rows as two arrays, the covariate's values and the response's."""
    parts = [(X[:, 1], Y[:, 0]) for X, Y in blocks] or [(np.empty(0), np.empty(0))]
    x, y = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(y)
