"""`logit` and `poisson` where the rows are drawn from real tables, in which no model holds exactly.

Run: OMP_NUM_THREADS=1 python benchmarks/glm/populations.py DATA [SETS [LABEL [MODEL]]]   (40, now, both; five
minutes; writes populations.csv, in which rows of other labels and models are kept: `before` is commit
8dc73893 for `logit`, edd51e19 for `poisson`)

DATA as of ``benchmarks/real/study.py``. Of each table SETS times as many rows as it has, at most 20,000, are
drawn with replacement and fitted at eps = 1. The truth is the fit without privacy on all rows. With
`simulated` the answers of all rows were drawn from that fit before, so that the model holds; counts with a
variance of ``m + m^2`` (exponential factors).

Columns: `determined`, the share of the coefficients with an interval; `held`, of these; `least`, the share of
the coefficient where it is least among those that are determined in half of the sets, `of` its name, and
`plain` the same of HC0 intervals without privacy; `ratio`, the median standard error over HC0's.
"""

import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import statsmodels.api as sm

import dpstats

PATH = Path(__file__).with_name("populations.csv")
MOST = 20_000
SHARES = [
    ("nlswork", "union", "age + ttl_exp + tenure + grade + not_smsa + south + race"),
    ("lalonde_cps", "re78 > 0", "age + educ + black + hisp + marr + nodeg + re74 + re75"),
    ("mothers_hours", "hours > 0", "kids + age + educ + nonmomi + black + hispan + samesex + multi2nd"),
    ("loans", "interest_rate > 11", "debt_to_income + annual_income + loan_amount + term + inquiries_last_12m"
     " + delinq_2y + total_credit_limit + total_credit_utilized"),
    ("hotel_rates", "avg_price_per_room > 105", "lead_time + stays_in_weekend_nights + stays_in_week_nights"
     " + adults + children + is_repeated_guest"),
    ("doctor_visits", "visits > 0", "gender + age + income + illness + reduced + health + private + freepoor"
     " + freerepat + nchronic + lchronic"),
    ("nmes1988", "visits > 0", "hospital + chronic + age + afam + gender + married + school + income"
     " + insurance + medicaid"),
    ("german_health", "docvis > 0", "age + female + married + kids + hhninc + educ + self + outwork"),
    ("vietnam_visits", "pharvis > 0", "educ + sex + age + married + illness + injury + illdays + actdays"
     " + insurance + lnhhexp"),
    ("pensions", "e401k", "inc + age + marr + male + fsize + nettfa"),
    ("vote2016", "votetrump", "age + female + collegeed + racef + famincr + ideo + pid7na + bornagain"
     " + religimp + churchatd + prayerfreq"),
    ("fertility", "work", "morekids + age + afam + hispanic + other + gender1 + gender2"),
    ("mortgages", "home_ownership", "vet_wwko + nonwhite + qob + qob_minus_kw"),
    ("car_claims", "claimcst0 > 0", "veh_value + veh_age + gender + area + agecat"),
    ("movies", "rating > 6", "year + length + votes + Action + Animation + Comedy + Drama + Documentary"
     " + Romance + Short"),
    ("charity", "gift > 0", "resplast + weekslast + propresp + mailsyear + giftlast"),
    ("package_checks", "check_time > 50", "imports + suggests + depends + descr + r_count + r_size"
     " + doc_count"),
    ("gss_wages", "realrinc > 20000", "age + I(age**2) + prestg10 + childs + gender"),
]  # fmt: skip
COUNTS = [
    ("german_health", "docvis", "age + female + married + kids + hhninc + educ + self + outwork"),
    ("doctor_visits", "visits", "gender + age + income + illness + reduced + health"),
    ("vietnam_visits", "pharvis", "educ + sex + age + married + illness + injury + illdays + actdays"
     " + insurance + lnhhexp"),
    ("patents", "patents", "sales + capital + employment + randd + institutions + sp500 + competition"
     " + year"),
    ("pedestrians", "Count", "Sensor"),
    ("batting", "RBI", "AB + H + X2B + X3B + HR + BB + SO + SB"),
    ("package_checks", "imports", "suggests + depends + r_count + doc_count"),
    ("hotel_rates", "booking_changes", "lead_time + stays_in_weekend_nights + stays_in_week_nights + adults"
     " + children + is_repeated_guest"),
    ("taxis", "passengers", "distance + fare"),
    ("mothers_hours", "kids", "age + educ + nonmomi + black + hispan"),
    ("vocabulary", "vocab", "age + I(age**2) + educ + year + gender + nativeBorn"),
    ("gss_wages", "childs", "age + I(age**2) + prestg10 + gender"),
]  # fmt: skip
MODELS = {
    "logit": (SHARES, sm.families.Binomial(), lambda g, mean: g.random(len(mean)) < mean),
    "poisson": (
        COUNTS,
        sm.families.Poisson(),
        lambda g, mean: g.poisson(mean * g.exponential(size=len(mean))),
    ),
}


