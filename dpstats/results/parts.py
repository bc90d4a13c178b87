"""What a result is put together from, by what it can do: the floors above and below make it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from dpstats._format import format_p, format_statistic, package_version
from dpstats._types import Floats

__all__ = ["Declared", "Described", "Heterogeneity", "Interval", "Origin", "Predictor"]


@dataclass(frozen=True, slots=True)
class Origin:
    """When a release was made, and by which version of the package.

    Parameters
    ----------
    version : str
    released_at : str or None
        UTC, to the second. None for a seeded release, which is a simulation and repeats in every digit.
    """

    version: str
    released_at: str | None = None

    @classmethod
    def now(cls, seeded: bool) -> "Origin":
        """That of a release that is about to start; the time must be taken before rows are read.

        Parameters
        ----------
        seeded : bool

        Returns
        -------
        Origin

        Examples
        --------
        >>> len(Origin.now(seeded=False).released_at)
        25
        """
        time = None if seeded else datetime.now(UTC).isoformat(timespec="seconds")
        return cls(package_version(), time)


@dataclass(frozen=True, slots=True)
class Declared:
    """What was declared about a column that the formula names.

    Parameters
    ----------
    name : str
    levels : tuple or None
    bounds : (float, float) or None
    """

    name: str
    levels: tuple[Any, ...] | None = None
    bounds: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Heterogeneity:
    """Cochran's test of the hypothesis that pooled releases are about the same coefficients.

    Parameters
    ----------
    statistic, pvalue, df : float
        Chi-squared with `df` degrees of freedom under the hypothesis.

    Examples
    --------
    >>> print(Heterogeneity(7.81, 0.05, 3))
    Heterogeneity: Cochran's Q(3) = 7.81, p = 0.050
    """

    statistic: float
    pvalue: float
    df: float

    def __str__(self) -> str:
        p = "< 0.001" if self.pvalue < 0.001 else f"= {format_p(self.pvalue)}"
        return f"Heterogeneity: Cochran's Q({self.df:g}) = {format_statistic(self.statistic)}, p {p}"

    def to_dict(self) -> dict[str, float]:
        """The numbers by name.

        Returns
        -------
        dict

        Examples
        --------
        >>> Heterogeneity(7.81, 0.05, 3).to_dict()
        {'statistic': 7.81, 'pvalue': 0.05, 'df': 3}
        """
        return asdict(self)


class Interval(Protocol):
    """Released intervals that are not Wald intervals."""

    def conf_int(self, alpha: float) -> Floats: ...


class Predictor(Protocol):
    """How new rows become a matrix to multiply estimates with."""

    def matrix(self, data: Any) -> Floats: ...


class Described(Predictor, Protocol):
    """What results take from a :class:`~dpstats.formula.design.Design`."""

    @property
    def formula(self) -> str: ...

    @property
    def response_names(self) -> tuple[str, ...]: ...

    @property
    def column_names(self) -> tuple[str, ...]: ...

    @property
    def term_slices(self) -> Mapping[str, slice]: ...
