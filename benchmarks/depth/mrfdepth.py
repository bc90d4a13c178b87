"""Depths of mrfDepth and of dpstats.depth, compared; where they differ, exact arithmetic decides.

    python benchmarks/depth/mrfdepth.py            # the study, to mrfdepth.csv and mrfdepth_flag.csv
    python benchmarks/depth/mrfdepth.py --tests    # the tests marked mrfdepth, to mrfdepth_tests.csv

It needs R and the package mrfDepth (``tools/install_mrfdepth.sh``; set ``R_LIBS`` to its library).

The data sets are small tables of decimal numbers, kept as fractions. Both packages get the nearest doubles.
The exact depth is that of the fractions: a brute force over all hyperplanes through the vectors of the
definition, in whole numbers, of which nothing is shared with dpstats. It is computed for every case, also
where the two agree; where they differ, it is computed a second time for the doubles themselves. A residual
below `rtol` is zero for `depth.regression`; where its depth is then not exact, ``rtol=0`` is tried as well,
against the exact depth with the residuals' signs of the doubles.
"""

import argparse
import csv
import math
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import numpy as np

from dpstats import depth

HERE = Path(__file__).resolve().parent
SEED = 20261123
SETS, QUERIES = 20, 12
ROWS = {
    ("halfspace", 2): 24,
    ("halfspace", 3): 15,
    ("regression", 2): 24,
    ("regression", 3): 15,
    ("regression", 4): 10,
}
KINDS = (
    "normal",
    "heavy tails",
    "grid",
    "ties",
    "duplicates",
    "collinear",
    "nearly collinear",
    "near ties",
    "times 1e9",
    "times 1e-9",
    "far from zero",
    "outlier",
)
FIELDS = (
    "cases,no value,of those crashed,differ,exact with dpstats,exact with mrfDepth,exact with neither,"
    "mrfDepth exact for doubles,mrfDepth exact,dpstats exact,dpstats else exact with rtol=0"
).split(",")


# the exact reference


def determinant(rows):
    if not rows:
        return 1
    head, *rest = rows
    return sum(
        (-1) ** j * head[j] * determinant([row[:j] + row[j + 1 :] for row in rest])
        for j in range(len(head))
        if head[j]
    )


def normal_of(rows):
    """A vector orthogonal to d - 1 rows of d whole numbers, up to its length; zero if they are dependent."""
    v = [(-1) ** j * determinant([row[:j] + row[j + 1 :] for row in rows]) for j in range(len(rows) + 1)]
    return lowest_terms(v)


