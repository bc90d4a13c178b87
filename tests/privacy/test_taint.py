"""No private number in what leaves: every estimator's results are a function of its released values, public
facts and nothing else.

*Taint.* A release is recorded on one data set, and its answers are played back on others: whatever a user can
get hold of must be the same to the last bit. Other random numbers are drawn during the playback, so that a
draw outside the recorded steps shows too.
*Noise.* Two unseeded releases share no noise, nor do two groups, in whatever process.
"""

import contextlib
import functools
import inspect
import io
import itertools
import math
import os
import pickle
import re
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats._estimators import ESTIMATORS
from dpstats.formula.units import WithinDesign
from dpstats.linear import deep_fit, loss, scores
from dpstats.mechanisms import exponential, halving, noise, size, tukey
from dpstats.mechanisms.deep_line import deep_line
from dpstats.mechanisms.rng import Randomness
from dpstats.mechanisms.rounds import choose
from dpstats.mechanisms.spread import half_mass_spread, typical_distance
from dpstats.regression import ols

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "tests")]
from audit.tapes import Tape, patched  # noqa: E402
from estimators import BOUNDS, GROUPED, data, public_rows, run  # noqa: E402

LEVELS = {"w": ["p", "q", "r"], "g": ["a", "b", "c"]}
VARIANTS = {name: ({}, *listed.variants) for name, listed in ESTIMATORS.items()}
EVERYWHERE = {"formula", "data", "eps", "delta", "levels", "by", "unit", "ledger", "seed"}
NEW = pd.DataFrame({"x": [0.0, -40.0, 3e5], "z": [0.5, 30.0, -7.0], "w": ["p", "q", "r"]})


