"""What estimators of linear predictors share: budget, preparation, losses, score rounds, standard errors."""
