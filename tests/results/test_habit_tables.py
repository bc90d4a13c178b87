"""Every row of the tables of docs/habits.md is tried, and each says what it says."""

import copy
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.results import adapters

ROOT = Path(dpstats.__file__).parents[1]
PAGE = ROOT / "docs" / "habits.md"
pytestmark = pytest.mark.skipif(
    not PAGE.is_file(), reason="the documentation is not installed with the package"
)


def rows(heading):
    """What the first column of a table says, to what the second does."""
    if not PAGE.is_file():
        return {}
    part = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [
        re.split(r"(?<!\\) \| ", line.strip("| \n")) for line in part.splitlines() if line.startswith("| `")
    ]
    return {habit.replace("\\|", "|"): here for habit, here in lines}


def table(n=5_000, seed=0):
    rng = np.random.default_rng(seed)
    x1, x2 = rng.standard_normal((2, n))
    y = 1 + x1 - x2 + rng.standard_normal(n)
    return pd.DataFrame({"x1": x1, "x2": x2, "y": y, "k": (y > 1) * 1, "g": np.arange(n) // 5})


@pytest.fixture(scope="module")
def fit():
    return dpstats.ols("y ~ x1 + x2", table(), eps=5, seed=1)


@pytest.fixture(scope="module")
def odds():
    return dpstats.logit("k ~ x1 + x2", table(), eps=5, seed=1)


class Refused(Exception):
    pass


def refused(*calls, kind=(dpstats.NotReleased, dpstats.ParameterError, dpstats.FormulaError, TypeError)):
    for call in calls:
        with pytest.raises(kind) as caught:
            call()
        assert str(caught.value) and len(str(caught.value)) < 300
    raise Refused


def call(**arguments):
    return lambda: dpstats.ols("y ~ x1", table(50), eps=1, **arguments)


# -- statsmodels: the first words of a row, and what is tried -----------------------------------------

STATSMODELS = {}


def habit(first):
    def listed(tried):
        STATSMODELS[first] = tried
        return tried

    return listed


@habit("`params`")
def params(fit, odds, folder):
    assert fit.params["x1"] == fit.params.x1 and fit.conf_int(0.1, ["x1"]).shape == (1, 2)
    assert len(fit.bse) == len(fit.tvalues) == len(fit.pvalues) == 3


@habit("`cov_params(r_matrix=, column=)`")
def cov_params(fit, odds, folder):
    assert fit.cov_params(r_matrix=np.eye(3)[1:]).shape == (2, 2) and fit.cov_params(column=["x1"]).size == 1


@habit('`pd.DataFrame({"b": fit.params, "se": fit.bse})`')
def frame(fit, odds, folder):
    assert pd.DataFrame({"b": fit.params, "se": fit.bse}).shape == (3, 2)


@habit("`pd.DataFrame(fit)`")
def frame_of_a_result(fit, odds, folder):
    refused(lambda: pd.DataFrame(fit), kind=ValueError)


@habit("`summary()`")
def summary(fit, odds, folder):
    for text in (fit.summary(), fit.summary2()):
        assert all("x1" in part for part in (text.as_text(), text.as_html(), text.as_latex(), text.as_csv()))


@habit("`summary().tables[1]`")
def tables(fit, odds, folder):
    assert "<td>" in fit.summary().tables[1].as_html() and "y ~ x1" in fit.summary().tables[0].as_text()


@habit("`summary(yname=, xname=, title=)`")
def summary_arguments(fit, odds, folder):
    refused(
        *[
            lambda a=a: fit.summary(**a)
            for a in ({"yname": "Y"}, {"xname": []}, {"title": "T"}, {"slim": True})
        ]
    )


@habit('`t_test("x1 - x2 = 0")`')
def hypotheses(fit, odds, folder):
    assert np.isfinite(fit.t_test("x1 - x2 = 0").pvalue) and fit.f_test() and fit.wald_test_terms()
    for hypothesis in ("x1 = x2 = 0", (np.eye(3)[1:], [0, 0])):
        assert float(fit.wald_test(hypothesis, scalar=True).pvalue) < 1e-6


@habit('`t_test_pairwise("g")`')
def pairwise(fit, odds, folder):
    refused(lambda: fit.t_test_pairwise("x1"))


@habit("`statsmodels.stats.multitest.multipletests(fit.pvalues)`")
def multiple(fit, odds, folder):
    from statsmodels.stats.multitest import multipletests

    assert len(multipletests(fit.pvalues)[1]) == 3


@habit("`anova_lm(fit)`")
def anova(fit, odds, folder):
    from statsmodels.stats.anova import anova_lm

    assert len(dpstats.anova(fit).table) == 2
    refused(lambda: anova_lm(fit), lambda: anova_lm(fit, typ=2), lambda: anova_lm(fit, fit))


@habit("`predict(new)`")
def predictions(fit, odds, folder):
    assert len(fit.predict(table(3))) == 3
    assert fit.get_prediction(table(3)).summary_frame(alpha=0.1).shape[1] == 6


@habit("`predict()`")
def no_rows(fit, odds, folder):
    refused(fit.predict, fit.get_prediction, odds.predict, odds.get_prediction)


@habit("`rsquared`")
def numbers(fit, odds, folder):
    names = "rsquared rsquared_adj scale nobs df_model df_resid fvalue f_pvalue".split()
    assert np.isfinite([getattr(fit, name) for name in names]).all()


@habit("`cov_type`")
def names(fit, odds, folder):
    assert (fit.cov_type, fit.use_t, fit.k_constant, fit.model.formula) == ("robust", False, 1, "y ~ x1 + x2")
    assert (fit.model.endog_names, fit.model.exog_names) == ("y", ["Intercept", "x1", "x2"])


@habit("`save(path)`")
def saved(fit, odds, folder):
    fit.save(folder / "fit")
    assert fit == dpstats.load(folder / "fit") == pickle.loads(pickle.dumps(fit)) == copy.deepcopy(fit)


@habit("`statsmodels.api.load(path)`")
def their_load(fit, odds, folder):
    import statsmodels.api as sm

    fit.save(folder / "fit")
    refused(lambda: sm.load(folder / "fit"), kind=pickle.UnpicklingError)


@habit("`remove_data()`")
def no_data(fit, odds, folder):
    assert fit.remove_data() is None


@habit("`statsmodels.iolib.summary2.summary_col([fits])`")
def columns(fit, odds, folder):
    from statsmodels.iolib.summary2 import summary_col

    assert "x1" in str(summary_col([fit, odds]))


@habit("`stargazer.Stargazer([fits])`")
def stargazer(fit, odds, folder):
    tables = pytest.importorskip("stargazer.stargazer")
    adapters.stargazer()
    assert "x1" in tables.Stargazer([fit]).render_html()


@habit("`marginaleffects.avg_slopes(fit)`")
def marginaleffects(fit, odds, folder):
    """tests/results/test_adapters.py has more."""
    pytest.importorskip("marginaleffects")
    try:
        assert adapters.marginaleffects(fit, table(10))
    except ImportError as error:
        pytest.skip(str(error))


@habit("`logit(...).get_margeff()`")
def margeff(fit, odds, folder):
    assert len(odds.marginal_effects()) == 2
    refused(lambda: odds.get_margeff())


@habit("`resid`")
def of_rows(fit, odds, folder):
    names = ("resid", "fittedvalues", "get_influence")
    refused(
        *[lambda name=name: getattr(fit, name) for name in names],
        lambda: fit.model.endog,
        lambda: fit.model.exog,
    )


@habit("`het_breuschpagan(fit.resid, fit.model.exog)`")
def diagnostics(fit, odds, folder):
    import statsmodels.stats.api as sms

    assert fit.het_test().pvalue >= 0
    refused(
        lambda: sms.het_breuschpagan(fit.resid, fit.model.exog), lambda: sms.jarque_bera(fit.resid),
        lambda: sms.durbin_watson(fit.resid), lambda: sms.linear_reset(fit),
    )  # fmt: skip


@habit("`sm.graphics.plot_ccpr`")
def graphics(fit, odds, folder):
    pytest.importorskip("matplotlib").use("Agg")
    import statsmodels.api as sm

    drawn = sm.graphics
    refused(
        lambda: drawn.plot_ccpr(fit, "x1"), lambda: drawn.plot_fit(fit, "x1"),
        lambda: drawn.influence_plot(fit),
        lambda: drawn.plot_regress_exog(fit, "x1"), lambda: drawn.plot_partregress_grid(fit),
    )  # fmt: skip


@habit("`variance_inflation_factor(fit.model.exog, 1)`")
def inflation(fit, odds, folder):
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    refused(lambda: variance_inflation_factor(fit.model.exog, 1))


@habit("`llf`")
def likelihoods(fit, odds, folder):
    refused(*[lambda n=n: getattr(fit, n) for n in "llf aic bic compare_f_test compare_lr_test".split()])


@habit("`get_robustcov_results()`")
def covariances(fit, odds, folder):
    refused(lambda: fit.get_robustcov_results(), lambda: fit.HC1_se)


@habit('`cov_type="HC1"`')
def another_sandwich(fit, odds, folder):
    refused(call(cov_type="HC1"))


@habit('`cov_type="cluster", cov_kwds={"groups": g}`')
def clusters(fit, odds, folder):
    refused(call(cov_type="cluster"), call(cov_kwds={"groups": [1]}))


@habit("`smf.ols(...).fit()`")
def fitted(fit, odds, folder):
    refused(lambda: fit.fit(), lambda: fit.model.fit())


@habit("`sm.OLS(y, X)`")
def arrays(fit, odds, folder):
    refused(lambda: dpstats.ols(table()["y"], table()[["x1"]], eps=1))


@habit('`smf.wls(formula, data, weights=data["w"])`')
def weighted(fit, odds, folder):
    found = dpstats.ols("y ~ x1 + x2", table().assign(w=2.0), eps=5, weights="w", seed=1)
    assert found.method == "Private weighted least squares"


@habit('`weights=data["w"]`')
def unsupported(fit, odds, folder):
    refused(call(weights=table(50)["x1"]), call(subset=[1]), call(freq_weights=[1]))


@habit("`fit.test`")
def attributes(fit, odds, folder):
    refused(lambda: fit.test, lambda: fit.foo, kind=AttributeError)


@habit("`fit.foo = 1`")
def fixed(fit, odds, folder):
    refused(lambda: setattr(fit, "foo", 1), kind=AttributeError)


def first_of(row):
    return re.match("`[^`]*`", row)[0]


@pytest.mark.parametrize("row", rows("statsmodels"))
def test_statsmodels(row, fit, odds, tmp_path):
    says = rows("statsmodels")[row]
    assert first_of(row) in STATSMODELS, "a row without a test"
    assert says.startswith(("works", "refused"))
    if says.startswith("refused"):
        with pytest.raises(Refused):
            STATSMODELS[first_of(row)](fit, odds, tmp_path)
    else:
        STATSMODELS[first_of(row)](fit, odds, tmp_path)


def test_every_test_of_statsmodels_has_its_row():
    assert sorted(map(first_of, rows("statsmodels"))) == sorted(STATSMODELS)


# -- R: the first words of a row, and lines that work or are refused ----------------------------------

TABLE = """
set.seed(1)
n <- 4000
data <- data.frame(x = rnorm(n), z = rnorm(n), id = rep(1:1000, each = 4))
data$y <- 1 + data$x - data$z + rnorm(n)
data$k <- as.integer(data$y > 1)
data$g <- factor(rep(c("a", "b"), n / 2))
fit <- dp_ols(y ~ x + z, data, eps = 5, seed = 1)
odds <- dp_glm(k ~ x + z, data, family = binomial(), eps = 5, seed = 1)
fit_of_x <- dp_ols(y ~ x, data, eps = 5, seed = 1)
column <- function(x) dp_ols(y ~ x, list(x = x, y = data$y), eps = 5, seed = 1)
"""
# lines that start with ! are refused; `package::` is skipped where the package is not installed
R = {
    "`summary()`": (
        "summary(fit)", "coef(fit)", "confint(fit)", "vcov(fit)", "print(fit)", "plot(fit)",
    ),
    "`predict(newdata, se.fit =, interval =)`": (
        "predict(fit, data[1:2, ], se.fit = TRUE, interval = 'confidence')",
        "predict(odds, data[1:2, ], type = 'response')",
    ),
    "`anova(fit)`": ("anova(fit)",),
    "`drop1(fit, test = \"Wald\")`": (
        "drop1(fit, test = 'Wald')", "!drop1(fit, test = 'Chisq')", "!drop1(fit, test = 'F')",
        "!add1(fit, ~ . + x:z)", "!step(fit)",
    ),
    "`update(fit, . ~ . + x, eps = 1)`": (
        "stopifnot(length(coef(update(fit, . ~ . - z, eps = 5))) == 2)", "update(fit, evaluate = FALSE)",
    ),
    "`terms()`": (
        "terms(fit)", "formula(fit)", "labels(fit)", "variable.names(fit)", "family(odds)",
        "df.residual(fit)",
    ),
    "`nobs()`": ("stopifnot(nobs(fit) > 0)",),
    "`emmeans::emmeans()`": (
        "emmeans::emmeans(fit, ~ x, at = list(x = 0:1))", "emmeans::ref_grid(fit)",
        "emmeans::joint_tests(fit)", "emmeans::emmeans(dp_ols(y ~ C(g, contr.sum), data, eps = 5), 'g')",
        "emmeans::contrast(emmeans::emmeans(fit, ~ x, at = list(x = 0:1)), 'pairwise')",
    ),
    '`emmeans::emtrends(fit, ~ g, "x", delta.var = 0.01)`': (
        "emmeans::emtrends(fit, ~ 1, 'x', delta.var = 0.01)", "!emmeans::emtrends(fit, ~ 1, 'x')",
    ),
    "`broom::tidy(exponentiate =)`": (
        "broom::tidy(odds, exponentiate = TRUE)", "broom::glance(fit)", "augment(fit, newdata = data[1:2, ])",
    ),
    "`parameters::model_parameters()`": (
        "parameters::model_parameters(fit)", "insight::find_formula(fit)", "insight::get_parameters(fit)",
        "insight::get_statistic(fit)", "insight::get_varcov(fit)",
    ),
    # what modelsummary asks of a fit; it is not in Debian
    "`modelsummary::modelsummary()`": (
        "modelsummary::modelsummary(list(fit, odds), output = 'markdown')",
        "got <- lapply(list(fit, odds), generics::tidy, conf.int = TRUE, conf.level = 0.9)",
        "wanted <- c('term', 'estimate', 'std.error', 'statistic', 'p.value', 'conf.low', 'conf.high')",
        "stopifnot(all(wanted %in% names(got[[1]])), nrow(got[[2]]) == 3)",
        "stopifnot(all(c('nobs', 'r.squared') %in% names(generics::glance(fit))))",
    ),
    "`insight::get_data()`": ("!insight::get_data(fit)", "predict(fit, data[1:2, ])"),
    # the last two lines: what ggeffects does first, by the generic of insight or without it
    "`ggeffects::ggpredict()`": (
        "!ggeffects::ggpredict(fit, 'x')", "!ggeffects::ggemmeans(fit, 'x')",
        "!model.frame(fit)", "stopifnot(is.null(fit$data), is.null(fit$model))",
    ),
    "`dp_glm(y ~ x, data, eps = 1)`": ("!dp_glm(k ~ x, data, eps = 5)",),
    "`by =`": (
        "groups <- dp_median(y ~ 1, data, eps = 5, by = 'g')", "length(groups)", "names(groups)", "groups[1]",
        "groups[[1]]", "for (one in groups) coef(one)", "lapply(groups, coef)", "as.list(groups)",
        "coef(groups)", "confint(groups)", "nobs(groups)",
    ),
    "`anova(fits)`": (
        "!anova(groups)", "!sigma(groups)", "!car::linearHypothesis(groups, 'x = 0')",
        "!lmtest::coeftest(groups)", "!multcomp::glht(groups, 'x = 0')", "!residuals(groups)",
        "!AIC(groups)", "lapply(groups, nobs)",
        "summary(dp_glm(k ~ x, data, binomial(), eps = 5, by = 'g'), exponentiate = TRUE)",
    ),
    "`sigma()`": ("sigma(fit)", "saveRDS(fit, tempfile())"),
    "`fit$coefficients`": (
        "stopifnot(fit$coefficients['x'] > 0, nrow(summary(fit)$coefficients) == 3)",
    ),
    "`lmtest::coeftest()`": ("lmtest::coeftest(fit)", "lmtest::coefci(fit)"),
    "`car::linearHypothesis()`": (
        "car::linearHypothesis(fit, c('x = 2', 'z = -1'))", "car::deltaMethod(fit, 'x / z')",
    ),
    '`multcomp::glht(fit, "x - z = 0")`': ("summary(multcomp::glht(fit, c('x - z = 0', 'x = 0')))",),
    "`sandwich::vcovHC()`": (
        "!sandwich::vcovHC(fit)", "!sandwich::vcovCL(fit, cluster = ~id)", "!sandwich::NeweyWest(fit)",
    ),
    "`lmtest::bptest()`": (
        "dp_het_test(fit)", "!lmtest::bptest(fit)", "!lmtest::dwtest(fit)",
        "!car::vif(fit)", "!car::avPlots(fit)",
    ),
    "`stargazer::stargazer()`": (
        "dp_marginal_effects(odds)", "!stargazer::stargazer(fit)", "!texreg::screenreg(fit)",
        "!margins::margins(fit)",
    ),
    "`lm(y ~ x, d, weights = w)`": (
        "w <- transform(data, w = 2); weighted <- dp_ols(y ~ x, w, eps = 5, weights = w)",
        "stopifnot(weighted$method == 'Private weighted least squares')",
    ),
    "`subset =`": (
        "!dp_ols(y ~ x, data, eps = 1, weights = data$z)", "!dp_ols(y ~ x, data, eps = 1, subset = x > 0)",
        "!dp_ols(y ~ x, data, eps = 1, na.action = na.omit)",
        "!dp_ols(y ~ x, data, eps = 1, offset = data$z)",
        "!dp_ols(y ~ x, data, eps = 1, vcov = 'hetero')", "!dp_ols(y ~ x, data, eps = 1, cluster = ~id)",
    ),
    "`anova(fit1, fit2)`": ("!anova(fit, fit)",),
    "`model.frame()`": ("!model.frame(fit)", "!model.matrix(fit)", "!case.names(fit)", "!deviance(fit)"),
    "`contrasts(d$f) <- contr.sum`": (
        "sums <- data; contrasts(sums$g) <- contr.sum(nlevels(sums$g))", "!dp_ols(y ~ g, sums, eps = 5)",
    ),
    "`epsilon =`": (
        "!dp_ols(y ~ x, data, eps = 1, epsilon = 2)", "!confint(fit, method = 'profile')",
        "!vcov(fit, type = 'HC3')",
    ),
    "`scale()`": (
        "stopifnot(any(grepl('scale()', column(scale(data$x))$notes, fixed = TRUE)))",
        "stopifnot(all.equal(coef(column(scale(data$x))), coef(column(as.vector(scale(data$x))))))",
    ),
    "`labelled`": tuple(
        f"stopifnot(all.equal(coef(column({one})), coef(fit_of_x), tolerance = 1e-6))"
        for one in (
            "structure(data$x, class = c('haven_labelled', 'vctrs_vctr', 'double'), labels = c(none = 0))",
            "structure(data$x, class = c('labelled', 'numeric'), label = 'X')",
            "structure(data$x, class = 'units', units = list(numerator = 'm', denominator = character()))",
            "ts(data$x, start = 1990)", "I(data$x)", "haven::labelled(data$x, label = 'X')",
            "units::set_units(data$x, 'm')",
        )
    ),
    "`Date`": (
        "stopifnot(any(grepl('in days since', column(as.Date('2020-01-01') + round(9 * data$x))$notes)))",
        "stopifnot(any(grepl('in days', column(as.POSIXct('2020-01-01') + data$x)$notes)))",
        "stopifnot(any(grepl('in days', column(as.difftime(data$x, units = 'hours'))$notes)))",
    ),
    "`POSIXlt`": (
        "!column(as.POSIXlt(as.POSIXct('2020-01-01') + data$x))",
        "!column(structure(data$x, class = 'yearmon'))",
        "!column(as.complex(data$x))", "!column(as.list(data$x))", "!column(cbind(data$x, data$z))",
        "!column(structure(data$x, class = 'Period'))",
    ),
    '`dplyr::tbl(con, "d")`': (
        "!dp_ols(y ~ x, structure(list(src = 1), class = c('tbl_dbi', 'tbl_sql', 'tbl_lazy')), eps = 1)",
    ),
    "`poly(x, 2, raw = TRUE)`": ("dp_ols(y ~ poly(x, 2, raw = TRUE), data, eps = 5)",),
    "`poly(x, 2)`": tuple(
        f"!dp_ols(y ~ {term}, data, eps = 5)" for term in ("poly(x, 2)", "scale(x)", "ns(x, 3)", "cut(x, 3)")
    ),
    "`inf`": (
        "for (name in c('inf', 'nan', 'Intercept', 'NA', 'a b')) stopifnot(identical(unname(coef("
        "dp_ols(reformulate(sprintf('`%s`', name), 'y'), setNames(data[c('x', 'y')], c(name, 'y')), eps = 5, "
        "seed = 1))), unname(coef(fit_of_x))))",
    ),
    "`residuals()`": (
        "!residuals(fit)", "!fitted(fit)", "!hatvalues(fit)", "!AIC(fit)", "!logLik(fit)",
        "diagnose(fit, data, eps = 1)",
    ),
    "`feols(y ~ x, cluster = ~id)`": ("dp_ols(y ~ x, data, eps = 5, unit = 'id')",),
    "`feols(y ~ x | id)`": ("dp_ols(y ~ x, data, eps = 5, unit = 'id', effects = 'unit')",),
}  # fmt: skip
HEADING = "R: lm, glm, fixest"


def test_every_row_of_r_has_its_test():
    assert sorted(map(first_of, rows(HEADING))) == sorted(R)
    assert all(says.startswith(("works", "refused")) for says in rows(HEADING).values())


@pytest.mark.slow
@pytest.mark.r("reticulate", "generics", "broom")
def test_r(tmp_path, r_library):
    lines = ["library(dpstats)", "pdf(NULL)", TABLE, """try_line <- function(line, refused, package) {
  if (package != "" && !requireNamespace(package, quietly = TRUE)) return(invisible())
  outcome <- tryCatch({ capture.output(force(print(eval(parse(text = line), globalenv())))); "" },
                      error = function(e) paste("error:", conditionMessage(e)))
  right <- if (refused) nchar(outcome) > 8 else outcome == ""
  if (!right) cat("WRONG", line, outcome, "\\n") else cat("RIGHT\\n")
}"""]  # fmt: skip
    for tried in R.values():
        for line in tried:
            package = re.match(r"!?\(?(\w+)::|.*\((\w+)::", line)
            name = next(filter(None, package.groups()), "") if package else ""
            refusal = str(line.startswith("!")).upper()
            lines.append(f'try_line("{line.lstrip("!")}", {refusal}, "{name}")')
    (tmp_path / "script.R").write_text("\n".join(lines))
    environment = {"R_LIBS": str(r_library), "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["Rscript", "--vanilla", "script.R"], cwd=tmp_path, capture_output=True,
                          text=True, timeout=300, env=os.environ | environment)  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WRONG" not in done.stdout and done.stdout.count("RIGHT") > 25, done.stdout
