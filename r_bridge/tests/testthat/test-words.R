# What R says without Python is what Python says.

python <- function(code) reticulate::py_eval(code)

test_that("refusals give Python's reasons", {
  skip_without_python()
  reticulate::py_run_string("from dpstats.results.withheld import WITHHELD")
  reason <- function(name) python(paste0("WITHHELD['", name, "']"))
  expect_identical(each_row, reason("resid"))
  expect_identical(from_rows, reason("llf"))
  expect_identical(no_data, reason("data"))
  expect_identical(no_sigma, reason("sigma"))
})

test_that("guarantees are promised in the same sentences", {
  skip_without_python()
  reticulate::py_run_string("
from dpstats.privacy.guarantee import KINDS, NEIGHBOURS, Guarantee
from dpstats.results.table import promise

guarantees = [Guarantee(1.5, d, n, k, gamma=g, seeded=s, scope=t)
              for d in (0, 1e-6) for n in NEIGHBOURS for k in KINDS for g in (None, 0.05) for s in (False, True)
              for t in (None, 'Some groups.')]
facts = [g.to_dict() for g in guarantees]
sentences = [list(promise(g)) for g in guarantees]
")
  facts <- python("facts")
  sentences <- python("sentences")
  expect_gt(length(facts), 40)
  for (i in seq_along(facts)) expect_identical(promise(facts[[i]]), as.character(sentences[[i]]))
})

test_that("budgets are divided in the same shares, said in the same sentences", {
  skip_without_python()
  reticulate::py_run_string("
from dpstats.privacy.guarantee import KINDS, NEIGHBOURS, Guarantee, Spend
from dpstats.results.spends import division, spends_table

def of(eps, *steps):
    return Guarantee(eps, 1e-6, NEIGHBOURS[0], KINDS[1], tuple(Spend('a', 'noise', *step) for step in steps))

budgets = [
    of(1, (0.7, 1e-6, 0.3), (0.7, 1e-6, 0.3), (0.8, 1e-6, 0.4)),
    of(1, (0.1,), (0.9, 1e-6)),
    of(1.2, (0.6, 0, None, 0.045), (0.8, 0, None, 0.08)),
    of(1, (0.2, 5e-7, 0.3), (0.2, 5e-7, 0.4), (0.8, 5e-7)),
    of(0, (0.0,), (0.0,)),
]
divided = [division(b) for b in budgets]
facts = [b.to_dict() for b in budgets]
printed = [[row[2] for row in spends_table(b).rows] for b in budgets]
")
  facts <- python("facts")
  for (i in seq_along(facts)) {
    guarantee <- as_guarantee(facts[[i]])
    ours <- division(guarantee)
    theirs <- python("divided")[[i]]
    shares <- as.double(unlist(theirs[[1]]))
    if (anyNA(shares)) shares <- rep(NA_real_, length(shares))
    expect_equal(guarantee$spends$share, shares)
    expect_identical(list(ours$units, ours$words), list(as.character(unlist(theirs[[2]])), theirs[[3]]))
    shown <- capture.output(print_spends(guarantee))
    for (share in setdiff(unlist(python("printed")[[i]]), "")) expect_match(shown, share, fixed = TRUE, all = FALSE)
  }
  reticulate::py_run_string("from dpstats.results.table import legend")
  for (columns in 1:2) {
    expect_identical(sub("NA", "n.d.", legend(columns)), unlist(python("legend")(rep(list(FALSE), columns))))
  }
})

test_that("what intervals cover is said in the same sentences", {
  skip_without_python()
  reticulate::py_run_string("
from types import SimpleNamespace
from dpstats.results.table import PRIVACY, SAMPLING_AND_PRIVACY, _coverage

def coverage(covers, cov, alpha):
    return _coverage(SimpleNamespace(covers=covers, cov=cov), alpha)
")
  expect_identical(covers_both, python("SAMPLING_AND_PRIVACY"))
  expect_identical(covers_noise, python("PRIVACY"))
  for (covers in c(covers_both, covers_noise, "There is no interval.")) {
    for (cov in list(NULL, 1)) {
      ours <- coverage_sentence(list(covers = covers, vcov = cov), 0.9)
      expect_identical(ours, reticulate::py$coverage(covers, cov, 0.1))
    }
  }
})

test_that("what was released is all printed", {
  skip_without_python()
  names <- python("sorted(__import__('dpstats.results.table').results.table.RELEASED)")
  for (name in names) {
    shown <- capture.output(print_released(stats::setNames(list(3), name), 4))
    expect_match(paste(shown, collapse = ""), "3", info = name)
  }
  own <- python("__import__('dpstats.results.table').results.table._OF_METHODS")
  expect_identical(lapply(own, function(names) names[["sigma"]]), as.list(scale_of))
})

test_that("a choice is qualified in the same words", {
  skip_without_python()
  reticulate::py_run_string("
import dpstats, numpy as np

def paragraphs():
    data = {'x': np.arange(500.0), 'z': np.arange(500.0) % 7, 'y': np.arange(500.0)}
    return list(dpstats.select_features('y ~ x + z', data, k=1, eps=5, seed=1).summary().paragraphs)
")
  expect_true(about_choice %in% unlist(reticulate::py$paragraphs()))
})

test_that("formulas are written in Python's words", {
  skip_without_python()
  functions <- python("sorted(__import__('dpstats.formula.grammar').formula.grammar.FUNCTIONS)")
  expect_length(setdiff(row_functions, functions), 0)
  expect_setequal(python_words, python("__import__('keyword').kwlist"))
})

test_that("guarantees and ledgers have Python's columns", {
  skip_without_python()
  spend <- python("list(__import__('dpstats').privacy.guarantee.Spend.__dataclass_fields__)")
  guarantee <- list(spends = list(stats::setNames(list("step", "how", 1, 2, 3, 4), spend)))
  expect_identical(names(as_guarantee(guarantee)$spends), c(spend, "share"))
  columns <- python("list(__import__('dpstats.privacy.statement').privacy.statement.COLUMNS)")
  expect_identical(names(as.data.frame(dp_ledger(":memory:", eps = 1, delta = 0))), columns)
})
