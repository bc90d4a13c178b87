"""The regression tasks of Tang et al. (2023) and of the DPKendall paper, from the sources of OpenML's tables.

The suite that they use (Grinsztajn, Oyallon and Varoquaux 2022) keeps a numeric column if it has at least ten
values and takes logarithms of skewed responses. The same is done here; the columns that result are as many
as Tang's Table 2 says, and the largest responses are those of its "True Bound", or a task is not run.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import dpstats

BENCHMARKS = Path(__file__).parents[2]
FEWEST = 10
# rows and columns after one-hot encoding, and the largest response, by Tang's Table 2
TASKS = {
    361072: ("cpu_act", 8_192, 21, 99.0), 361073: ("pol", 15_000, 26, 100.0),
    361074: ("elevators", 16_599, 16, 0.078), 361076: ("wine_quality", 6_497, 11, 9.0),
    361077: ("ailerons", 13_750, 33, 0.0036), 361078: ("houses", 20_640, 8, 13.122367),
    361079: ("house_16H", 22_784, 16, 13.122367), 361080: ("diamonds", 53_940, 6, 9.842888),
    361081: ("brazilian_houses", 10_692, 8, 13.92884), 361082: ("bike_sharing", 17_379, 6, 977.0),
    361084: ("house_sales", 21_613, 15, 15.856731), 361085: ("sulfur", 10_081, 6, 1.0),
    361087: ("miami", 13_932, 13, 14.790071), 361089: ("california", 20_640, 8, 1.791761),
    361096: ("diamonds, factors", 53_940, 26, 9.842888),
    361098: ("brazilian_houses, factors", 10_692, 17, 13.92884),
    361099: ("bike_sharing, factors", 17_379, 20, 977.0),
    361102: ("house_sales, factors", 21_613, 19, 15.856731),
}  # fmt: skip
FILES = (
    "ailerons.arff", "cal_housing.arff", "cpu_act.tsv.gz", "elevators.arff", "house_16H.tsv.gz",
    "houses_to_rent_v2.csv", "kc_house_data.csv", "miami-housing.csv", "pol.tsv.gz", "sulfur.csv",
)  # fmt: skip


def load(task, raw):
    """Columns as numbers, without a constant, and the response; refused if it is not the paper's table."""
    name, n, d, largest = TASKS[task]
    frame, y = globals()[f"_{name.partition(',')[0]}"](Path(raw), name.endswith("factors"))
    X = pd.get_dummies(frame, dtype=float).to_numpy(float)
    found = (len(y), X.shape[1], float(np.max(np.abs(y))))
    if found[:2] != (n, d) or abs(found[2] / largest - 1) > 1e-5:
        raise ValueError(f"{task} {name}: {found}, not {(n, d, largest)}")
    return X, np.asarray(y, float)


def _many(frame):
    return frame[[c for c in frame if frame[c].nunique() >= FEWEST]]


def _arff(path):
    names, rows = [], []
    for line in path.read_text(encoding="latin1").splitlines():
        word = line.strip().lower()
        if word.startswith("@attribute"):
            names.append(line.split()[1])
        elif word and word[0] not in "%@":
            rows.append(line.split(","))
    return pd.DataFrame(np.array(rows, float), columns=names)


def _last(frame):
    return _many(frame.iloc[:, :-1]), frame.iloc[:, -1]


def _cpu_act(raw, factors):
    return _last(pd.read_csv(raw / "cpu_act.tsv.gz", sep="\t"))


def _pol(raw, factors):
    return _last(pd.read_csv(raw / "pol.tsv.gz", sep="\t"))


def _elevators(raw, factors):
    return _last(_arff(raw / "elevators.arff"))


def _ailerons(raw, factors):
    return _last(_arff(raw / "ailerons.arff"))


def _wine_quality(raw, factors):
    frame = pd.read_parquet(BENCHMARKS / "data" / "wine_quality.parquet")
    return _many(frame.drop(columns="quality")), frame["quality"]


def _houses(raw, factors):
    X, y = _last(_arff(raw / "cal_housing.arff"))
    return X, np.log(y)


def _house_16H(raw, factors):  # noqa: N802
    X, y = _last(pd.read_csv(raw / "house_16H.tsv.gz", sep="\t"))
    return X, np.log1p(y)


def _sulfur(raw, factors):
    frame = pd.read_csv(raw / "sulfur.csv")
    return frame.drop(columns="y1"), frame["y1"]


def _california(raw, factors):
    frame = _arff(raw / "cal_housing.arff")
    homes = frame["households"]
    X = pd.DataFrame({
        "income": frame["medianIncome"], "age": frame["housingMedianAge"],
        "rooms": frame["totalRooms"] / homes, "bedrooms": frame["totalBedrooms"] / homes,
        "population": frame["population"], "occupancy": frame["population"] / homes,
        "latitude": frame["latitude"], "longitude": frame["longitude"],
    })  # fmt: skip
    return X, np.log1p(frame["medianHouseValue"] / 1e5)


def _diamonds(raw, factors):
    frame = dpstats.datasets.load_diamonds()
    X = frame.drop(columns="price")
    return (X if factors else X.select_dtypes("number")), np.log(frame["price"])


def _bike_sharing(raw, factors):
    frame = pd.read_parquet(BENCHMARKS / "data" / "bike_sharing.parquet")
    X = _many(frame.drop(columns="cnt"))
    if factors:
        names = ["season", "yr", "holiday", "workingday", "weathersit"]
        X = X.join(frame[names].astype("category"))
    return X, frame["cnt"]


def _brazilian_houses(raw, factors):
    frame = pd.read_csv(raw / "houses_to_rent_v2.csv", sep=None, engine="python")
    frame.columns = [
        "city", "area", "rooms", "bathroom", "parking", "floor", "animal", "furniture", "hoa", "rent",
        "property_tax", "fire_insurance", "total",
    ]  # fmt: skip
    # without the rent the columns are as many as in Table 2; a missing floor is the ground floor
    numbers = frame.drop(columns=["city", "animal", "furniture", "total", "rent"])
    numbers = numbers.apply(pd.to_numeric, errors="coerce").fillna(0)
    X = numbers.join(frame[["city", "animal", "furniture"]]) if factors else numbers
    return X, np.log(frame["total"])


def _house_sales(raw, factors):
    frame = pd.read_csv(raw / "kc_house_data.csv")
    day = pd.to_datetime(frame["date"].str[:8])
    X = _many(frame.drop(columns=["id", "date", "price", "zipcode"]))
    X = X.assign(month=day.dt.month, day=day.dt.day)
    if factors:
        X = X.assign(year=day.dt.year.astype(str), waterfront=frame["waterfront"].astype(str))
    return X, np.log(frame["price"])


def _miami(raw, factors):
    frame = pd.read_csv(raw / "miami-housing.csv")
    return _many(frame.drop(columns=["SALE_PRC", "PARCELNO"])), np.log(frame["SALE_PRC"])
