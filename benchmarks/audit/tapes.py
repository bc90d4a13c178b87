"""Transcripts: every noisy number that a mechanism draws, and the likelihood ratio of two data sets given all
of them.

The proofs in ``docs/privacy`` let an opponent see each private step. A tape records the steps of a release on
one data set. Played back on the other data set it answers each step with what was recorded and notes the
statistic that the step would have had there. Both together give the log-likelihood ratio of the whole
transcript, the strongest test there is: it finds too small a noise, a missing clip, or a step that was not
paid for, in whatever step it may be.

The ratio is a function of the transcript (and of the two data sets, which the opponent knows), so the bound
of :mod:`bounds` is valid even where a law below is only nearly that of the step.
"""

import contextlib
import math
from dataclasses import dataclass, field
from unittest import mock

import numpy as np
from scipy.special import logsumexp

from dpstats.linear import anchors, line_widths
from dpstats.location import bounding_box, median, tukey_median
from dpstats.mechanisms import deep_point as _deep_point
from dpstats.mechanisms import exponential, half_width, noise, ptr, size, standardize
from dpstats.mechanisms._kernels import GRID_BITS, GRID_CELLS
from dpstats.mechanisms.rank_interval import RankInterval
from dpstats.mechanisms.smooth_sensitivity import ROUNDING
from dpstats.mechanisms.spread import GRID, distance_weights, spread_scores
from dpstats.mechanisms.student import StudentNoise
from dpstats.regression import theil_sen
from dpstats.selection import kendall, sub_lasso

__all__ = ["Tape", "log_ratios", "patched"]


@contextlib.contextmanager
def patched(*changes):
    """Replace attributes for a while: triples of an object, a name, and what replaces it."""
    with contextlib.ExitStack() as stack:
        for target, name, new in changes:
            stack.enter_context(mock.patch.object(target, name, new))
        yield


def laplace_log(output, centre, scale):
    """Log density, but for a constant."""
    return -float(np.sum(np.abs(output - centre))) / scale - np.size(output) * math.log(scale)


def normal_log(output, centre, scale):
    """Log density, but for a constant."""
    return -float(np.sum(np.square(output - centre))) / (2 * scale**2) - np.size(output) * math.log(scale)


def student_log(output, centre, scale):
    """Log density of two degrees of freedom, but for a constant."""
    return float(np.sum(-1.5 * np.log(2 + np.square((output - centre) / scale)))) - np.size(
        output
    ) * math.log(scale)


_LAWS = {"laplace": laplace_log, "gaussian": normal_log}


