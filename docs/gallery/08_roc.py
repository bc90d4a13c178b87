"""ROC curve and calibration of a logistic regression

Private counts of both classes by bins of the predicted probability give the
ROC curve with its area, and show whether predicted probabilities are met.
"""

import dpstats

diamonds = dpstats.datasets.load_diamonds()
diamonds["ideal"] = (diamonds["cut"] == "Ideal").astype(int)
fit = dpstats.logit("ideal ~ table + depth + carat", diamonds, eps=1, seed=1)
found = fit.diagnose(diamonds, eps=1, seed=2)
print(found)

found.plot()
