"""What is known of a design before any row is read: from its declarations, and nothing else."""

import numpy as np
import pandas as pd
import pytest

from dpstats.data.schema import Schema
from dpstats.data.sources import open_source
from dpstats.formula.design import Design
from dpstats.linear.public import PublicDesign, public_scale


def frame(n, seed=0):
    generator = np.random.default_rng(seed)
    group = generator.choice(["a", "b", "c"], n, p=[0.02, 0.49, 0.49])
    return pd.DataFrame({"x1": generator.standard_normal(n), "y": generator.standard_normal(n)}).assign(
        g=pd.Categorical(group, ["a", "b", "c"])
    )


def design_of(formula, data, **facts):
    return Design.from_formula(formula, Schema.of(open_source(data), **facts))


def test_bounds_say_where_columns_lie():
    bounds = {"x1": (-6, 6), "y": (-10, 20)}
    design = design_of("y ~ x1 + g", frame(3000), bounds=bounds)
    public = PublicDesign.of(design)
    column = design.column_names.index("x1")
    assert public.free.tolist() == [column]
    assert public.response_bounds == (-10, 20)
    assert (public.loc[column], public.scale[column]) == (0.0, 6.0)
    assert public.unknown == 0
    without = PublicDesign.of(design_of("y ~ x1 + g", frame(9)))
    assert (without.free.tolist(), without.scale[column], without.unknown) == ([column], 0.0, 1)


def test_public_design_depends_on_declarations_only():
    one, two = frame(3000, seed=1), frame(50, seed=2).iloc[:0]
    a, b = (PublicDesign.of(design_of("y ~ x1 * g", data)) for data in (one, two))
    for field in ("free", "loc", "scale"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
    assert a.marginals == b.marginals


@pytest.mark.parametrize("width", [5e-324, 1e-310, 1e-300, 1.0, 8e307])
@pytest.mark.parametrize("centred", [True, False])
def test_values_within_public_bounds_are_numbers_in_their_units(width, centred):
    """adassp once released a NaN if a response lay in the middle of bounds 1e-310 apart: one row told."""
    for low in (0.0, -width / 2, width):
        loc, scale = public_scale(low, low + width, centred)
        values = np.array([low, low + width / 2, low + width])
        units = (values - loc) * (1 / scale)
        assert np.all(np.abs(units) <= 2)
