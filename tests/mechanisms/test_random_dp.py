"""Boxes of the random-DP variants: the bounds of Devroye and of Dvoretzky, Kiefer and Wolfowitz."""

import math

import numpy as np
import pytest

from dpstats.errors import ParameterError
from dpstats.mechanisms.random_dp import common_depth, dkw_distance, log_half_planes, widened


@pytest.mark.parametrize("gamma", [0.01, 0.2])
@pytest.mark.parametrize("rows", [3000, 20_000])
def test_the_depth_is_that_of_the_bound(rows, gamma):
    """``4 exp(4 t + 4 t^2) s(n^2) exp(-2 n t^2)`` is half of gamma at ``t``."""
    depth = common_depth(rows, gamma, log_half_planes)

    def excess(t):
        return 4 * t + 4 * t * t + math.log(8 / gamma) + log_half_planes(rows**2) - 2 * rows * t * t

    t = [(1 / 3 - d / rows) / 2 for d in (depth, depth + 1)]
    assert excess(t[0]) <= 0 < excess(t[1])


def test_subsets_by_half_planes():
    """Of points in general position: by counting for 5, a pentagon with its 22 subsets."""
    angles = 2 * np.pi * np.arange(5) / 5
    points = np.column_stack([np.cos(angles), np.sin(angles)])
    found = set()
    for a in np.linspace(0, 2 * np.pi, 997):
        along = points @ [np.cos(a), np.sin(a)]
        found |= {frozenset(np.flatnonzero(along > c)) for c in [*(along + 1e-9), -2.0]}
    assert len(found) == 22
    assert math.exp(log_half_planes(5)) >= 22


def test_distance():
    assert dkw_distance(1000, 0.05) == math.sqrt((1 + math.log(20)) / 1000)


@pytest.mark.parametrize("bound", [dkw_distance, lambda n, g: common_depth(n, g, log_half_planes)])
def test_too_few_rows(bound):
    for rows in (0, 1, 10):
        with pytest.raises(ParameterError, match=rf"the rows more.*there are {rows} rows"):
            bound(rows, 0.01)


def test_widened():
    assert widened(1.0, 3.0) == (0.0, 4.0)
    lower, upper = widened(np.array([0.0, -1.0]), np.array([2.0, -1.0]))
    assert lower.tolist() == [-1.0, -1.0] and upper.tolist() == [3.0, -1.0]
