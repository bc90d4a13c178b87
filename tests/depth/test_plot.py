import numpy as np
import pytest

from dpstats import depth
from dpstats.errors import ParameterError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


@pytest.fixture
def axes():
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_draws_what_was_asked_for(axes):
    data = np.random.default_rng(0).standard_normal((80, 2))
    median = depth.tukey_median(data)
    assert depth.plot_contours(data, [1, 10, 10, 20, 79], ax=axes) is axes
    labels = [t.get_text() for t in axes.get_legend().get_texts()]
    assert labels[1:4] == ["depth 1", "depth 10", "depth 20"]  # no point has depth 79
    assert labels[0].startswith("bag") and labels[-2:] == [f"deepest ({median.depth})", "Tukey median"]
    bag, deepest = (p.get_xy()[:-1] for p in axes.patches)
    assert {tuple(p) for p in deepest} == {tuple(p) for p in depth.contours(data, median.depth)[0]}
    deep = int(labels[0].split()[-1].rstrip(")"))
    inside = (depth.halfspace(data, data) >= deep).sum()
    assert inside >= 40 > (depth.halfspace(data, data) >= deep + 1).sum()
    drawn = next(line for line in axes.lines if line.get_label() == "depth 10").get_xydata()
    assert (drawn[:-1] == depth.contours(data, 10)[0]).all() and (drawn[0] == drawn[-1]).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [[[1, 2]], [[0, 0], [1, 1]], np.repeat([[3.0, 4.0]], 5, axis=0), np.eye(3)[:, :2]]
)
def test_few_and_degenerate_data(axes, data):
    depth.plot_contours(data, ax=axes).figure.canvas.draw()


def test_makes_its_own_figure():
    import matplotlib.pyplot as plt

    ax = depth.plot_contours(np.random.default_rng(0).integers(0, 5, (40, 2)))
    plt.close(ax.figure)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("data", ([[1, 2, 3]],)), ("data", (np.empty((0, 2)),)), ("depths", ([[1, 2]], 0))],
)
def test_errors_name_the_parameter(name, arguments):
    with pytest.raises(ParameterError, match=f"^{name} must"):
        depth.plot_contours(*arguments)
