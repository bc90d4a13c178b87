"""Look-alikes of the eight data sets, from figures of the sort that a data dictionary or a paper prints.

The figures were computed from the files of the study, and rounded; nothing else of the files is used.

``TABLES``: of every column mean and standard deviation (of some the quantiles or the shares of values), least
and largest value, and of every pair the correlation to two decimals, the response among them. The law is the
one that this suggests: normal for what is symmetric, gamma for a standard deviation near the mean, lognormal
for a longer tail.

``ERRORS``: the same without the response, which is made from the coefficients of a regression without
privacy, its residual standard deviation, and by how much the logarithm of the size of its residuals rises
with each covariate, where that is 0.05 or more for one standard deviation (for the diamonds a half of it:
with all of it the residuals would have ten times the kurtosis). The law of the errors is one with which the
residuals have about the skewness and kurtosis of those seen.
"""

__all__ = ["ERRORS", "TABLES"]


def pairs(names, triangle):
    """Correlations by pairs, from the lower triangle of their matrix without the diagonal."""
    return {
        (names[i], names[j]): value
        for i, row in enumerate(triangle, 1)
        for j, value in enumerate(row)
        if value
    }


def described(formula, columns, *triangle):
    return {"formula": formula, "like": columns, "correlation": pairs(list(columns), triangle)}


def law(name, mean, sd, low, high):
    return name, {"mean": mean, "sd": sd, "low": low, "high": high}


def quantiles(*values):
    return "quantiles", dict(zip((0, 0.1, 0.25, 0.5, 0.75, 0.9, 1), values, strict=True))


TABLES = {
    "bike_sharing": described(
        "cnt ~ temp + hum + windspeed + hr",
        {
            "cnt": ("beta", {"mean": 189, "sd": 181, "low": 1, "high": 977}),
            "temp": ("beta", {"mean": 0.497, "sd": 0.193}),
            "hum": ("beta", {"mean": 0.627, "sd": 0.193}),
            "windspeed": law("gamma", 0.19, 0.122, 0, 0.85),
            "hr": ("integers", 0, 23),
        },
        [0.40],
        [-0.32, -0.07],
        [0.09, -0.02, -0.29],
        [0.39, 0.14, -0.28, 0.14],
    ),
    "california": described(
        "median_house_value ~ median_income + housing_median_age + latitude + longitude",
        {
            "median_house_value": law("gamma", 206_864, 115_436, 14_999, 500_001),
            "median_income": law("lognormal", 3.87, 1.9, 0.5, 15),
            "housing_median_age": ("beta", {"mean": 28.6, "sd": 12.6, "low": 1, "high": 52}),
            "latitude": quantiles(32.5, 33.6, 33.9, 34.3, 37.7, 38.5, 42.0),
            "longitude": quantiles(-124.4, -122.3, -121.8, -118.5, -118.0, -117.3, -114.3),
        },
        [0.69],
        [0.11, -0.12],
        [-0.14, -0.08, 0.01],
        [-0.05, -0.02, -0.11, -0.92],
    ),
    "diamonds": described(
        "price ~ carat + depth + table",
        {
            "price": law("gamma", 3933, 3989, 326, 18_823),
            "carat": law("gamma", 0.798, 0.474, 0.2, 5),
            "depth": ("t", {"mean": 61.7, "sd": 1.43, "df": 5}),
            "table": law("normal", 57.5, 2.23, 43, 95),
        },
        [0.92],
        [-0.01, 0.03],
        [0.13, 0.18, -0.30],
    ),
    "garbage": described(
        "REFUSETONSCOLLECTED ~ PAPERTONSCOLLECTED + MGPTONSCOLLECTED + B_Bronx + B_Manhattan",
        {
            "REFUSETONSCOLLECTED": law("gamma", 3707, 1424, 321, 9467),
            "PAPERTONSCOLLECTED": law("gamma", 420, 269, 0, 2130),
            "MGPTONSCOLLECTED": law("gamma", 347, 176, 0, 1250),
            "B_Bronx": ("bernoulli", 0.209),
            "B_Manhattan": ("bernoulli", 0.188),
        },
        [0.58],
        [0.71, 0.74],
        [-0.27, -0.39, -0.29],
        [-0.18, 0.07, -0.08, -0.25],
    ),
    "kc_house": described(
        "price ~ sqft_living + bedrooms + grade + yr_built",
        {
            "price": law("lognormal", 540_297, 367_368, 78_000, 7_700_000),
            "sqft_living": law("lognormal", 2080, 918, 370, 13_540),
            "bedrooms": {1: 0.01, 2: 0.13, 3: 0.45, 4: 0.32, 5: 0.07, 6: 0.02},
            "grade": {5: 0.01, 6: 0.1, 7: 0.41, 8: 0.28, 9: 0.12, 10: 0.05, 11: 0.02, 12: 0.01},
            "yr_built": ("beta", {"mean": 1971, "sd": 29.4, "low": 1900, "high": 2015}),
        },
        [0.70],
        [0.31, 0.58],
        [0.67, 0.76, 0.36],
        [0.05, 0.32, 0.16, 0.45],
    ),
    "nba": described(
        "PTS_home ~ FG_PCT_home + FG3_PCT_home + AST_home + REB_home",
        {
            "PTS_home": ("normal", 103, 13.2),
            "FG_PCT_home": ("normal", 0.46, 0.057),
            "FG3_PCT_home": law("normal", 0.356, 0.112, 0, 1),
            "AST_home": law("normal", 22.7, 5.18, 6, 50),
            "REB_home": ("normal", 43.3, 6.62),
        },
        [0.66],
        [0.42, 0.45],
        [0.60, 0.55, 0.35],
        [0.16, -0.19, -0.09, 0.07],
    ),
    "scorecard": described(
        "earnings_med ~ prop + year + pred_degree_awarded_ipeds",
        {
            "earnings_med": law("gamma", 33_223, 11_893, 8400, 171_900),
            "prop": law("gamma", 0.175, 0.075, 0, 0.92),
            "year": {2007: 0.15, 2009: 0.17, 2011: 0.22, 2012: 0.15, 2013: 0.15, 2014: 0.16},
            "pred_degree_awarded_ipeds": {1: 0.37, 2: 0.27, 3: 0.36},
        },
        [-0.72],
        [-0.08, 0.13],
        [0.64, -0.59, -0.02],
    ),
    "wine_quality": described(
        "quality ~ alcohol + volatile + sulphates + pH",
        {
            "quality": {3: 0.005, 4: 0.033, 5: 0.329, 6: 0.436, 7: 0.166, 8: 0.03, 9: 0.001},
            "alcohol": ("beta", {"mean": 10.5, "sd": 1.19, "low": 8, "high": 14.9}),
            "volatile": law("lognormal", 0.34, 0.165, 0.08, 1.58),
            "sulphates": law("lognormal", 0.531, 0.149, 0.22, 2),
            "pH": ("normal", 3.22, 0.161),
        },
        [0.44],
        [-0.27, -0.04],
        [0.04, 0.0, 0.23],
        [0.02, 0.12, 0.26, 0.19],
    ),
}


