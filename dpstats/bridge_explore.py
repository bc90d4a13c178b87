"""What the R package calls before and after a fit; crosses the border as :mod:`dpstats.bridge` does."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

import dpstats
from dpstats import bridge
from dpstats.explore.description import Description
from dpstats.explore.diagnosis import CountDiagnosis, Diagnosis, LinearDiagnosis, LogitDiagnosis
from dpstats.explore.laws import LAWS
from dpstats.explore.lookalike import lookalike
from dpstats.explore.panels import bars, beyond
from dpstats.explore.plan import Plan
from dpstats.explore.response import design_of
from dpstats.explore.search import criteria
from dpstats.results.grouped import GroupedResults

__all__ = ["combine", "describe", "diagnose", "plan", "plan_columns", "saved_columns", "split"]

Names = Mapping[str, str]
"""R's names of columns of a design, by Python's, in R's order."""


def _frame(frame: pd.DataFrame) -> dict[str, list[Any]]:
    """A table as lists by column."""
    return {name: _list(frame[name]) for name in frame}


def _list(column: pd.Series) -> list[Any]:
    return column.astype(float).tolist() if pd.api.types.is_numeric_dtype(column) else column.tolist()


# -- describe
# -----------------------------------------------------------------------------------------------------------


@bridge.answer
def describe(
    data: Any, columns: Any, options: bridge.Options, ledger: Any = None, skipped: Sequence[str] = ()
) -> dict[str, Any]:
    """Run :func:`dpstats.describe`.

    Parameters
    ----------
    data : str or dict
    columns : list of str or None
    options : dict
    ledger : dict, optional
    skipped : list of str
        Columns that R kept back, as they cannot be described.
    """
    options = bridge.in_python(options)
    found: Any = dpstats.describe(bridge.received(data), columns, ledger=bridge.opened(ledger), **options)
    if options.get("by") is None:
        return _description(_in_words(found, skipped))
    levels = list(found.levels)
    results = {level: _in_words(one, skipped) for level, one in found.results.items()}
    words = dict(zip(levels, _in_r(levels), strict=True))
    said = replace(
        found,
        levels=tuple(words.values()),
        results={words[level]: one for level, one in results.items()},
        failed={words[level]: reason for level, reason in found.failed.items()},
    )
    return {
        "levels": levels,
        "text": str(said.summary()),
        "groups": {
            str(i): _description(results[level]) for i, level in enumerate(levels) if level in results
        },
        "failed": {str(i): found.failed[level] for i, level in enumerate(levels) if level in found.failed},
        "guarantee": found.guarantee.to_dict(),
    }


def _in_words(found: Description, skipped: Sequence[str]) -> Description:
    """A description as R knows its levels."""
    counts = tuple(replace(counted, levels=_in_r(counted.levels)) for counted in found.level_counts)
    return replace(found, level_counts=counts, skipped=(*found.skipped, *skipped))


def _description(found: Description) -> dict[str, Any]:
    pairs = found.correlations
    levels = found.levels.reset_index() if found.level_counts else pd.DataFrame()
    return {
        "columns": found.columns,
        "text": str(found.summary()),
        "statistics": _frame(found.tidy()),
        "numbers": _frame(found.numbers.reset_index(names="column")),
        "levels": _frame(levels),
        "correlation": None
        if pairs is None
        else {
            "names": list(pairs.names),
            "estimates": bridge.floats(pairs.estimates),
            "std.errors": bridge.floats(pairs.se),
        },
        "histograms": {
            number.name: dict(
                zip(
                    ("ends", "rows", "beyond"),
                    map(bridge.floats, (*bars(number), beyond(number))),
                    strict=True,
                )
            )
            for number in found.number_summaries
        },
        "guarantee": found.guarantee.to_dict(),
    }


def _in_r(levels: Sequence[Any]) -> tuple[str, ...]:
    """Levels as R writes them."""
    return tuple(
        str(level).upper() if isinstance(level, bool | np.bool_) else f"{level:.15g}"
        if isinstance(level, float) else str(level)
        for level in levels
    )  # fmt: skip