def first(name, guarantee=None, **_):
    """Ordinary rows."""
    frame = data(2_000 if guarantee == "random" else ESTIMATORS[name].small[0], seed=3)
    return frame.assign(
        w=np.resize(LEVELS["w"], len(frame)), g=np.repeat(LEVELS["g"], -(-len(frame) // 3))[: len(frame)]
    )


def others(frame, rows_are_public):
    """Data of the same schema that have nothing else in common with `frame`, but the number of rows (of each
    group) if it is public."""
    rng = np.random.default_rng(11)
    n = len(frame) if rows_are_public else len(frame) // 3
    few = frame.iloc[:n].copy()
    if not rows_are_public:
        few["g"] = rng.choice(LEVELS["g"], n)
    heavy = few.assign(
        x=1e3 * rng.standard_cauchy(n),
        z=np.where(rng.random(n) < 0.4, np.nan, -7.0),
        y=1e-6 * rng.standard_cauchy(n) - 3e4,
    )
    yield "heavy tails, another scale, missing values", heavy.assign(w=rng.permutation(few["w"].to_numpy()))
    yield "constants", few.assign(x=4.0, y=-2.0, z=0.0, w="q")
    yield "no usable row", few.assign(x=np.nan, y=np.nan, z=np.nan)
    yield (
        "the ends of the range",
        few.assign(x=np.sign(few["x"]) * 1e308, y=np.sign(few["y"]) * 1e308, z=5e-324),
    )


# wherever they are imported to; noise on numbers is a step of the tape already
PRIMITIVES = (
    choose, exponential.quantile, halving.place, size.release_size, half_mass_spread, typical_distance,
    noise.discrete_laplace, deep_line, tukey.sample,
)  # fmt: skip


@functools.cache
def primitives():
    """Each of the names that the modules of the estimators have for the primitives."""
    for name in ESTIMATORS:
        getattr(dpstats, name)
    return [
        (module, name, value)
        for module in list(sys.modules.values())
        if module.__name__.startswith("dpstats.")
        for name, value in list(vars(module).items())
        if any(value is primitive for primitive in PRIMITIVES)
    ]


class Answers(Tape):
    """A tape that notes what is public of each step, and what it was asked about, and needs no likelihoods.

    Attributes
    ----------
    facts : list
        Of each step what must not depend on the data: law, sensitivity, budget, lattice.
    asked : list
        The private statistics.
    """

    def __post_init__(self):
        super().__post_init__()
        self.facts, self.asked, self._recorded, self._suspended = [], [], [], False
        known = {(id(target), name) for target, name, _ in self._patches}
        self._patches += [
            (module, name, self._plain(value))
            for module, name, value in primitives()
            if (id(module), name) not in known
        ]
        self._patches = [
            (target, name, self._noted(target, name, new)) for target, name, new in self._patches
        ]
        # simulations without data, whose results are kept from one call to the next
        for name in ("pivot_variance", "_true_square"):
            self._patches.append((deep_fit, name, self._aside(getattr(deep_fit, name))))

    def _plain(self, real):
        return lambda *given, **named: self.step(lambda: real(*given, **named), None)

    def _aside(self, real):
        def aside(*given):
            self._suspended = True
            try:
                return real(*given)
            finally:
                self._suspended = False

        return aside

    def _noted(self, target, name, new):
        real = getattr(target, name)

        def noted(*given, **named):
            if self._suspended:
                return real(*given, **named)
            self.asked.append([value.tobytes() for value in given if isinstance(value, np.ndarray)])
            self.facts.append((name, *_PUBLIC.get(name, lambda *_, **__: ())(*given, **named)))
            if self._position is None:
                self._recorded.append(self.facts[-1])
            elif self.facts[-1:] != self._recorded[len(self.facts) - 1 : len(self.facts)]:
                raise AssertionError("the playback asks for another step than was recorded")
            return new(*given, **named)

        return noted

    def step(self, draw, log_likelihood):
        if self._position is not None and self._position >= len(self.outputs):
            raise AssertionError("the playback asks for a step that was not recorded")
        return super().step(draw, lambda output: 0.0)

    def record(self):
        super().record()
        self._recorded.clear()
        self.facts.clear()
        self.asked.clear()

    def play(self):
        super().play()
        self.facts.clear()
        self.asked.clear()


# what a step must not take from the data: its noise, its budget, its lattice
_PUBLIC = {
    "_add": lambda values, law, sensitivity, budget, rng: (law, sensitivity, budget, np.shape(values)),
    "laplace_on_grid": lambda values, scale, exponent, rng: (exponent, np.shape(values)),
    "discrete_laplace": lambda value, eps, rng: (eps,),
    "quantile": lambda x, q, eps, rng, **named: (q, eps, named),
    "half_mass_spread": lambda x, eps, rng: (eps,),
    "typical_distance": lambda x, eps, rng: (eps,),
    "choose": lambda scores, width, eps, rng: (len(scores), width, eps),
    "sample": lambda boxes, t, eps, rng: (t, eps, boxes.S.shape),
    "release": lambda law, *_: (repr(law),),
    "_descend": lambda hist, below, n, group, share, rng: (group.mu_loc, share, group.index.tolist()),
    "deep_line": lambda x, y, eps, candidates, rng: (eps, repr(candidates)),
}


def everything(fit):
    """Whatever can be had from a result, as one list of texts and bytes."""
    summary = fit.summary()
    out = [
        repr(fit.to_dict()),
        str(summary),
        repr(fit),
        repr(fit.tidy().to_dict("list")),
        summary.as_html(),
        pickle.dumps(fit),
    ]
    # fixed effects of units have no predictions
    if getattr(fit, "design", None) is not None and not isinstance(fit.design, WithinDesign):
        out.append(repr(np.asarray(fit.predict(NEW)).tolist()))
    return [*out, repr(getattr(fit, "notes", ()))]


def leaves(name, frame, **arguments):
    """What leaves a call: results or the text of a failure, warnings, and what is printed."""
    printed = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as heard,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        try:
            out = everything(run(name, frame, **arguments))
        except dpstats.ReleaseFailed as failure:
            out = [
                "failed",
                str(failure),
                repr(failure.guarantee.to_dict()),
                repr((failure.__cause__, failure.__context__)),
            ]
        except dpstats.ParameterError as refusal:
            out = ["refused", str(refusal)]
    return [*out, repr([str(w.message) for w in heard]), printed.getvalue()]


def arguments_of(name, variant, **more):
    named = {
        c: LEVELS[c]
        for c in ("w", "g")
        if (c == "w" and re.search(r"\bw\b", variant.get("formula", ""))) or (c == "g" and "by" in more)
    }
    return {"eps": ESTIMATORS[name].small[1], **variant, **more, "levels": named}


def succeeded(left):
    return left[0] not in ("failed", "refused")


def tainted(name, arguments, frame, other_frames, seed=1):
    """What leaves on one data set, and on which others its played answers give anything else, or ask for
    other steps."""
    tape, found = Answers(), []
    with tape.inserted():
        tape.record()
        want = leaves(name, frame, **arguments, seed=seed)
        facts = list(tape.facts)
        for what, other in other_frames:
            tape.play()
            try:
                # other coins than those of the recording
                got = leaves(name, other, **arguments, seed=seed + 100)
                same = got == want and tape.facts == facts and tape._position == len(tape.outputs)
            except AssertionError:
                same = False
            if not same:
                found.append(what)
    return want, found


EACH = [(name, i) for name, variants in VARIANTS.items() for i in range(len(variants))]


def test_every_parameter_is_tried():
    for name, variants in VARIANTS.items():
        of_units = (own for of, own in OF_UNITS if of == name)
        given = set().union(*variants, ESTIMATORS[name].own, *of_units)
        assert set(inspect.signature(getattr(dpstats, name)).parameters) - EVERYWHERE <= given | {"bounds"}, (
            name
        )


def panelled(frame, rng):
    """The rows, and once more in another order: as many units, and some rows without one."""
    rows = pd.concat([frame, frame.iloc[rng.permutation(len(frame))]])
    ids = np.tile(np.arange(len(frame)), 2).astype(float)
    ids[len(frame) :: 7] = np.nan
    return rows.assign(id=ids)


OF_UNITS = [(name, {}) for name in ESTIMATORS] + [("ols", {"weights": "unit"}), ("ols", {"effects": "unit"})]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "own"), OF_UNITS)
def test_of_units_what_leaves_is_a_function_of_released_values(name, own):
    frame, rng = first(name), np.random.default_rng(8)
    arguments = arguments_of(name, ESTIMATORS[name].own | {"unit": "id"} | own)
    found = ((what, panelled(other, rng)) for what, other in others(frame, public_rows(name, **arguments)))
    want, found = tainted(name, arguments, panelled(frame, rng), found)
    assert succeeded(want), want[1]
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "i"), EACH)
def test_what_leaves_is_a_function_of_released_values(name, i):
    arguments, frame = arguments_of(name, VARIANTS[name][i]), first(name, **VARIANTS[name][i])
    want, found = tainted(name, arguments, frame, others(frame, public_rows(name, **arguments)))
    assert succeeded(want), want[1]
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("name", GROUPED)
def test_what_leaves_groups_is_a_function_of_released_values(name):
    arguments, frame = arguments_of(name, {}, by="g"), first(name)
    want, found = tainted(name, arguments, frame, others(frame, public_rows(name, **arguments)))
    assert "'failed'" not in want[0]
    assert not found


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_failures_and_releases_of_hostile_rows_say_no_more(name):
    """Recorded on hostile rows, and at a small eps, where most releases fail; played back on ordinary
    rows and on other hostile ones."""
    frame = first(name)
    cases = list(others(frame, rows_are_public=True))
    failures = 0
    for eps in (0.001, ESTIMATORS[name].small[1]):
        arguments = arguments_of(name, {}, eps=eps)
        for seed, (what, hostile) in enumerate(cases):
            other = cases[(seed + 1) % len(cases)]
            want, found = tainted(name, arguments, hostile, [("ordinary rows", frame), other], seed)
            assert not found, (eps, what)
            failures += not succeeded(want)
    assert failures or ESTIMATORS[name].never_fails


