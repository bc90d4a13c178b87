"""What a worker keeps: the same blocks, in memory or in a file without a name that goes with them."""

import gc
import os
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.engines import kept
from dpstats.engines.kept import Kept, room

BLOCKS = [
    (np.arange(12.0).reshape(6, 2), np.arange(6.0)[:, None]),
    (np.empty((0, 2)), np.empty((0, 1))),
    # beyond a page, and no multiple of one
    (np.arange(9_001.0)[:, None] * [1.0, -1.0], np.arange(9_001.0)[:, None]),
    (np.arange(5.0), np.arange(5, dtype=np.int32)),
]


def nameless():
    """Open files of this process that have no name."""
    if sys.platform != "linux":
        pytest.skip("looks at /proc")
    found = (Path("/proc/self/fd") / fd for fd in os.listdir("/proc/self/fd"))
    return {os.readlink(fd) for fd in found if os.path.lexists(fd) and os.readlink(fd).endswith(" (deleted)")}


def check(blocks, want=BLOCKS):
    for block, other in zip(blocks, want, strict=True):
        for array, expected in zip(block, other, strict=True):
            assert array.dtype == expected.dtype
            np.testing.assert_array_equal(array, expected)


def test_blocks_are_the_same_as_often_as_wanted():
    one, other = Kept("same", BLOCKS), Kept("same", BLOCKS[::-1])
    for _ in range(2):
        check(one)
        check(other, BLOCKS[::-1])
    assert one._file is other._file is not Kept("another", BLOCKS)._file


def test_what_is_done_to_arrays_changes_no_file():
    held = Kept("written", BLOCKS)
    for X, Y in held:
        assert X.flags.writeable and X.flags.c_contiguous
        X[:], Y[:] = 7, 7
    check(held)


def large(size=1000, blocks=4):
    return [(np.full((size, 2), float(i)), np.full((size, 1), float(i))) for i in range(blocks)]


def held(*some):
    """How many blocks of each are in memory."""
    return [sum(isinstance(place, kept._Held) for place in each._places or []) for each in some]


def test_blocks_are_in_memory_as_far_as_there_is_room(monkeypatch):
    monkeypatch.setattr(kept, "_MEMORY", 3 * 24_000)
    one = Kept("one", large(), again=True)
    other, once = Kept("other", large(), again=True), Kept("1", large())
    for _ in range(2):
        for each in (one, other, once):
            check(each, large())
    assert held(one, other, once) == [3, 0, 0]
    assert [X.ctypes.data for X, _ in one][:3] == [place.block[0].ctypes.data for place in one._places[:3]]
    assert os.fstat(one._file._file.fileno()).st_size < 2 * 24_000
    # however blocks go: given away and others in their places, or with what had them
    other = Kept("one", ((X + 0.5, Y) for X, Y in one.given()), again=True)
    check(other, [(X + 0.5, Y) for X, Y in large()])
    assert held(other) == [3]
    del other
    small = Kept("one", ((X[:9], Y[:9]) for X, Y in Kept("one", large(), again=True).given()), again=True)
    check(small, large(9))
    # (when the first was made there was no room yet)
    assert held(small) == [3]
    del one, small
    again = Kept("again", large(), again=True)
    check(again, large())
    assert held(again) == [3]


def test_what_is_in_memory_is_a_copy():
    """Blocks may lie in memory that is used again, or in the table of the user."""
    given = [*large(), *BLOCKS]
    mine = Kept("copy", given, again=True)
    # (an empty one takes no room)
    assert held(mine) == [len(given) - 1]
    for block, (X, Y) in zip(mine, given, strict=True):
        assert not any(np.shares_memory(*pair) for pair in zip(block, (X, Y), strict=True))
    other = Kept("copy", mine.given(), again=True)
    check(other, given)
    with pytest.raises(RuntimeError, match="given away"):
        list(mine)


def test_a_block_is_written_over_when_the_next_is_asked_for():
    """And not while it is read: one may become several."""
    first = Kept("early", large(blocks=3), again=True)

    def halves():
        for X, Y in first.given():
            yield X + 10, Y + 10
            yield X + 20, Y + 20

    want = [(X + more, Y + more) for X, Y in large(blocks=3) for more in (10, 20)]
    again = Kept("early", halves(), again=True)
    check(again, want)
    given = {X.ctypes.data for X, _ in again}
    last = Kept("early", again.given(), again=True)
    check(last, want)
    assert len({X.ctypes.data for X, _ in last} & given) == len(want) - 1


def test_blocks_of_other_shapes_and_types_in_the_place_of_some():
    whole = [(X.astype(int), Y.astype(int)) for X, Y in large()]
    first = Kept("types", whole, again=True)
    check(
        Kept("types", ((X + 0.5, Y) for X, Y in first.given()), again=True), [(X + 0.5, Y) for X, Y in whole]
    )
    first = Kept("shapes", large(), again=True)
    turned = [(X.reshape(500, 4), Y) for X, Y in large()]
    check(Kept("shapes", ((X.reshape(500, 4), Y) for X, Y in first.given()), again=True), turned)