def with_errors(name, sigma, errors, spread, **effects):
    made = TABLES[name]
    response = made["formula"].partition(" ~ ")[0]
    return {
        "formula": made["formula"],
        "like": {column: law for column, law in made["like"].items() if column != response},
        "correlation": {pair: r for pair, r in made["correlation"].items() if response not in pair},
        "effects": effects,
        "sigma": sigma,
        "errors": errors,
        "spread": spread,
    }


ERRORS = {
    "bike_sharing": with_errors(
        "bike_sharing", 149, ("gamma", 1, 0.5), {"temp": 0.27, "hum": -0.09, "hr": 0.19},
        Intercept=69.4, temp=330, hum=-207, windspeed=-2.5, hr=7.48,
    ),
    "california": with_errors(
        "california", 73_558, ("gamma", 1, 0.6),
        {"median_income": 0.13, "housing_median_age": 0.16, "latitude": -0.11, "longitude": -0.11},
        Intercept=-3_769_960, median_income=37_892, housing_median_age=958, latitude=-44_201,
        longitude=-44_975,
    ),
    "diamonds": with_errors(
        "diamonds", 1526, "normal", {"carat": 0.3}, Intercept=13_003, carat=7859, depth=-151, table=-104,
    ),
    "garbage": with_errors(
        "garbage", 964, ("gamma", 1, 0.35), {"B_Bronx": -0.06, "B_Manhattan": 0.06},
        Intercept=1976, PAPERTONSCOLLECTED=0.62, MGPTONSCOLLECTED=4.76, B_Bronx=-325, B_Manhattan=-600,
    ),
    "kc_house": with_errors(
        "kc_house", 229_341, ("lognormal", 1, 0.6),
        {"sqft_living": 0.30, "bedrooms": -0.07, "grade": 0.15, "yr_built": -0.10},
        Intercept=6_389_296, sqft_living=208, bedrooms=-40_630, grade=137_636, yr_built=-3652,
    ),
    "nba": with_errors(
        "nba", 8.45, "normal", None,
        Intercept=6.34, FG_PCT_home=119, FG3_PCT_home=14.6, AST_home=0.661, REB_home=0.503,
    ),
    "scorecard": with_errors(
        "scorecard", 7694, ("lognormal", 1, 0.7), {"year": -0.06, "pred_degree_awarded_ipeds": 0.13},
        Intercept=52_073, prop=-83_264, year=-6.6, pred_degree_awarded_ipeds=4512,
    ),
    "wine_quality": with_errors(
        "wine_quality", 0.747, "t12", {"alcohol": 0.05, "volatile": -0.07, "pH": -0.05},
        Intercept=2.33, alcohol=0.316, volatile=-1.47, sulphates=0.578, pH=0.113,
    ),
}  # fmt: skip
