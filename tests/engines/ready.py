"""Forks workers of Spark, as ``pyspark.daemon`` does, when what takes them long to import is here.

Nothing of dpstats, which workers find by themselves; and nothing that starts a thread, as pandas does.
"""

import numba  # noqa: F401
import pyspark.sql.types  # noqa: F401
import scipy.stats  # noqa: F401
from pyspark.daemon import manager

if __name__ == "__main__":
    manager()
