"""The bounding box: the quantile of absolute values, for one and several columns."""

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats import FormulaError, ParameterError


def frame(n=5000):
    generator = np.random.default_rng(0)
    return pd.DataFrame({"a": generator.standard_normal(n), "b": 1000 * generator.standard_normal(n)})


class TestRadius:
    @pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
    def test_is_the_quantile_of_absolute_values_at_a_large_budget(self, share):
        box = dpstats.bounding_box("a + b ~ 1", frame(), eps=1e5, share=share, seed=1)
        for name in ("a", "b"):
            lower, upper = np.quantile(frame()[name].abs(), [share - 1e-3, share + 1e-3])
            assert lower <= box.params[name] <= upper

    def test_holds_about_its_share(self):
        """The rank is off by 30 at most but for a probability below 1e-6 at eps = 2: ``exp(-30 + 11) /
        2``."""
        box = dpstats.bounding_box("a ~ 1", frame(), eps=2, share=0.9, seed=3)
        assert abs(np.mean(np.abs(frame()["a"]) <= box.params["a"]) - 0.9) < 60 / 5000

    def test_is_never_negative_and_stays_in_the_bounds(self):
        data = frame(3)
        for seed in range(20):
            box = dpstats.bounding_box("a + b ~ 1", data, eps=0.1, bounds={"b": (-10, 7)}, seed=seed)
            assert (box.params >= 0).all() and box.params["b"] <= 10

    def test_no_usable_row(self):
        assert (dpstats.bounding_box("a ~ 1", frame(3).assign(a=np.nan), eps=1).params >= 0).all()

    @pytest.mark.parametrize(("share", "rows"), [(0.95, 570), (0.5, 30), (0.25, 90)])
    @pytest.mark.slow
    def test_the_rows_that_it_takes_are_told(self, share, rows):
        """With so many it is near the values 98 times of 100; with a third, hardly ever."""
        far = []
        for n in (rows, rows // 3):
            values = 1 + np.random.default_rng(0).random(n)
            boxes = [
                dpstats.bounding_box("a ~ 1", {"a": values}, eps=1, share=share, seed=s) for s in range(40)
            ]
            far.append(sum(not 0.1 < box.params["a"] < 10 for box in boxes))
        assert f"takes some {rows} rows at this budget. With fewer it may be any number" in boxes[0].notes[0]
        assert far[0] <= 4 and far[1] > 20

    def test_a_group_without_rows_is_told_of(self):
        data = frame().assign(g=pd.Categorical(["p"] * 5000, categories=["p", "none"]))
        boxes = dpstats.bounding_box("a ~ 1", data, eps=10, by="g", seed=1)
        assert str(boxes).count("A radius takes some 57 rows at this budget") == 1

    def test_groups(self):
        data = frame().assign(g=np.repeat(["p", "q"], 2500), a=lambda d: d["a"] * np.repeat([1, 100], 2500))
        boxes = dpstats.bounding_box("a ~ 1", data, eps=10, by="g", levels={"g": ["p", "q"]}, seed=1)
        assert boxes.params["a"].to_numpy() == pytest.approx([1.96, 196], rel=0.2)


class TestCost:
    def test_pure(self):
        g = dpstats.bounding_box("a + b ~ 1", frame(), eps=1).guarantee
        assert (g.eps, g.delta, g.kind, g.neighbours) == (1, 0, "pure", "add-remove")
        assert sum(s.eps for s in g.spends) == pytest.approx(1)

    def test_a_positive_delta_composes_columns_more_tightly(self):
        g = dpstats.bounding_box(
            "a + b + np.abs(a) + np.abs(b) + np.exp(a) ~ 1", frame(), eps=1, delta=1e-6
        ).guarantee
        assert (g.delta, g.kind) == (1e-6, "approximate")
        assert sum(s.eps for s in g.spends) > 1
        assert dpstats.bounding_box("a ~ 1", frame(), eps=1, delta=1e-6).guarantee.kind == "pure"

    def test_printed(self):
        text = " ".join(str(dpstats.bounding_box("a + b ~ 1", frame(), eps=1)).split())
        assert "hold 95% of these rows" in text and "radius of b" in text


class TestRefusals:
    @pytest.mark.parametrize("share", [0, 1, -0.5, "all"])
    def test_share(self, share):
        with pytest.raises(ParameterError, match=r"share must be a number in \(0, 1\)"):
            dpstats.bounding_box("a ~ 1", frame(), eps=1, share=share)

    def test_only_a_constant(self):
        with pytest.raises(FormulaError):
            dpstats.bounding_box("a ~ b", frame(), eps=1)
