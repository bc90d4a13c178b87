"""What leaves the package as an exception: no frame, no cause and no text from which rows could be read.

Crash reporters collect the local variables of the frames of a traceback, and frames of this package hold
rows. The error of a bug has a text that nobody vouches for. The argument is in
``docs/privacy/front_door.md``.
"""

import difflib
import functools
import os
import re
from collections.abc import Callable, Collection
from typing import ParamSpec, TypeVar

from dpstats.errors import DpstatsError, LedgerError, ReleaseFailed, SchemaError

__all__ = ["DEBUG", "contained", "debugging", "guarded"]

P = ParamSpec("P")
R = TypeVar("R")

DEBUG = "DPSTATS_DEBUG"
"""Environment variable; with the value 1 errors come as they are, which is for data that are not private."""

_BEFORE = (
    "{name}: an error that dpstats does not know; nothing was charged. An argument may be of a kind that "
    "it does not expect. "
    "On data that are not private, the environment variable {debug}=1 shows the error."
)
_ODD = "{name}: an error that dpstats does not know. What was charged is spent."
_AFTER = (
    "{name}: the computation failed, and there is no estimate; the budget is spent. Memory may be short, "
    "or this is a bug. On "
    "data that are not private, the environment variable {debug}=1 shows the error."
)


def debugging() -> bool:
    """Whether errors are to come as they are."""
    return os.environ.get(DEBUG) == "1"


_FORESEEN = (ReleaseFailed, SchemaError, LedgerError)
"""What may come up after the charge: of the rows a SchemaError says only that they cannot be read."""


def _known(
    error: BaseException, ours: type[DpstatsError] | tuple[type[DpstatsError], ...] = DpstatsError
) -> bool:
    """Whether the text of an error is one that the package, the import system or the file system means for
    the user.
    """
    system = isinstance(error, ImportError) or (isinstance(error, OSError) and error.errno is not None)
    return system or isinstance(error, ours)


def contained(error: Exception, name: str, guarantee: object = None) -> Exception:
    """The exception to raise in place of one that came up after the charge.

    Parameters
    ----------
    error : Exception
    name : str
        Of the estimator.
    guarantee : Guarantee, optional
        What is spent.

    Returns
    -------
    Exception
        `error` itself if it is meant for the user; otherwise a ReleaseFailed that says the same whatever
        happened.
    """
    if _known(error, _FORESEEN) or debugging():
        return error
    return ReleaseFailed(_AFTER.format(name=name, debug=DEBUG), guarantee)


