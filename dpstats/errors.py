"""The errors that dpstats raises on purpose.

What an error says may depend on the call, the formula, the schema and on released values; never on the data.
"""

from typing import Any

__all__ = [
    "BudgetExceeded",
    "DpstatsError",
    "FormulaError",
    "LedgerError",
    "NotReleased",
    "ParameterError",
    "ReleaseFailed",
    "SchemaError",
]


class DpstatsError(Exception):
    """Base class of every error that dpstats raises on purpose."""


class ParameterError(DpstatsError, ValueError):
    """A parameter has a value that is not allowed."""


class FormulaError(DpstatsError, ValueError):
    """The formula is outside the closed, row-wise grammar (see :mod:`dpstats.formula.design`)."""


class SchemaError(DpstatsError, ValueError):
    """What is publicly declared about a column does not suffice, or contradicts the formula."""


class BudgetExceeded(DpstatsError, RuntimeError):
    """A ledger has too little budget left. Nothing was charged and no data were read."""


class LedgerError(DpstatsError, RuntimeError):
    """A ledger cannot be opened, read or written, or is used outside the process that keeps it."""


class NotReleased(DpstatsError, AttributeError):
    """A statistic that a result does not have, because it was not privately released."""


class ReleaseFailed(DpstatsError, RuntimeError):
    """A private test failed, so there is no estimate.

    The outcome is itself a private release: the budget named in :attr:`guarantee` is spent. A computation
    that failed for a reason that nobody foresaw ends the same way, and does not say what the reason was.

    Attributes
    ----------
    guarantee : dpstats.privacy.guarantee.Guarantee or None
        What the attempt cost.
    """

    guarantee: Any

    def __init__(self, message: str, guarantee: object = None) -> None:
        super().__init__(message)
        self.guarantee = guarantee

    def __reduce__(self) -> tuple[type["ReleaseFailed"], tuple[str, Any]]:
        return (type(self), (self.args[0], self.guarantee))
