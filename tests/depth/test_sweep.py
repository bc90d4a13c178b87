"""The least half-space of signed vectors, against the definition."""

import brute_force
import numpy as np
import pytest

from dpstats.depth import _order, _sweep


def depth(P, z, s):
    ws, inner = _order.workspace(len(P)), _order.workspace(len(P))
    if P.shape[1] == 2:
        return _sweep.plane_depth(P, z, s, ws)
    if P.shape[1] == 3:
        return _sweep.space_depth(P, z, s, ws)
    return _sweep.hyperspace_depth(P, z, s, ws, inner)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 3, 4])
def test_signs_and_weights(d):
    """A sign turns a vector around; a weight repeats it; zero takes it out."""
    rng = np.random.default_rng(d)
    for _ in range(15 if d < 4 else 6):
        n = int(rng.integers(1, 8))
        P = rng.integers(-2, 3, (n, d)).astype(float)
        z = np.zeros(d)
        s = rng.integers(-2, 3, n)
        expanded = np.repeat(np.sign(s)[:, None] * P, np.abs(s), axis=0)
        want = brute_force.halfspace(z[None], expanded)[0] if len(expanded) else 0
        assert depth(P, z, s) == want
