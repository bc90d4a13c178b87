"""The data of the problems: the columns of each formula, complete rows, factors as such.

    python benchmarks/real/collect.py RAW DATA

RAW has the tables as their packages give them, ``PACKAGE/ITEM.parquet`` (or ``.csv``) for the source
``PACKAGE/ITEM`` of ``problems.toml``. DATA gets ``NAME.parquet`` for each problem; a source that is missing,
and a table that is not of the size in ``problems.toml``, are named. Nothing here looks at a fit.
"""

import sys
import tomllib
from pathlib import Path

import pandas as pd
import patsy

HERE = Path(__file__).parent


def main(raw, out):
    """Write the table of every problem."""
    out.mkdir(parents=True, exist_ok=True)
    for problem in tomllib.loads((HERE / "problems.toml").read_text())["problem"]:
        name = problem["name"]
        try:
            data = prepared(read(raw / problem["source"]), problem)
        except FileNotFoundError as error:
            print(f"{name}: no {error}")
            continue
        data.to_parquet(out / f"{name}.parquet", index=False)
        found = {"rows": len(data), "columns": len(predictors(problem["formula"], data))}
        if any(problem[key] != found[key] for key in found):
            print(f"{name}: {found}, not as in problems.toml")


def read(path):
    """The table at a path without its suffix."""
    for suffix, reader in ((".parquet", pd.read_parquet), (".csv", pd.read_csv)):
        file = path.with_name(path.name + suffix)
        if file.exists():
            return reader(file)
    raise FileNotFoundError(path)


def prepared(table, problem):
    """The variables of the formula, as an analyst would declare them; rows with missing values left out."""
    table = table.rename(columns=named).replace("", pd.NA)
    for name, expression in problem.get("derive", {}).items():
        table[name] = table.eval(expression, engine="python")
    if "where" in problem:
        table = table.query(problem["where"])
    formula = patsy.ModelDesc.from_formula(problem["formula"])
    variables = dict.fromkeys(
        variable
        for term in formula.lhs_termlist + formula.rhs_termlist
        for factor in term.factors
        for variable in names_in(factor.code)
    )
    data = table[list(variables)].dropna().reset_index(drop=True)
    for name in data:
        if name in problem.get("factors", []) or not pd.api.types.is_numeric_dtype(data[name]):
            levels = sorted(data[name].unique(), key=lambda v: (isinstance(v, str), v))
            text = [f"{v:g}" if isinstance(v, float) else str(v) for v in levels]
            data[name] = pd.Categorical(data[name].map(dict(zip(levels, text, strict=True))), categories=text)
        elif pd.api.types.is_bool_dtype(data[name]):
            data[name] = data[name].astype(bool)
        else:
            data[name] = data[name].astype(float)
    return data


def named(column):
    """A column's name as a formula can have it."""
    name = column.replace(".", "_")
    return name + "_" if name in {"lambda", "yield"} else name


def names_in(code):
    """The variables of a factor's code."""
    words = code.replace("I(", " ").replace("(", " ").replace(")", " ").replace("**", " ").split()
    return [word for word in words if word.isidentifier()]


def predictors(formula, data):
    """The columns of the design without the intercept."""
    design = patsy.dmatrix(formula.split("~", 1)[1], data.head(1_000), NA_action="raise")
    return [name for name in design.design_info.column_names if name != "Intercept"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