def shifted(output):
    """A released value, moved: a little, and far; of a histogram, to one cell below its middle; of a
    bisection, by cells."""
    if isinstance(output, tuple):
        cells = isinstance(output[0], np.ndarray) and output[0].dtype.kind == "i"
        new = [output[0] - 60, output[0] + 60] if cells else shifted(output[0])
        return [(value, *output[1:]) for value in new]
    if isinstance(output, int):
        return [int(output == 0), output - 10**6]
    moved = [1.5 * output + 1, output - 1e6, output + 1e6]
    if isinstance(output, np.ndarray):
        moved.append(
            np.where(np.arange(output.size) == output.size // 2 - 10, 1e6, 0.0).reshape(output.shape)
        )
    return moved


@pytest.mark.slow
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_released_value_matters(name):
    """Each recorded step, moved by an offset, moves what leaves or what is asked next: a playback that
    changes nothing proves nothing."""
    arguments, frame, tape = arguments_of(name, {}), first(name), Answers()
    with tape.inserted():
        tape.record()
        want, outputs, asked = leaves(name, frame, **arguments, seed=1), list(tape.outputs), list(tape.asked)
        assert outputs
        for i, output in enumerate(outputs):
            moved = False
            for new in shifted(output):
                tape.outputs = [*outputs[:i], new, *outputs[i + 1 :]]
                tape.play()
                try:
                    moved |= leaves(name, frame, **arguments, seed=1) != want or tape.asked != asked
                except (AssertionError, IndexError):
                    # another way with other steps, or a choice that was not there
                    moved = True
                if moved:
                    break
            assert moved, (i, output)


# -- leaks on purpose ------------------------------------------------------------------------------------


def _rows(blocks):
    return sum(len(X) for X, _ in blocks)


def _divided_by_the_exact_count(patch):
    real = loss.product_gradient
    patch.setattr(
        loss, "product_gradient", lambda rows, *rest: real(rows, *rest) * (5_000.0 / max(_rows(rows), 1))
    )


def _count_printed(patch):
    real, results, seen = ols._release, ols._results, []

    def release(blocks, budget, rng):
        seen.append(_rows(blocks))
        return real(blocks, budget, rng)

    def noted(*given):
        fit = results(*given)
        return replace(fit, notes=(*fit.notes, f"{seen[-1]} rows."))

    patch.setattr(ols, "_release", release)
    patch.setattr(ols, "_results", noted)


def _limit_of_the_data(patch):
    real = ols._release

    def release(blocks, budget, rng):
        released = real(blocks, budget, rng)
        largest = max((float(np.max(np.abs(Y), initial=0.0)) for _, Y in blocks), default=0.0)
        clip = replace(released.rounds.clip, norm=largest)
        return replace(released, rounds=replace(released.rounds, clip=clip))

    patch.setattr(ols, "_release", release)


def _refused_by_the_exact_count(patch):
    real = ols.prepare

    def prepare(method, blocks, budget, rng, reach, check_count, **more):
        return real(method, blocks, budget, rng, reach, lambda _: check_count(float(_rows(blocks))), **more)

    patch.setattr(ols, "prepare", prepare)


def _warning_of_far_rows(patch):
    real = ols._release

    def release(blocks, budget, rng):
        if any(np.abs(Y).max(initial=0.0) > 1e3 for _, Y in blocks):
            warnings.warn("large values", stacklevel=1)
        return real(blocks, budget, rng)

    patch.setattr(ols, "_release", release)


def _noise_of_the_data(patch):
    real = loss.product_gradient
    patch.setattr(
        loss,
        "product_gradient",
        lambda rows, u, limits, clip, mu, rng: real(
            rows, u, limits, clip * (1 + 1e-9 * _rows(rows)), mu, rng
        ),
    )


def _one_round_less_for_few_rows(patch):
    real = loss.product_gradient

    def gradient(rows, u, limits, clip, mu, rng):
        return real(rows, u, limits, clip, mu, rng) if _rows(rows) > 100 else np.zeros(len(u))

    patch.setattr(loss, "product_gradient", gradient)


def _cause_of_a_failure(patch):
    real = ols.check_directions

    def check_directions(*facts):
        try:
            real(*facts)
        except dpstats.ReleaseFailed as failure:
            raise failure from ValueError("a value of a row")

    patch.setattr(ols, "check_directions", check_directions)


def _a_draw_past_the_tape(patch):
    real = ols._release

    def release(blocks, budget, rng):
        released = real(blocks, budget, rng)
        end = released.rounds.coefficients
        moved = replace(released.rounds, coefficients=end + 1e-3 * rng.uniform(len(end)))
        return replace(released, rounds=moved)

    patch.setattr(ols, "_release", release)


LEAKS = [_divided_by_the_exact_count, _count_printed, _limit_of_the_data, _refused_by_the_exact_count,
         _warning_of_far_rows, _noise_of_the_data, _one_round_less_for_few_rows,
         _a_draw_past_the_tape]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("leak", LEAKS)
def test_leaks_are_caught(leak, monkeypatch):
    leak(monkeypatch)
    frame = first("ols")
    _, found = tainted("ols", arguments_of("ols", {}), frame, others(frame, rows_are_public=False))
    assert found


def test_causes_of_failures_are_looked_at(monkeypatch):
    frame = first("ols").iloc[:100]
    plain = leaves("ols", frame, **arguments_of("ols", {}), seed=1)
    assert not succeeded(plain) and "of a row" not in "".join(map(str, plain))
    _cause_of_a_failure(monkeypatch)
    assert "a value of a row" in "".join(map(str, leaves("ols", frame, **arguments_of("ols", {}), seed=1)))


# -- no noise twice --------------------------------------------------------------------------------------


class Drawn:
    """All that is drawn, one line a call, in a file that forked workers write to as well.

    *Noise* is in units of its lattice, of which the scale of the noise is at least ``2^30 / budget``: no
    value has a probability above 2.8e-8 at budgets up to 60. *Words* are all the random bits that are not
    noise. Noise on the integers is coarse, and may be the same by chance: it is left to a test of its own.
    """

    def __init__(self, path):
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def _note(self, kind, values):
        os.write(self._file, f"{os.getpid()} {kind} {' '.join(map(str, values))}\n".encode())

    def inserted(self):
        add, grid, raw = noise._add, noise.laplace_on_grid, Randomness._bytes

        def noted(values, out, step):
            with np.errstate(over="ignore"):
                before = np.rint(np.ravel(np.asarray(values, dtype=float)) / step)
            self._note("noise", [int(z) for z in np.rint(np.ravel(out) / step) - before])
            return out

        def noisy(values, law, sensitivity, budget, rng):
            step = 2.0 ** (math.frexp(sensitivity)[1] - 1) * noise._STEP
            return noted(values, add(values, law, sensitivity, budget, rng), step)

        def on_grid(values, scale, exponent, rng):
            return noted(values, grid(values, scale, exponent, rng), 2.0**exponent)

        def words(rng, size):
            drawn = raw(rng, size)
            self._note("words", np.frombuffer(drawn[: size // 8 * 8], np.uint64).tolist())
            return drawn

        return patched(
            (noise, "_add", noisy), (noise, "laplace_on_grid", on_grid), (Randomness, "_bytes", words)
        )

    def streams(self):
        """From process and kind to all values in order."""
        found = {}
        for line in self._path.read_text().splitlines():
            process, kind, *values = line.split()
            found.setdefault((process, kind), []).extend(values)
        return found


def drawn_twice(path, release):
    """Words, and pairs of successive noise, that two releases draw more than once; and how many processes
    drew.

    Of ``2^22`` words of 64 bits two are equal with probability below 5e-7, and of 25,000 pairs of noise too.
    """
    seen, again, processes = set(), 0, set()
    for i in range(2):
        drawn = Drawn(path / str(i))
        with drawn.inserted():
            release()
        streams = drawn.streams()
        assert streams
        for (process, kind), values in streams.items():
            processes.add((i, process))
            items = (
                [(kind, value) for value in values] if kind == "words" else list(itertools.pairwise(values))
            )
            again += sum(item in seen for item in items) + len(items) - len(set(items))
            seen.update(items)
    words = sum(item[0] == "words" for item in seen)
    assert words < 2**22 and len(seen) - words < 25_000
    return again, len(processes)


NOISES = [(name, {}) for name in ESTIMATORS] + [
    ("deepest_regression", {"mechanism": "smooth", "bounds": BOUNDS}),
    ("median", {"mechanism": "smooth", "bounds": BOUNDS}),
    ("median", {"mechanism": "smooth"}),
    ("medsweep", {"variant": "joint", "bounds": BOUNDS | {"z": (-10, 10)}, "clamp": 1.0}),
    ("select_features", {"method": "kendall"}),
    ("select_features", {"method": "pairs"}),
    ("select_features", {"method": "sub_lasso"}),
    ("ols", {"select": 1}),
    ("tukey_em", {"whiten": False, "models": 800}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "variant"), NOISES)
def test_unseeded_releases_share_no_noise(name, variant, tmp_path, monkeypatch):
    """False-alarm rate 1e-6."""
    frame = first(name)
    # a simulation without data has a seed of its own
    monkeypatch.setattr(deep_fit, "pivot_variance", lambda m, k, eps: 1.0)
    assert (
        drawn_twice(tmp_path, lambda: leaves(name, frame, **arguments_of(name, variant), seed=None))[0] == 0
    )


def grouped(name, groups=260, rows=8):
    frame = data(groups * rows).assign(g=np.repeat(np.arange(groups), rows))
    own = {"alpha": None} if name == "median" else {"bounds": BOUNDS}
    fits = run(name, frame, seed=None, by="g", levels={"g": range(groups)}, **own)
    assert len(fits.levels) == groups


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean", "median", "noisy_stats"])
def test_groups_in_workers_share_no_noise(name, tmp_path):
    """Gaussian, exponential and Laplace noise of many groups; false-alarm rate 1e-6."""
    again, processes = drawn_twice(tmp_path, lambda: grouped(name))
    assert again == 0
    assert processes > 2 or len(os.sched_getaffinity(0)) == 1


def test_draws_that_may_coincide_differ_as_a_stream():
    """100 integers each of probability at most 0.0005: the same stream twice has a probability below
    1e-300."""
    streams = [[noise.discrete_laplace(0, 1e-3, Randomness()) for _ in range(100)] for _ in range(2)]
    assert streams[0] != streams[1]


def test_noise_drawn_twice_is_caught(monkeypatch, tmp_path):
    frame = first("ols")

    def again(where, name="ols"):
        (tmp_path / where).mkdir()
        return drawn_twice(
            tmp_path / where, lambda: leaves(name, frame, **arguments_of(name, {}), seed=None)
        )[0]

    with monkeypatch.context() as patch:
        real = scores.gaussian
        patch.setattr(scores, "gaussian", lambda values, s, mu, rng: real(values, s, mu, Randomness(0)))
        assert again("gradients")
    with monkeypatch.context() as patch:
        real_words = Randomness._bytes
        patch.setattr(Randomness, "_bytes", lambda rng, size: real_words(Randomness(5), size))
        assert again("words", "median")


@pytest.mark.slow
def test_a_stream_that_forked_workers_share_is_caught(monkeypatch, tmp_path):
    if len(os.sched_getaffinity(0)) == 1:
        assert drawn_twice(tmp_path, lambda: grouped("median"))[1] == 2
        return
    # from the operating system, but once, before the workers are forked
    generator = np.random.default_rng()
    monkeypatch.setattr(Randomness, "_bytes", lambda rng, size: generator.bytes(size))
    assert drawn_twice(tmp_path, lambda: grouped("median"))[0]