def answers(data, model, response):
    """Counts, or the response as 0 and 1: of two values the larger is 1."""
    if model == "poisson":
        return data[response] * 1.0
    name, _, least = response.partition(" > ")
    values = data[name]
    if least:
        return (values > float(least)) * 1.0
    return (values == sorted(values.unique())[-1]) * 1.0


def study(model, name, response, right, folder, sets, simulated):
    data = pd.read_parquet(folder / f"{name}.parquet")
    data = data.astype({column: float for column in data.select_dtypes("bool")})
    data["answer"], formula = answers(data, model, response), f"answer ~ {right}"
    y, X = patsy.dmatrices(formula, data, return_type="dataframe")
    data, names = data.loc[X.index], X.columns
    X, y = X.to_numpy(), y.iloc[:, 0].to_numpy()
    _, family, draw = MODELS[model]
    everyone = sm.GLM(y, X, family=family).fit()
    if simulated:
        y = draw(np.random.default_rng(5), everyone.fittedvalues) * 1.0
        data["answer"], everyone = y, sm.GLM(y, X, family=family).fit(start_params=everyone.params)
    truth, n, found = everyone.params, min(len(data), MOST), []
    for seed in range(sets):
        rows = np.random.default_rng([seed, len(data)]).integers(len(data), size=n)
        fit = getattr(dpstats, model)(formula, data.iloc[rows], eps=1, seed=seed)
        plain = sm.GLM(y[rows], X[rows], family=family).fit(cov_type="HC0", start_params=truth)
        given, bse = fit.determined.to_numpy(), fit.bse.to_numpy()
        held = given & (np.abs(fit.params.to_numpy() - truth) < 1.96 * bse)
        found.append([given, held, np.abs(plain.params - truth) < 1.96 * plain.bse, bse / plain.bse])
    given, held, plain, ratio = np.array(found).swapaxes(0, 1)
    often = given.mean(axis=0) >= 0.5
    shares = np.where(often, held.sum(axis=0) / np.maximum(given.sum(axis=0), 1), np.inf)
    least = int(shares.argmin())
    return {
        "model": model, "table": name, "simulated": simulated, "rows": n, "columns": len(truth) - 1,
        "sets": sets, "determined": given.mean(), "held": held.sum() / given.sum(), "least": shares[least],
        "of": names[least], "plain": plain[:, least].mean(), "ratio": np.nanmedian(ratio),
    }  # fmt: skip


def main(folder, sets, label, models):
    warnings.simplefilter("ignore")
    rows = []
    for model in models:
        for simulated in (False, True):
            for table in MODELS[model][0]:
                rows.append({"code": label} | study(model, *table, folder, sets, simulated))
                print(*rows[-1].values(), flush=True)
    found = pd.DataFrame(rows).round(3)
    kept = []
    if PATH.exists():
        old = pd.read_csv(PATH)
        kept = [old[(old["code"] != label) | ~old["model"].isin(models)]]
    pd.concat([*kept, found]).to_csv(PATH, index=False)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        int(sys.argv[2]) if len(sys.argv) > 2 else 40,
        sys.argv[3] if len(sys.argv) > 3 else "now",
        sys.argv[4:5] or list(MODELS),
    )
