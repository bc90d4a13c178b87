"""What the R package calls: plain lists, bytes and strings in, plain lists out, errors as values.

R's reticulate turns matrices, data frames and missing values into something else on the way, depending on
its version and NumPy's. So columns come as bytes with their kind, results leave as lists of floats, and each
side builds and takes apart its own objects. Nothing here is needed from Python.
"""

import json
import re
import uuid
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np
import pandas as pd
from patsy.desc import ModelDesc

import dpstats
from dpstats import depth as depth_functions
from dpstats._estimators import ESTIMATORS
from dpstats._quiet import quiet
from dpstats._types import Floats
from dpstats.data.sources import open_source
from dpstats.errors import DpstatsError, LedgerError
from dpstats.formula.units import WithinDesign
from dpstats.privacy.ledger import Ledger
from dpstats.privacy.statement import COLUMNS
from dpstats.results.glm import GLMResults
from dpstats.results.grouped import GroupedResults
from dpstats.results.table import format_ends

__all__ = [
    "Options", "answer", "column_names", "depth", "design_columns", "estimate", "estimators", "floats",
    "in_python", "ledger", "opened", "received", "result_facts", "select",
]  # fmt: skip

Options = Mapping[str, Any]


def answer(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Return what the function returns as ``{"value": ...}``, and what it raises as ``{"error": ...}``.

    Of an error that is not meant for users only type and place are told, since its text may hold data.
    Warnings are not told at all.
    """

    @wraps(function)
    def answering(*args: Any) -> dict[str, Any]:
        try:
            with quiet():
                return {"value": _plain(function(*args))}
        except (DpstatsError, ImportError, OSError) as error:
            # a library or a file that is not there may be named
            guarantee, kind, message = getattr(error, "guarantee", None), _kind(error), str(error)
        except Exception as error:
            guarantee, kind, message = None, _kind(error), f"internal error: {_place(error)}."
        return {
            "error": {
                "kind": kind,
                "message": message,
                "guarantee": None if guarantee is None else guarantee.to_dict(),
            }
        }

    return answering


def _plain(value: Any) -> Any:
    """The value without NumPy's scalars, which are no numbers to reticulate where NumPy is too new for it."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # of lists of numbers only the first is looked at: they come from arrays
        return value if value and type(value[0]) is float else [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _kind(error: BaseException) -> str:
    """What R calls an error: ``"release_failed"`` for a ReleaseFailed, ``"python_error"`` for one that is not
    of this package.
    """
    if not isinstance(error, DpstatsError):
        return "python_error"
    return re.sub("(?<!^)([A-Z])", r"_\1", type(error).__name__).lower()


def _place(error: BaseException) -> str:
    """The type of an exception and the line that raised it."""
    frame = error.__traceback__
    assert frame is not None
    while frame.tb_next is not None:
        frame = frame.tb_next
    return f"{type(error).__name__} in {frame.tb_frame.f_globals.get('__name__')}, line {frame.tb_lineno}"


# -- data and options
# ------------------------------------------------------------------------------------------


def received(data: Any) -> Any:
    """The data as a path or as a mapping of arrays.

    A column is ``{"kind", "values", "levels"}`` with `values` bytes: float64 numbers (NaN where missing), or
    int32 codes of the levels from 1 on (0 where missing), the levels of a ``"truth"`` being False and True.
    """
    if isinstance(data, str):
        return data
    return {name: _column(**column) for name, column in data.items()}


def _column(kind: str, values: Any, levels: Sequence[Any] | None = None) -> Any:
    if kind == "number":
        return np.frombuffer(values, np.float64)
    codes = np.frombuffer(values, np.int32) - 1
    if kind == "truth":
        return pd.arrays.BooleanArray(codes == 1, codes < 0)
    return pd.Categorical.from_codes(codes, categories=[_number(level) for level in levels or ()])


def _number(value: Any) -> Any:
    """R has doubles where Python distinguishes 1 and 1.0: the integer, for seeds, counts and levels."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def in_python(options: Options) -> dict[str, Any]:
    """The arguments by name, with whole numbers as integers, also within lists and dictionaries."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [plain(item) for item in value]
        return _number(value)

    return plain(options)


_IN_MEMORY: dict[Any, Ledger] = {}
"""Ledgers that live in this process, by the random names that R knows them by: what R keeps of one may come
from another process, which had its own."""


def opened(facts: Options | None) -> Ledger | None:
    """The ledger that R describes by ``path, eps, delta, dataset, composition`` and, in memory, its name."""
    return None if facts is None else _ledger(facts)


def _ledger(facts: Options) -> Ledger:
    facts = in_python(facts)
    if facts["path"] != ":memory:":
        return Ledger(**facts)
    if (name := facts.get("name")) not in _IN_MEMORY:
        raise LedgerError(
            "This ledger in memory ended with the R session that made it, or belongs to another one. A "
            "ledger in a file lasts, and can be used from several."
        )
    return _IN_MEMORY[name]


# -- estimators
# ------------------------------------------------------------------------------------------------


@answer
def estimate(
    name: str,
    formula: str,
    data: Any,
    options: Options,
    ledger: Options | None = None,
    factors: Sequence[str] = (),
    terms: Sequence[Sequence[float]] = (),
) -> dict[str, Any]:
    """Run an estimator.

    Parameters
    ----------
    name : str
        Of a public function.
    formula : str
    data : str or dict
        A path, or columns (:func:`received`).
    options : dict
    ledger : dict, optional
    factors : list of str
        The factors that R put in the formula's right-hand side.
    terms : list of list of int
        Its terms, each the positions of its factors.

    Returns
    -------
    dict
        Of lists, numbers and strings; ``columns`` (:func:`design_columns`) refer to `factors` and `terms` by
        position.
    """
    found = _run(name, formula, data, options, ledger)
    if options.get("by") is None:
        return result_facts(found, factors, terms)
    groups = {
        str(i): result_facts(r, factors, terms, r is _first(found))
        for i, r in _numbered(found, found.results)
    }
    return {
        "method": found.method,
        "levels": list(found.levels),
        "groups": groups,
        "failed": {str(i): reason for i, reason in _numbered(found, found.failed)},
        "guarantee": found.guarantee.to_dict(),
    }


@answer
def select(
    formula: str,
    data: Any,
    options: Options,
    ledger: Options | None = None,
    factors: Sequence[str] = (),
    terms: Sequence[Sequence[float]] = (),
) -> dict[str, Any]:
    """Run :func:`dpstats.select_features`; ``terms`` and ``candidates`` are positions in `terms`."""
    found = _run("select_features", formula, data, options, ledger)
    position = {name: float(i) for i, name in enumerate(_term_names(factors, terms))}
    return {
        "method": found.method,
        "terms": [position[name] for name in found.terms],
        "rounds": [float(n) for n in found.rounds],
        "columns": [float(n) for n in found.columns],
        "candidates": [position[name] for name in found.candidates],
        "guarantee": found.guarantee.to_dict(),
    }


def _run(name: str, formula: str, data: Any, options: Options, ledger: Options | None) -> Any:
    function = getattr(dpstats, name)
    return function(formula, received(data), **in_python(options), ledger=opened(ledger))


def _numbered(found: GroupedResults, part: Mapping[Any, Any]) -> list[tuple[int, Any]]:
    """The positions of the groups of `part` among the levels, and what it says of them."""
    return [(i, part[level]) for i, level in enumerate(found.levels) if level in part]


def _first(found: GroupedResults) -> Any:
    return next(iter(found.results.values()))


@answer
def estimators() -> list[str]:
    """The names of the public functions, which R knows with ``dp_`` in front."""
    return list(ESTIMATORS)


@answer
def column_names(path: str) -> list[str]:
    """The names of the columns of a file."""
    return list(open_source(path).schema.names)


# -- results
# ---------------------------------------------------------------------------------------------------


def result_facts(
    found: Any, factors: Sequence[str], terms: Sequence[Sequence[float]], describe: bool = True
) -> dict[str, Any]:
    """A Results as plain values; its design only if asked for, since all groups have the same."""
    design = found.design
    low, high = (None, None) if design is None or design.limits is None else map(floats, design.limits)
    return {
        "method": found.method,
        "names": list(found.names),
        "estimates": floats(found.estimates),
        "cov": None if found.cov is None else floats(found.cov),
        "root": None if found.root is None else floats(found.root),
        "free": None if found.free is None else floats(found.free),
        "covers": found.covers,
        "cov_type": found.cov_type,
        "het": None if found.het is None else found.het.to_dict(),
        "heterogeneity": None if found.heterogeneity is None else found.heterogeneity.to_dict(),
        "df": found.df,
        "alpha": found.alpha,
        "interval": None if found.interval is None else found.interval.to_dict(),
        "limited": [
            [found.names.index(name), low, high, format_ends(low, high)] for name, low, high in found.limited
        ],
        "released": dict(found.released),
        "notes": list(found.notes),
        "guarantee": found.guarantee.to_dict(),
        # R hands it back where Python is to go on from a fit
        "saved": json.dumps(found.to_dict()),
        "link": found.link if isinstance(found, GLMResults) else None,
        "slopes": found.to_dict()["slopes"] if isinstance(found, GLMResults) else None,
        "columns": None if design is None or not describe else design_columns(design, factors, terms),
        "within": isinstance(design, WithinDesign),
        "low": low,
        "high": high,
    }


def floats(values: Any) -> list[float]:
    return np.asarray(values, float).ravel().tolist()


def design_columns(
    design: Any, factors: Sequence[str], terms: Sequence[Sequence[float]]
) -> list[dict[str, Any]]:
    """How the columns of the design are made, for R to name them and to predict.

    Returns
    -------
    list of dict
        Of consecutive columns: the position of their ``term`` (None: the constant), how many there are, and
        their ``parts``, whose products they are, those of the first part varying fastest. A part has the
        position of its ``factor``, a ``kind``, and for levels these and the matrix of their contrast
        (``width`` columns, by rows).
    """
    factor = {_normal(code): i for i, code in enumerate(factors)}
    term = {name: i for i, name in enumerate(_term_names(factors, terms))}
    return [
        {
            "term": term.get(columns["term"]),
            "width": columns["width"],
            "parts": [part | {"factor": factor[part["factor"]]} for part in columns["factors"]],
        }
        for columns in design.to_dict()["columns"]
    ]


def _normal(code: str) -> str:
    """A factor's text as patsy writes it."""
    ((factor,),) = [term.factors for term in ModelDesc.from_formula("0 + " + code).rhs_termlist]
    return factor.name()


def _term_names(factors: Sequence[str], terms: Sequence[Sequence[float]]) -> list[str]:
    names = [_normal(code) for code in factors]
    return [":".join(names[int(i)] for i in term) for term in terms]


# -- ledgers and depth
# -------------------------------------------------------------------------------------------


@answer
def ledger(facts: Options, what: str, neighbours: Any = None) -> Any:
    """Make a ledger, or look at one.

    Parameters
    ----------
    facts : dict
    what : {"facts", "remaining", "report"}
        ``"facts"`` opens one that is described, and makes a new one in memory.
    neighbours : str, optional
        For ``"remaining"``.
    """
    if what == "facts":
        made = Ledger(**in_python(facts))
        names = ("path", "eps", "delta", "dataset", "composition", "unit")
        told = {name: getattr(made, name) for name in names}
        if made.path == ":memory:":
            told["name"] = uuid.uuid4().hex
            _IN_MEMORY[told["name"]] = made
        return told
    opened = _ledger(facts)
    if what == "remaining":
        return floats(opened.remaining(neighbours))
    report = opened.report()
    return {
        "text": str(report),
        "releases": {name: [r[name] for r in report.releases] for name in COLUMNS},
    }


@answer
def depth(name: str, arrays: list[dict[str, Any]], options: Options) -> dict[str, Any]:
    """Run a function of :mod:`dpstats.depth`.

    Parameters
    ----------
    name : str
    arrays : list of dict
        Each ``{"values", "rows", "columns"}``: bytes of float64, by columns; without `columns` a vector.
    options : dict

    Returns
    -------
    dict
        The ``found`` attributes of what it returns, arrays as lists by columns, and the texts of its
        ``warnings``.
    """
    function = getattr(depth_functions, name)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options = {key: _depth_option(option) for key, option in dict(options).items()}
        found = function(*(_array(**array) for array in arrays), **options)
    if isinstance(found, list):
        found = [_listed(item) for item in found]
    elif isinstance(found, np.ndarray):
        found = _listed(found)
    else:
        found = {field: _listed(getattr(found, field)) for field in found.__dataclass_fields__}
    return {"found": found, "warnings": [str(w.message) for w in caught if w.category is UserWarning]}


def _depth_option(value: Any) -> Any:
    return _array(**value) if isinstance(value, dict) else in_python(value)


def _array(values: bytes, rows: float, columns: float | None = None) -> Floats:
    flat = np.frombuffer(values, np.float64)
    return flat if columns is None else flat.reshape((int(rows), int(columns)), order="F")


def _listed(value: Any) -> Any:
    return floats(value.ravel(order="F")) if isinstance(value, np.ndarray) else value