@dataclass
class Tape:
    """A transcript: outputs of the private steps, and the log-likelihood of all under the data of each run.

    Within `inserted` all private steps go through the tape. After `record` they are those of the data that
    the outputs come from, after `play` they answer as recorded.
    """

    outputs: list = field(default_factory=list)
    log: float = 0.0
    _position: int | None = None

    def inserted(self):
        """A context in which every private step is a step of the tape."""
        return patched(*self._patches)

    def record(self):
        """Start anew."""
        self.outputs, self.log, self._position = [], 0.0, None

    def play(self):
        """Rewind."""
        self.log, self._position = 0.0, 0

    def step(self, draw, log_likelihood):
        """One private step: drawn or played, and its log-likelihood added."""
        if self._position is None:
            output = draw()
            self.outputs.append(output)
        else:
            output = self.outputs[self._position]
            self._position += 1
        self.log += log_likelihood(output)
        return output

    def __post_init__(self):
        self._patches = [
            (noise, "_add", self._add(noise._add)),
            (noise, "laplace_on_grid", self._grid(noise.laplace_on_grid)),
            (StudentNoise, "release", self._student(StudentNoise.release)),
            (standardize, "_descend", self._descend(standardize._descend)),
            (RankInterval, "release", self._interval(RankInterval.release)),
            (median, "release_size", self._size(median.release_size)),
        ]
        self._patches += [
            (m, "discrete_laplace", self._discrete(m.discrete_laplace)) for m in (ptr, sub_lasso)
        ]
        self._patches += [
            (m, "quantile", self._quantile(m.quantile))
            for m in (exponential, anchors, theil_sen, bounding_box)
        ]
        spread = self._spread(line_widths.half_mass_spread, lambda x, eps: eps / 2 * spread_scores(x))
        self._patches.append((line_widths, "half_mass_spread", spread))
        self._patches += [
            (m, "typical_distance", self._spread(m.typical_distance, distance_weights))
            for m in (anchors, tukey_median)
        ]
        self._patches += [
            (m, "choose", self._choose(m.choose)) for m in (kendall, sub_lasso, _deep_point, half_width)
        ]
        self._patches += [(_deep_point, "candidates", self._public(_deep_point.candidates))]

    def _add(self, real):
        def add(values, law, sensitivity, budget, rng):
            centre = np.array(values, dtype=float)
            return self.step(
                lambda: real(values, law, sensitivity, budget, rng),
                lambda output: _LAWS[law](output, centre, sensitivity / budget),
            )

        return add

    def _grid(self, real):
        def on_grid(values, scale, exponent, rng):
            return self.step(
                lambda: real(values, scale, exponent, rng),
                lambda output: laplace_log(output, np.array(values), scale),
            )

        return on_grid

    def _student(self, real):
        def release(parameters, values, bound, rng):
            centre = np.atleast_1d(np.asarray(values, dtype=float))
            scale = (
                max(bound * (1 + ROUNDING) + ROUNDING * float(np.max(np.abs(centre))), 1e-250)
                / parameters.alpha
            )
            return self.step(
                lambda: real(parameters, values, bound, rng)[0],
                lambda output: student_log(output, centre, scale),
            ), None

        return release

    def _discrete(self, real):
        def discrete(value, eps, rng):
            return self.step(lambda: real(value, eps, rng), lambda output: -eps * abs(output - value))

        return discrete

    def _descend(self, real):
        """Thirteen bisections of a group of columns: the noise is drawn apart from the statistics it is added
        to."""

        def descend(hist, below, n, group, share, rng):
            if group.mu_loc == 0:
                return real(hist, below, n, group, share, rng)
            counts = np.concatenate([np.zeros((len(hist), 1)), np.cumsum(hist, axis=1)], axis=1)

            def statistics(lower):
                steps = np.arange(GRID_BITS)[:, None]
                size = GRID_CELLS >> steps
                middle = lower // size * size + size // 2
                return below + counts[np.arange(len(lower)), middle] - n / 2

            def draw():
                drawn = {}

                def add(values, law, sensitivity, budget, rng):
                    drawn["scale"] = sensitivity / budget
                    drawn["noise"] = outer(values, law, sensitivity, budget, rng)
                    return drawn["noise"]

                outer = self._real_add
                with patched((noise, "_add", add)):
                    lower = real(hist, below, n, group, share, rng)
                return lower, statistics(lower) + drawn["noise"], drawn["scale"]

            return self.step(draw, lambda output: normal_log(output[1], statistics(output[0]), output[2]))[0]

        self._real_add = noise._add
        return descend

    def _quantile(self, real):
        def quantile(x, q, eps, rng, *, neighbours="add-remove", bounds=None):
            def log_likelihood(output):
                cells = exponential.quantile_cells(x, q, bounds)
                weights = exponential.log_weights(cells, q, eps, neighbours)
                key = int(exponential.float_keys(output))
                first = cells.first.astype(object)
                inside = [i for i in range(len(first)) if first[i] <= key < first[i] + int(cells.size[i])]
                return float(weights[inside[0]] - math.log(float(cells.size[inside[0]])) - logsumexp(weights))

            return self.step(
                lambda: real(x, q, eps, rng, neighbours=neighbours, bounds=bounds), log_likelihood
            )

        return quantile

    def _spread(self, real, log_weights):
        def spread(x, eps, rng):
            def log_likelihood(output):
                weights = log_weights(x, eps)
                return float(weights[np.searchsorted(GRID, output)] - logsumexp(weights))

            return self.step(lambda: real(x, eps, rng), log_likelihood)

        return spread

    def _interval(self, real):
        def release(interval, x, centre, rng):
            def log_likelihood(output):
                weights = interval.eps * interval.scores(x, centre) / (2 * interval.sensitivity)
                weights = weights - logsumexp(weights)
                return float(weights[-1 if output == math.inf else _half_width_index(output)])

            return self.step(lambda: real(interval, x, centre, rng), log_likelihood)

        return release

    def _size(self, real):
        def release_size(x, eps, rng, largest=size.LARGEST):
            def log_likelihood(output):
                weights = size.log_weights(x, exponents, eps)
                return float(weights[np.searchsorted(exponents, output)] - logsumexp(weights))

            exponents = size.sizes(largest)
            return self.step(lambda: real(x, eps, rng, largest), log_likelihood)

        return release_size

    def _public(self, real):
        """A draw whose law depends on earlier outputs alone."""
        return lambda *arguments: self.step(lambda: real(*arguments), lambda output: 0.0)

    def _choose(self, real):
        def choose(scores, width, eps, rng):
            def log_likelihood(output):
                weights = np.asarray(scores, dtype=float) * (eps / width)
                return float(weights[output] - logsumexp(weights))

            return self.step(lambda: real(scores, width, eps, rng), log_likelihood)

        return choose


def _half_width_index(width):
    from dpstats.mechanisms import rank_interval as _rank_interval

    return int(np.searchsorted(_rank_interval._HALF_WIDTHS, width))


def log_ratios(run, first, second, runs, rng):
    """Log-likelihood ratios of `runs` transcripts from either data set: a pair of (runs,) arrays.

    Parameters
    ----------
    run : callable
        ``run(data, rng)`` is one release; what it returns is not looked at, and neither is a ReleaseFailed,
        since both are functions of the transcript.
    first, second
        Neighbouring data.
    """
    tape = Tape()
    scores = []
    with tape.inserted():
        for data, other in ((first, second), (second, first)):
            out = np.empty(runs)
            for i in range(runs):
                tape.record()
                run(data, rng)
                own = tape.log
                tape.play()
                run(other, rng)
                out[i] = own - tape.log
            scores.append(out)
    return scores[0], -scores[1]
