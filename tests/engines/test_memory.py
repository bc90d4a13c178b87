"""Memory that is used again: never while something refers to it, and only where it is lent."""

import threading

import pandas as pd

from dpstats.data.sources import open_source
from dpstats.engines.kept import Kept
from dpstats.engines.memory import _MOST, Memory, empty, lent
from dpstats.formula.design import Design


def test_what_is_referred_to_is_not_handed_out_again():
    memory = Memory()
    with lent(memory):
        arrays = [empty(5_000, 2) for _ in range(3 * _MOST)]
        for i, array in enumerate(arrays):
            array[:] = i
        views = [array[10:20, :1].T for array in arrays]
        places = {array.ctypes.data for array in arrays}
        del array, arrays
        again = [empty(5_000, 2) for _ in range(3 * _MOST)]
        for array in again:
            array[:] = -1
    assert len(places) == 3 * _MOST
    for i, view in enumerate(views):
        assert (view == i).all()


def test_what_is_not_is_and_nothing_piles_up():
    memory = Memory()
    assert len({memory.empty((4_000, 3)).ctypes.data for _ in range(20)}) == 1
    for size in range(1, 40_000, 370):
        assert memory.empty((size,)).shape == (size,)
    assert len(memory._held) <= _MOST


def test_it_is_lent_for_a_while_to_one_thread():
    memory, before, found = Memory(), len(Memory()._held), []
    with lent(memory):
        thread = threading.Thread(target=lambda: found.append(empty(9)))
        thread.start()
        thread.join()
    kept = empty(9)
    assert len(memory._held) == before and found[0].shape == kept.shape == (9,)


def test_blocks_that_are_held_do_not_change():
    """As those of a pass that gathers them; a file has its own."""
    frames = [pd.DataFrame({"y": [float(i)] * 50, "x": [float(-i)] * 50}) for i in range(6)]
    design = Design.from_formula("y ~ x", open_source(frames[0]).schema)
    held = []

    def blocks():
        for frame in frames:
            held.append(design.arrays(frame))
            yield held[-1]

    kept = Kept("held", blocks())
    for i, ((X, Y), (A, B)) in enumerate(zip(held, kept, strict=True)):
        assert (Y == i).all() and (X == [1.0, -i]).all() and (A == X).all() and (B == Y).all()
