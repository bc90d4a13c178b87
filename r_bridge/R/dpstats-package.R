#' dpstats: differentially private location and regression
#'
#' A formula in, a classical results table out, no data bounds to guess, and a guarantee that can be checked.
#'
#' Start with [dp_ols()] for regression, [dp_logit()] and [dp_poisson()] for 0/1 responses and counts, and [dp_median()] for a
#' location. [dp_describe()] is a first look at a table, [dp_plan()] tells what a budget will buy, and [diagnose()] what a fit
#' misses. [dp_formula] says what a formula can contain,
#' [dp_ledger()] keeps the total of a data set, and [dp_available()] says which Python is used.
#'
#' @importFrom stats anova coef confint deviance df.residual extractAIC fitted formula logLik model.frame model.matrix
#' @importFrom stats nobs predict residuals vcov weights
#' @keywords internal
"_PACKAGE"

#' Formulas for private fits
#'
#' Formulas are those of [lm()], with one difference: nothing in a formula may look at more than one row of the data.
#' What a formula means (which columns there are, what they are called) is settled before any row is read, from the
#' formula and from what is declared about the columns.
#'
#' @section What can be written:
#' * terms with `+`, `:`, `*`, `^`, `/`, `%in%`, `-`, as in [formula()]; `- 1` or `+ 0` for no constant; `.` for all other
#'   columns; `` `two words` `` for a column whose name is no R name;
#' * arithmetic within `I()`: `+ - * / ^ %% %/%`, comparisons, `&`, `|`, `!`;
#' * functions of a row: `log` (also with a base), `log2`, `log10`, `log1p`, `exp`, `expm1`, `sqrt`, `abs`, `sign`,
#'   `floor`, `ceiling`, `trunc`, `round`, `sin`, `cos`, `tan`, `asin`, `acos`, `atan`, `sinh`, `cosh`, `tanh`, `pmin`,
#'   `pmax`, `ifelse`, `as.numeric`;
#' * `poly(x, 2, raw = TRUE)`, one term of the powers of `x`;
#' * `factor(x, levels = c(...))`, `relevel(x, ref = "a")`, and `C(x, contr.sum)`, also `contr.helmert`, `contr.poly` and
#'   `contr.treatment`;
#' * `cut(x, c(0, 18, 65, Inf))`, also with `labels`, `right`, `include.lowest` and `dig.lab`. A row outside of all intervals
#'   is not used;
#' * `bs(x, knots = c(...), Boundary.knots = c(lower, upper))`, also with `degree` and `intercept`. The boundary knots may
#'   also come from `bounds`. Values outside are moved to the nearer one;
#' * on the left-hand side a number, `cbind(y1, y2) ~ 1` for the location of several columns, and for [dp_logit()] a factor with
#'   two levels, also `factor(y, levels = c("no", "yes"))`, of which the second is the event;
#' * `offset(log(years))` in [dp_poisson()] alone.
#'
#' @section What cannot:
#' Anything that would learn from other rows: orthogonal `poly()`, `scale()`, `ns()`, `bs(x, df = 4)`, `cut(x, 3)`, `mean(x)`. The
#' estimators centre and scale the columns themselves, and pay for it. Variables
#' are columns of `data`; the environment of the formula is not looked at, and not kept.
#'
#' @section Factors:
#' The levels of a factor are taken as public, also those that do not occur. A character column is refused until its
#' levels are declared: with `levels = list(x = c(...))` in the call, with `factor(x, levels = c(...))` in the formula, or
#' as a factor. (To make a factor of a column by `factor()` takes the levels from the data; give `levels` where the set of
#' values that occur is private.)
#' A row with an undeclared value is not used.
#'
#' Ordered factors get treatment contrasts like all others, as in Python, and not the polynomials that [lm()] uses:
#' `C(x, contr.poly)` asks for these. `options("contrasts")` is ignored. Redundant columns are left out as in the
#' Python package: `~ a:b` alone has no column that [lm()] would give an `NA`. A factor whose margin is missing, as in `y ~ 0 + x` or
#' `y ~ x:z`, has a column for each level, as in [lm()]; but with sum, Helmert or polynomial contrasts it has their columns and one of
#' ones before them, whose coefficient is the mean over the levels: `C(x, contr.sum)mean`, `C(x, contr.sum)1` and so on.
#'
#' @section Types of columns:
#' What a column is follows from its type alone, never from a value.
#' * Logical columns are factors with the levels `FALSE` and `TRUE`, and in arithmetic 0 and 1. Integers are numbers, those
#'   of \pkg{bit64} too.
#' * `Date` and `POSIXct` are the number of days since 1970-01-01 (UTC), `difftime` the number of days, and a note of the fit says so.
#'   Bounds may be dates.
#' * Labelled columns (`haven_labelled`, and `labelled` of \pkg{Hmisc}), columns with \pkg{units} and `ts` are the numbers, texts
#'   or factors beneath. What `haven_labelled_spss` declares to be missing is missing.
#' * A matrix of one column, as [scale()] makes it, is a number. A note says that the guarantee does not cover that step, if its
#'   centre and scale come from the rows. A matrix of several columns is refused: bounds and levels are declared by column.
#'
#' @section Missing values:
#' A row is left out, and nothing says so, if a column that the formula names is `NA` (of any type), `NaN` or infinite in
#' it, or if something computed from it is.
#' @name dp_formula
#' @aliases dpstats-formula
#' @examplesIf dp_available() && requireNamespace("ggplot2", quietly = TRUE)
#' diamonds <- ggplot2::diamonds
#' dp_ols(log(price) ~ log(carat) * cut, diamonds, eps = 2)
#' try(dp_ols(price ~ poly(carat, 2), diamonds, eps = 1))
NULL