@pytest.mark.parametrize("again", [True, False])
def test_who_reads_while_blocks_are_given_away_gets_an_error(again):
    """And not the rows of others, in a pass or to send them."""
    first = Kept("torn", large(), again=again)
    reading = iter(first)
    next(reading)
    Kept("torn", ((X + 7, Y) for X, Y in first.given()), again=again)
    with pytest.raises(RuntimeError, match="given away"):
        next(reading)

    class Sent(Kept):
        def __iter__(self):
            yield from large()
            self._places = None

    with pytest.raises(RuntimeError, match="given away"):
        Sent("torn", large(), again=again).__reduce__()


def test_few_blocks_are_in_memory():
    """To count them takes time."""
    many = Kept("many", large(1, kept._BLOCKS + 9), again=True)
    check(many, large(1, kept._BLOCKS + 9))
    assert held(many) == [kept._BLOCKS]


def test_what_is_sent_elsewhere_is_on_disk():
    sent = pickle.loads(pickle.dumps(Kept("sent", large(), again=True)))
    check(sent, large())
    assert held(sent) == [0]


def test_a_worker_with_little_memory_holds_less(monkeypatch):
    some = [(None, 0, 2**29), (2**35, 2**30, 2**29), (2**30, 2**20, 2**27), (1e9, 580e6, 20e6), (1e9, 8e8, 0)]
    for limit, used, want in some:
        worker = SimpleNamespace(
            memory_manager=SimpleNamespace(memory_limit=limit and int(limit)),
            monitor=SimpleNamespace(get_process_memory=lambda used=used: int(used)),
        )
        monkeypatch.setattr(kept, "_worker", lambda worker=worker: worker)
        assert kept._held_at_most() == want


@pytest.mark.slow
def test_arrays_outlive_what_they_came_from():
    arrays = list(Kept("outlived", BLOCKS))
    gc.collect()
    check(arrays)


def test_blocks_are_given_once_and_others_take_their_places():
    """The file grows by a block at most; what was given is not read again, nor sent elsewhere."""
    blocks = [(np.full((1_000, 2), float(i)), np.full((1_000, 1), -float(i))) for i in range(9)]
    first = Kept("given", blocks)
    size = os.fstat(first._file._file.fileno()).st_size
    other = Kept("given", ((X + 0.5, Y * 2) for X, Y in first.given()))
    check(other, [(X + 0.5, Y * 2) for X, Y in blocks])
    assert os.fstat(other._file._file.fileno()).st_size < size * 10.5 / 9
    for read in (list, pickle.dumps, lambda kept: list(kept.given())):
        with pytest.raises(RuntimeError, match="given away"):
            read(first)
    last = Kept("given", BLOCKS)
    check(last)
    check(other, [(X + 0.5, Y * 2) for X, Y in blocks])


def test_smaller_and_larger_blocks_in_the_place_of_others():
    first = Kept("sizes", BLOCKS)
    larger = Kept("sizes", ((np.repeat(X, 3, axis=0), Y) for X, Y in first.given()))
    check(larger, [(np.repeat(X, 3, axis=0), Y) for X, Y in BLOCKS])
    check(Kept("sizes", ((X[:1], Y[:1]) for X, Y in larger.given())), [(X[:1], Y[:1]) for X, Y in BLOCKS])
    large, small = BLOCKS[2], [(np.full((2, 2), float(i)), np.zeros((2, 1))) for i in range(9)]
    first = Kept("left", [large, *small])
    check(
        Kept("left", ((X[:2] + 1, Y[:2]) for X, Y in first.given())),
        [(X[:2] + 1, Y[:2]) for X, Y in [large, *small]],
    )


def test_a_file_has_no_name_and_goes_with_its_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "_directory", lambda: str(tmp_path))
    before = nameless()
    held, more = Kept("nameless", BLOCKS), Kept("nameless", BLOCKS)
    assert not list(tmp_path.iterdir())
    fact = os.fstat(held._file._file.fileno())
    assert fact.st_nlink == 0 and fact.st_mode & 0o077 == 0
    assert len(nameless() - before) == 1
    del held
    check(more)
    del more
    assert nameless() == before and "nameless" not in kept._FILES


def test_a_file_goes_if_it_is_not_finished():
    before = nameless()

    def blocks():
        yield BLOCKS[0]
        raise ValueError

    with pytest.raises(ValueError):
        Kept("unfinished", blocks())
    gc.collect()
    assert nameless() == before


def test_what_is_sent_is_kept_there():
    held = Kept("sent", BLOCKS)
    sent = pickle.dumps(held)
    del held
    again = pickle.loads(sent)
    check(again)
    assert isinstance(again, Kept) and again.token == "sent"


def test_room_is_that_of_the_directory(tmp_path):
    class Worker:
        local_directory = str(tmp_path)

    machine, disk, free = room(Worker())
    assert room()[0] == machine and disk == tmp_path.stat().st_dev and free >= 0