# -- from saved fits
# ----------------------------------------------------------------------------------------------------


@bridge.answer
def saved_columns(saved: str) -> list[dict[str, Any]]:
    """The columns that a saved fit reads: their ``name``, ``kind`` and ``levels``."""
    fit: Any = dpstats.from_dict(json.loads(saved))
    schema = getattr(fit.design, "schema", ())
    return [
        {"name": c.name, "kind": c.kind, "levels": None if c.levels is None else list(c.levels)}
        for c in schema
    ]


@bridge.answer
def diagnose(
    saved: str, data: Any, options: bridge.Options, ledger: Any, formula: str, names: Names
) -> dict[str, Any]:
    """Run :func:`dpstats.diagnose` on a saved fit.

    Parameters
    ----------
    saved : str
        ``to_dict()`` of the fit as JSON.
    data : str or dict
    options : dict
    ledger : dict or None
    formula : str
        As R writes it.
    names : dict
    """
    fit: Any = dpstats.from_dict(json.loads(saved))
    charged = bridge.opened(ledger)
    options = bridge.in_python(options)
    found = replace(dpstats.diagnose(fit, bridge.received(data), ledger=charged, **options), formula=formula)
    facts: dict[str, Any] = {"rows": found.count}
    columns: dict[str, Any] = {}
    if isinstance(found, LinearDiagnosis):
        found = replace(
            found, columns=tuple(replace(b, name=names.get(b.name, b.name)) for b in found.columns)
        )
        columns = {bins.name: _frame(bins.to_frame()) for bins in found.columns}
        facts["spread"] = found.fitted.sigma * found.fitted.mean_square**0.5
    if isinstance(found, LogitDiagnosis):
        facts["auc"], facts["auc_se"] = found.calibration.auc()
    frames = {name: frame for name, frame in found.frames().items() if name not in columns}
    tests = frames.pop("tests").reset_index(names="test").rename(columns={"pvalue": "p.value"})
    return {
        "kind": _KINDS[type(found)],
        "text": str(found.summary()),
        "tests": _frame(tests),
        "tables": {name: _frame(frame) for name, frame in frames.items()},
        "columns": columns,
        "facts": facts,
        "guarantee": found.guarantee.to_dict(),
    }


_KINDS: dict[type[Diagnosis], str] = {
    LinearDiagnosis: "linear",
    LogitDiagnosis: "logit",
    CountDiagnosis: "counts",
}


@bridge.answer
def combine(saved: Sequence[str], by: str | None = None, failed: Sequence[str] = ()) -> dict[str, Any]:
    """Run :func:`dpstats.combine` on saved fits, or on those of the groups of a column `by`, beside others
    that `failed`.

    R knows how their columns are made.
    """
    fits: Any = [dpstats.from_dict(json.loads(text)) for text in saved]
    if by is not None:
        widest = max((fit.guarantee for fit in fits), key=lambda guarantee: (guarantee.eps, guarantee.delta))
        results, missing = dict(enumerate(fits)), dict.fromkeys(failed, "")
        levels = (*results, *missing)
        fits = GroupedResults(fits[0].method, fits[0].formula, by, levels, results, missing, widest)
    found = dpstats.combine(fits)
    return bridge.result_facts(found, (), (), False) | {"has_design": found.design is not None}


# -- before a fit
# -------------------------------------------------------------------------------------------------------


@bridge.answer
def split(total: float, parts: Any, rule: str, delta: float) -> dict[str, Any]:
    """Run :func:`dpstats.split`."""
    given = bridge.in_python({"parts": parts})["parts"]
    found: Any = dpstats.split(total, given, rule, delta)  # type: ignore[arg-type]
    named = isinstance(found, dict)
    budgets = list(found.values()) if named else list(found)
    return {
        "part": list(found) if named else None,
        "eps": [part.eps for part in budgets],
        "delta": [part.delta for part in budgets],
    }