def guarded(function: Callable[P, R]) -> Callable[P, R]:
    """Make a public function raise exceptions that carry neither frames nor causes, and whose text is the
    package's own.

    The one frame of the package in the traceback of what it raises is that of the wrapper, which has let go
    of its arguments.

    Examples
    --------
    >>> @guarded
    ... def first(rows):
    ...     return rows[0]
    >>> try:
    ...     first([])
    ... except DpstatsError as error:
    ...     print(str(error).partition(";")[0])
    first: an error that dpstats does not know
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            if debugging():
                raise
            code = function.__code__
            names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            failure = _clean(error, function.__name__, names)
        del args, kwargs
        # outside the handler, or the exception would have the one it replaces in its context
        try:
            raise failure
        finally:
            del failure

    return call


_SPELLINGS = {
    "epsilon": "eps", "privacy_budget": "eps", "budget": "eps", "neighbors": "neighbours", "groupby": "by",
    "group": "by", "id": "unit", "cluster": "unit", "user": "unit", "random_state": "seed",
    "rng": "seed", "conf_level": "alpha", "level": "alpha", "range": "bounds", "clip_range": "bounds",
    "categories": "levels", "df": "data", "frame": "data", "exog": "data", "newdata": "data",
    "accountant": "ledger", "select": "k", "tau": "q", "quantile": "q", "quantiles": "q", "type": "which",
}  # fmt: skip
"""What other packages call a parameter."""

_WEIGHTS = (
    "ols() alone takes weights= of rows, the name of a column, and weights='unit', with unit=, for persons "
    "with several rows"
)
_INSTRUMENTS = "two-stage least squares is not there: make two releases, and combine what they released"
_RANDOM = "random effects are not fitted: unit='id' has standard errors that allow for them"
_MISSING = (
    "a row with a missing value in a column that the formula names is never used; fill it in before the call"
)
_ABSORBED = (
    "fixed effects of persons are unit='id' with effects='unit' of ols(); declared levels are in the formula"
)
_CLUSTERS = "unit='id' protects all rows of a person, and clusters standard errors by person"
_COVARIANCE = f"ols() has cov_type=; {_CLUSTERS}"
_OFFSET = (
    "poisson() has offset= and exposure=, and logit() has none; of a linear model subtract it from the "
    "response, as in 'I(y - x) ~ z'"
)
_UNSUPPORTED = {
    **dict.fromkeys(["weights", "freq_weights", "var_weights", "wts"], _WEIGHTS),
    "subset": "subset the data before the call; a subset by a private column is part of what is asked",
    **dict.fromkeys(["instruments", "instrument"], _INSTRUMENTS),
    **dict.fromkeys(["random", "re_formula", "vc_formula"], _RANDOM),
    **dict.fromkeys(["missing", "na_action"], _MISSING),
    "contrasts": "write them in the formula, as in 'C(f, Sum)'",
    **dict.fromkeys(["absorb", "fixef"], _ABSORBED),
    **dict.fromkeys(["cov_kwds", "vcov", "vcov_formula"], _COVARIANCE),
    "groups": f"{_CLUSTERS}; by= fits each group by itself",
    "title": "a title names the method and the guarantee; that of a figure is changed by ax.set_title()",
    **dict.fromkeys(["offset", "exposure"], _OFFSET),
}
"""Arguments of other packages that none here does the work of, and what to do in their place."""


def _meant(text: str, parameters: Collection[str]) -> str:
    """Python's message about the arguments of a call, with what may be meant.

    Examples
    --------
    >>> _meant("ols() got an unexpected keyword argument 'epsilon'", ["data", "eps"])
    "ols() got an unexpected keyword argument 'epsilon'; did you mean 'eps'?"
    """
    # since 3.13 Python guesses too, by spelling alone
    text = re.sub(r"\. Did you mean '\w+'\?$", "", text)
    # the class that a method is written in may be one that users do not know
    text = re.sub(r"^(?:\w+\.)+(\w+\(\))", r"\1", text)
    if re.search(r"takes \d+ positional arguments? but", text) and "eps" in parameters:
        return f"{text}; after the data all arguments have names, as in eps=1"
    if text == "combine() takes 1 positional argument but 2 were given":
        return f"{text}; they are in a list, as in combine([a, b])"
    if text.endswith("missing 1 required keyword-only argument: 'eps'"):
        return f"{text}, the privacy budget, as in eps=1"
    found = re.search(r"unexpected keyword argument '(\w{1,40})'$", text)
    if not found:
        return text
    if found[1].lower() in ("alpha", "conf_level") and "eps" in parameters and "alpha" not in parameters:
        return f"{text}: intervals have it, as in fit.conf_int(alpha=0.1)"
    instead = _UNSUPPORTED.get(found[1].lower())
    if instead is not None:
        return f"{text}: {instead} (docs/not_supported.md)"
    meant = _SPELLINGS.get(found[1].lower(), found[1].lower())
    if meant == "neighbours" and "eps" in parameters and meant not in parameters:
        return f"{text}; it has one kind of neighbours, which its help and fit.guarantee name"
    meant = _SPELLINGS.get(found[1].lower())
    if meant is not None and meant not in parameters:
        return text
    others = [name for name in parameters if name != "self"]
    close = [meant] if meant else difflib.get_close_matches(found[1], others, 1)
    if not close:
        return text
    other = ", one minus the level" if close[0] == "alpha" and "level" in found[1] else ""
    other = ", 'mean' or 'linear'" if close[0] == "which" else other
    return f"{text}; did you mean {close[0]!r}{other}?"


def _clean(error: BaseException, name: str, parameters: Collection[str]) -> BaseException:
    # without a further frame it is the call itself that Python refuses, naming parameters
    called = error.__traceback__ is not None and error.__traceback__.tb_next is not None
    if isinstance(error, TypeError) and not called:
        error = TypeError(_meant(str(error), parameters))
    if isinstance(error, Exception) and called and not _known(error):
        error = DpstatsError(_BEFORE.format(name=name, debug=DEBUG))
    if not isinstance(error, Exception):
        # an interruption says that it is one, and a panic of a library may quote rows
        kinds: tuple[type[BaseException], ...] = (KeyboardInterrupt, SystemExit, GeneratorExit)
        plain = next((k for k in kinds if isinstance(error, k)), None)
        error = plain() if plain else DpstatsError(_ODD.format(name=name))
    error.__cause__ = error.__context__ = None
    error.__suppress_context__ = False
    if hasattr(error, "__notes__"):
        del error.__notes__
    return error.with_traceback(None)
