"""The table of the project's README: the middle one of 25 releases, by the standard error of carat.

Run: python benchmarks/typical.py; prints the table and the sentence below it, writes typical.csv

Releases have no seed, so that another run has other numbers. ``typical.csv`` has the coefficient of carat and
its standard error in every release, in order, and those of least squares (HC1).
"""

from pathlib import Path

import pandas as pd
import statsmodels.formula.api as smf

import dpstats

OUTPUT = Path(__file__).with_suffix(".csv")
FORMULA, COLUMN, RELEASES = "price ~ carat + clarity", "carat", 25


def main():
    """25 releases: the middle one is printed."""
    data = dpstats.datasets.load_diamonds()
    fits = [dpstats.ols(FORMULA, data, eps=1) for _ in range(RELEASES)]
    fits.sort(key=lambda fit: fit.bse[COLUMN])
    classical = smf.ols(FORMULA, data).fit(cov_type="HC1")
    names = [*range(1, RELEASES + 1), "least squares"]
    table = pd.DataFrame(
        {
            "release": names,
            "coef": [fit.params[COLUMN] for fit in (*fits, classical)],
            "std_err": [fit.bse[COLUMN] for fit in (*fits, classical)],
        }
    )
    table.to_csv(OUTPUT, index=False, float_format="%.6g", lineterminator="\n")
    print(fits[RELEASES // 2].summary())
    print(sentence(table))


def sentence(table):
    """What the README says below the table."""
    *errors, classical = (float(error) for error in table["std_err"])
    return (
        f"(The middle one of {len(errors)} releases by the standard error of {COLUMN}, which was "
        f"{errors[2]:.1f} to {errors[-3]:.1f} in {len(errors) - 4}; least squares without privacy has "
        f"{classical:.1f}. The next release differs, as it must.)"
    )


if __name__ == "__main__":
    main()