def _like(like: Mapping[str, Any]) -> Any:
    """A public table ``{"table": columns}``, ``{"columns": descriptions}`` by name, or ``{"groups": [...]}``
    of descriptions."""
    if "table" in like:
        return pd.DataFrame(bridge.received(like["table"]))
    if "groups" in like:
        return [
            {"share": g["share"], "columns": _like(g), "correlation": _correlation(g["correlation"])}
            for g in like["groups"]
        ]
    return {name: _law(facts) for name, facts in like["columns"].items()}


def _law(facts: Any) -> Any:
    """A description as :func:`dpstats.plan` takes it.

    It comes as a name; or as ``{"law", "values", "named"}``, parameters by position and by name; or as
    ``{"quantiles": [shares, values]}``, ``{"levels": [levels, shares]}``, ``{"numbers": [values, shares]}``.
    """
    if isinstance(facts, str):
        return facts
    for kind in ("quantiles", "levels", "numbers"):
        if kind in facts:
            pairs = dict(zip(*facts[kind], strict=True))
            return ("quantiles", pairs) if kind == "quantiles" else pairs
    law, values, named = facts["law"], list(facts["values"]), dict(facts["named"])
    if not named or law not in LAWS:
        return (law, *values)
    return (law, dict(zip(LAWS[law].parameters, values, strict=False)) | named)


def _correlation(pairs: Sequence[Sequence[Any]] | None) -> Any:
    return None if pairs is None else {(a, b): float(r) for a, b, r in pairs}


@bridge.answer
def plan_columns(
    formula: str,
    like: Mapping[str, Any],
    options: bridge.Options | None,
    factors: Sequence[str],
    terms: Sequence[Sequence[float]],
) -> dict[str, Any]:
    """The columns of the design that a plan is about: names, and how they are made (as of an estimate)."""
    frame = lookalike(_like(like)).draw(1, np.random.default_rng(0))
    response = formula.partition("~")[0].strip()
    if response.isidentifier() and response not in frame:
        frame = frame.assign(**{response: 0.0})
    design = design_of(formula, frame, bridge.in_python(options) if options else {})
    return {"names": list(design.column_names), "columns": bridge.design_columns(design, factors, terms)}


@bridge.answer
def plan(
    formula: str, like: Mapping[str, Any], arguments: bridge.Options, r_formula: str, names: Names
) -> dict[str, Any]:
    """Run :func:`dpstats.plan` in this process.

    Parameters
    ----------
    formula : str
    like : dict
    arguments : dict
        Of the function, but `correlation` is a list of triples, and `errors` is as a column of `like`.
    r_formula : str
        The formula as R writes it.
    names : dict
    """
    given = bridge.in_python(arguments)
    given["correlation"] = _correlation(given.get("correlation"))
    given["errors"] = _law(given["errors"])
    found = _renamed(
        dpstats.plan(formula, _like(like), **given, processes=1, progress=False), given, r_formula, names
    )
    needed = found.needed
    return {
        "text": str(found.summary()),
        "table": _frame(found.table),
        "target": found.target,
        "needed": None
        if needed is None
        else {key: getattr(needed, key) for key in ("eps", "n", "low", "high", "reached", "found")},
    }


def _renamed(found: Plan, given: Mapping[str, Any], formula: str, names: Names) -> Plan:
    """The plan in R's names, and with its rows in R's order within each `eps` and number of rows."""
    order = {name: i for i, name in enumerate(names)}
    blocks = {key: i for i, key in enumerate(dict.fromkeys((row[0], row[1]) for row in found.rows))}
    rows = sorted(found.rows, key=lambda row: (blocks[row[:2]], order[row[2]]))
    target = found.target
    if found.needed is not None:
        wanted = criteria(given["target"], tuple(names), given.get("effects") or {})
        target = "; ".join(str(replace(one, term=names[one.term])) for one in wanted)
    renamed = tuple((*row[:2], names[row[2]], *row[3:]) for row in rows)
    return replace(found, formula=formula, rows=renamed, target=target)