def lowest_terms(v):
    sign = next((1 if a > 0 else -1 for a in v if a), 1)
    divisor = sign * (math.gcd(*v) or 1)
    return tuple(a // divisor for a in v)


def independent_columns(rows):
    """Columns whose number is the rank, and on which the rank is full."""
    rows, found = [list(row) for row in rows], []
    for c in range(len(rows[0])):
        at = next((row for row in rows if row[c]), None)
        if at is None:
            continue
        found.append(c)
        rows = [
            [at[c] * a - row[c] * b for a, b in zip(row, at, strict=True)] for row in rows if row is not at
        ]
    return found


def fewest(vectors):
    """Least number of vectors u with v'u >= 0, over all v other than zero; whole numbers.

    The count is least for some v in general position. The cone of the v of one pattern of signs has an edge,
    which is orthogonal to rank - 1 of the vectors; from there v moves a little, which matters for the vectors
    orthogonal to the edge alone, and for them it is the same question with one dimension less.
    """
    moving = [u for u in vectors if any(u)]
    always = len(vectors) - len(moving)
    if not moving:
        return always
    columns = independent_columns(moving)
    moving = [tuple(u[c] for c in columns) for u in moving]
    if len(columns) == 1:
        positive = sum(u > 0 for (u,) in moving)
        return always + min(positive, len(moving) - positive)
    lines = sorted({lowest_terms(u) for u in moving})
    edges = {normal_of(some) for some in combinations(lines, len(columns) - 1)}
    best = len(moving)
    for v in edges:
        if any(v):
            products = [sum(a * b for a, b in zip(u, v, strict=True)) for u in moving]
            positive, negative = sum(p > 0 for p in products), sum(p < 0 for p in products)
            if min(positive, negative) < best:
                on_it = fewest([u for u, p in zip(moving, products, strict=True) if p == 0])
                best = min(best, min(positive, negative) + on_it)
    return always + best


def whole(rows):
    """Fractions as whole numbers, by a positive factor for each column: no depth depends on units."""
    factors = [math.lcm(*(value.denominator for value in column)) for column in zip(*rows, strict=True)]
    return [tuple(int(value * f) for value, f in zip(row, factors, strict=True)) for row in rows]


def exact_depth(call, data, query, signs_of=None):
    """Halfspace depth of a point, or regression depth of a fit; intercept first, response last.

    `signs_of`: other data and another fit, of which to take the signs of the residuals.
    """
    if call == "halfspace":
        return fewest(whole([[a - b for a, b in zip(row, query, strict=True)] for row in data]))
    vectors = []
    responses, fit = signs_of or (data, query)
    for (*x, _), (*at, y) in zip(data, responses, strict=True):
        r = y - fit[0] - sum(a * b for a, b in zip(fit[1:], at, strict=True))
        sign = (r > 0) - (r < 0)
        vectors.append([Fraction(sign * value) for value in (1, *x)])
    return fewest(whole(vectors))


# data sets


def decimals(array, digits):
    unit = 10**digits
    return [[Fraction(round(float(v) * unit), unit) for v in row] for row in array]


def table(kind, n, d, rng):
    """n rows of d decimals."""
    if kind in ("normal", "outlier"):
        rows = decimals(rng.standard_normal((n, d)), 6)
        if kind == "outlier":
            rows[0] = [value + 10**8 for value in rows[0]]
        return rows
    if kind == "heavy tails":
        return decimals(rng.standard_cauchy((n, d)), 3)
    if kind == "ties":
        return decimals(rng.integers(-9, 10, (n, d)) / 10, 1)
    if kind == "duplicates":
        return decimals(rng.integers(-20, 21, (n // 3, d))[rng.integers(0, n // 3, n)], 0)
    if kind.endswith("collinear"):
        start, step = rng.integers(-4, 5, d), rng.choice([-2, -1, 1, 2], d)
        rows = start + rng.integers(-5, 6, (n, 1)) * step
        if kind == "nearly collinear":
            rows[: d + 1] = rng.integers(-5, 6, (d + 1, d))
        return decimals(rows, 0)
    grid = decimals(rng.integers(-2, 3, (n, d)), 0)
    if kind == "near ties":
        apart = rng.integers(-2, 3, (n, d)).tolist()
        return [
            [v + Fraction(a, 10**9) for v, a in zip(*pair, strict=True)]
            for pair in zip(grid, apart, strict=True)
        ]
    if kind == "far from zero":
        return [[10**6 + v / 10 for v in row] for row in grid]
    unit = {"times 1e-9": Fraction(1, 10**9), "times 1e9": 10**9}.get(kind, 1)
    return [[v * unit for v in row] for row in grid]


def queries(call, kind, data, rng):
    """Half of them observations, or fits through one; the others where observations might be."""
    d, half = len(data[0]), QUERIES // 2
    if call == "halfspace":
        other = table("normal" if kind == "outlier" else kind, QUERIES - half, d, rng)
        return [data[k] for k in rng.integers(0, len(data), half)] + other
    found = []
    for j in range(QUERIES):
        slopes = decimals(rng.integers(-4, 5, (1, d - 1)) / 2, 1)[0]
        *x, y = data[rng.integers(len(data))]
        intercept = y - sum(a * b for a, b in zip(slopes, x, strict=True))
        if j >= half:
            *x, y = data[rng.integers(len(data))]
            intercept += (y - intercept) / 4
        found.append([intercept, *slopes])
    return found


def cases():
    """Yield ``(call, kind, data, queries)``, in fractions."""
    rng = np.random.default_rng(SEED)
    for (call, d), n in ROWS.items():
        for kind in KINDS:
            for _ in range(SETS if d < 4 else SETS // 4):
                data = table(kind, n, d, rng)
                yield call, kind, data, queries(call, kind, data, rng)


# the two packages


def as_doubles(rows):
    return np.array([[float(v) for v in row] for row in rows])


def in_fractions(rows):
    """The doubles that both packages get, as they are."""
    return [[Fraction(v) for v in row] for row in as_doubles(rows).tolist()]


def ours(call, data, points, **options):
    if call == "halfspace":
        return depth.halfspace(points, data).tolist()
    return depth.regression(points, data[:, :-1], data[:, -1], **options).tolist()


def theirs(studied):
    """Rows of depths.csv by case, and the versions of mrfDepth and R."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        with open(path / "cases.csv", "w", newline="") as index, open(path / "numbers.bin", "wb") as numbers:
            writer = csv.writer(index)
            writer.writerow(["call", "rows", "queries", "columns"])
            for call, _, data, points in studied:
                writer.writerow([call, len(data), len(points), len(data[0])])
                for rows in (data, points):
                    numbers.write(as_doubles(rows).tobytes(order="F"))
        command = ["Rscript", "--vanilla", HERE / "mrfdepth.R", folder]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        found = [[] for _ in studied]
        with open(path / "depths.csv", newline="") as file:
            for row in csv.DictReader(file):
                found[int(row["case"]) - 1].append(row)
    return found, said.splitlines()[-1]


def count_of(value, n):
    """The count that a depth between 0 and 1 stands for; None if there is none."""
    return None if value == "NA" else round(float(value) * n)


def name_of(call, d):
    return (
        f"halfspace, {d} dimensions"
        if call == "halfspace"
        else f"regression, {d - 1} covariate" + "s" * (d > 2)
    )


def study():
    """Rows of mrfdepth.csv and of mrfdepth_flag.csv, and the versions."""
    studied = list(cases())
    answers, versions = theirs(studied)
    tallies, flags = {}, {}
    for (call, kind, data, points), answer in zip(studied, answers, strict=True):
        n, d = len(data), len(data[0])
        doubles = in_fractions(data)
        for point, a, row in zip(
            points, ours(call, as_doubles(data), as_doubles(points)), answer, strict=True
        ):
            exact = exact_depth(call, data, point)
            if d == 4:
                tally = flags.setdefault(kind, Counter())
                tally["cases"] += 1
                tally["no value"] += row["value"] == "NA"
                tally["returns the flag"] += row["value"] != "NA" and float(row["value"]) == float(
                    row["flag"]
                )
                tally["returns the depth"] += count_of(row["value"], n) == exact
                tally["its routine exact"] += count_of(row["inner"], n) == exact
                tally["dpstats exact"] += a == exact
                continue
            b = count_of(row["value"], n)
            tally = tallies.setdefault((name_of(call, d), kind), Counter())
            tally["cases"] += 1
            tally["no value"] += b is None
            tally["of those crashed"] += row["crashed"] == "TRUE"
            tally["dpstats exact"] += a == exact
            tally["mrfDepth exact"] += b == exact
            if a != exact and call == "regression":
                (strict,) = ours(call, as_doubles(data), as_doubles([point]), rtol=0)
                as_stored = (doubles, *in_fractions([point]))
                tally["dpstats else exact with rtol=0"] += strict == exact_depth(call, data, point, as_stored)
            if b is not None and a != b:
                tally["differ"] += 1
                winner = "dpstats" if a == exact else "mrfDepth" if b == exact else "neither"
                tally[f"exact with {winner}"] += 1
                tally["mrfDepth exact for doubles"] += b == exact_depth(call, doubles, *in_fractions([point]))
    main_rows = [{"function": f, "kind": k, **{c: t[c] for c in FIELDS}} for (f, k), t in tallies.items()]
    names = (
        "cases",
        "no value",
        "returns the flag",
        "returns the depth",
        "its routine exact",
        "dpstats exact",
    )
    return main_rows, [{"kind": k, **{c: t[c] for c in names}} for k, t in flags.items()], versions


def live_tests():
    """Run the tests marked mrfdepth; their names and outcomes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tests.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "mrfdepth",
            "tests/depth",
            f"--junitxml={file}",
        ]
        subprocess.run(command, cwd=HERE.parents[1], check=False)
        found = ET.parse(file).getroot().iter("testcase")
        return [
            {"test": case.get("name"), "outcome": next((child.tag for child in case), "passed")}
            for case in found
        ]


def versions_in_r():
    code = (
        "cat('mrfDepth ', format(packageVersion('mrfDepth')), ', R ', as.character(getRversion()), sep = '')"
    )
    return subprocess.run(
        ["Rscript", "--vanilla", "-e", code], stdout=subprocess.PIPE, text=True, check=True
    ).stdout


def write(name, versions, rows):
    with open(HERE / name, "w", newline="") as file:
        file.write(f"# {versions}, Python {sys.version.split()[0]}, numpy {np.__version__}\n")
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print((HERE / name).read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", action="store_true", help="run the tests marked mrfdepth instead")
    if parser.parse_args().tests:
        write("mrfdepth_tests.csv", versions_in_r(), live_tests())
        return
    found, flags, versions = study()
    write("mrfdepth.csv", versions, found)
    write("mrfdepth_flag.csv", versions, flags)


if __name__ == "__main__":
    main()
