"""How kernels are compiled: at first use, once, from stored code that is never older than its parts, or in
memory."""

import gc
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config, int64, njit, types
from numba.core.caching import FunctionCache, NullCache
from numba.core.errors import TypingError

import dpstats
from dpstats import _jit

PACKAGE = Path(dpstats.__file__).parent
compiled = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="there is nothing to compile")


def run(code, folder, **environment):
    """Run code in a new process, in `folder`, with nothing stored in a home folder."""
    kept = {
        k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "PYTHONPATH", "XDG_CACHE_HOME")
    }
    nowhere = {"HOME": os.devnull, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=kept | nowhere | environment,
        capture_output=True,
        text=True,
    )


def in_memory(*what, **options):
    """As `_jit.kernel`, with nothing stored."""

    def made(function):
        kernel = _jit.kernel(*what, **options)(function) if what else _jit.kernel(function, **options)
        kernel._cache = NullCache()
        return kernel

    return made


@pytest.mark.slow
def test_nothing_is_compiled_by_importing():
    code = """
        import gc, dpstats
        from dpstats._jit import _Kernel
        [getattr(dpstats, name) for name in dpstats.__all__]
        [getattr(dpstats.depth, name) for name in dpstats.depth.__all__]
        kernels = [k for k in gc.get_objects() if isinstance(k, _Kernel)]
        print(len(kernels) > 50, sum(len(k.overloads) for k in kernels))
    """
    done = run("\n".join(line.strip() for line in code.splitlines()), PACKAGE.parent, NUMBA_DISABLE_JIT="0")
    assert done.stdout.split() == ["True", "0"], done.stderr


def test_every_kernel_is_made_here():
    for path in PACKAGE.rglob("*.py"):
        if path.name != "_jit.py":
            assert not re.search(
                r"\bnjit\b|\bnumba\.(jit|vectorize|guvectorize|cfunc)\b", path.read_text()
            ), path.name


def callers_of(inner):
    """A kernel that calls `inner` with constants and with integers of several widths."""

    @in_memory()
    def outer(a):
        return inner(1) + inner(2) + inner(a[0]) + inner(a.size)

    assert outer(np.array([3], dtype=np.int32)) == 1 + 2 + 3 + 1
    return len(inner.overloads)


def identity(i):
    return i


@pytest.mark.slow
@compiled
def test_constants_and_widths_share_a_version():
    assert callers_of(in_memory(int64(int64))(identity)) == 1
    assert (
        callers_of(in_memory()(identity)) == 2
    )  # without a signature: one for each width, none for constants
    assert callers_of(njit(identity)) > 2


@compiled
def test_branches_on_none_are_settled():
    """What only one kind of caller needs is not compiled for the other."""

    @in_memory()
    def other(i):
        return i + 1

    @in_memory(int64(int64, types.none), int64(int64, int64))
    def inner(i, j):
        if j is None:
            return i
        return other(i) + j

    @in_memory()
    def without(i):
        return inner(i, None)

    @in_memory()
    def with_both(i):
        return inner(i, 10)

    assert without(1) == 1
    assert not other.overloads
    assert with_both(1) == 12
    assert len(inner.overloads) == 2


def is_called(body):
    """Whether a caller of a kernel calls it, or holds a copy of its body."""
    inner = in_memory()(body)

    @in_memory()
    def outer(i):
        return inner(i) + 1

    assert outer(2) == 7
    return bool(re.search(rf"call [^\n]*{body.__name__}", next(iter(outer.inspect_llvm().values()))))


@compiled
@pytest.mark.parametrize(
    ("x", "limit", "ratio"), [(1.0, 0.0, np.inf), (0.0, 0.0, np.nan), (np.nan, 0.0, np.nan)]
)
def test_no_row_makes_a_kernel_raise(x, limit, ratio):
    """An error would be an answer that no mechanism gave."""

    @in_memory()
    def over(x, limit):
        return x / limit

    np.testing.assert_equal(over(x, limit), ratio)


@compiled
def test_out_of_line():
    def copied(i):
        return i * 3

    def marked(i):
        _jit.out_of_line()
        return i * 3

    assert is_called(marked)
    assert not is_called(copied)
    assert marked(2) == 6  # without the compiler


@pytest.mark.slow
def test_prefetch():
    def total(A):
        sum_ = 0.0
        for i in range(len(A)):
            _jit.prefetch(A, i)
            sum_ += A[i, 0]
        return sum_

    A = np.arange(600.0).reshape(200, 3)
    reader = total if config.DISABLE_JIT else njit(total)
    for rows in (A, np.asfortranarray(A), A[::-3], A[:, ::2], A[:1], A[:0], A.astype(np.uint64)):
        assert reader(rows) == total(rows) == rows[:, 0].sum()  # the last rows ask for what is not there
    if not config.DISABLE_JIT:
        reader.compile("float64(float64[:, ::1])")
        assert "llvm.prefetch" in "".join(reader.inspect_llvm().values())


TINY = {
    "_inner.py": "from dpstats._jit import kernel\n\n@kernel\ndef inner():\n    return 1\n",
    "_outer.py": "from dpstats._jit import kernel\nfrom dpstats._inner import inner\n\n"
    "@kernel\ndef outer():\n    return inner()\n",
}


def copy_of_the_package(folder):
    shutil.copytree(PACKAGE, folder / "dpstats", ignore=shutil.ignore_patterns("__pycache__", "*.csv.gz"))
    for name, text in TINY.items():
        (folder / "dpstats" / name).write_text(text)


def as_numba_does(folder):
    """The copy's kernels as `numba.njit` would make them."""
    (folder / "dpstats" / "_jit.py").write_text(
        "import numba\n\ndef kernel(f):\n    return numba.njit(cache=True)(f)\n"
    )


CALL = "from dpstats._outer import outer; print(outer(), sum(outer.stats.cache_hits.values()))"


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("broken", [False, True])
def test_stored_code_is_as_new_as_its_parts(tmp_path, broken):
    copy_of_the_package(tmp_path)
    if broken:
        as_numba_does(tmp_path)
    store = {"NUMBA_CACHE_DIR": str(tmp_path / "store")}
    assert run(CALL, tmp_path, **store).stdout == "1 0\n"
    assert run(CALL, tmp_path, **store).stdout == "1 1\n"
    (tmp_path / "dpstats" / "_inner.py").write_text(TINY["_inner.py"].replace("1", "2"))
    assert run(CALL, tmp_path, **store).stdout == ("1 1\n" if broken else "2 0\n")


@pytest.mark.slow
@compiled
@pytest.mark.parametrize("broken", [False, True])
def test_installed_where_nothing_can_be_stored(tmp_path, broken):
    """No folder for stored code can be made beside the package, for any user, nor in a home folder."""
    copy_of_the_package(tmp_path)
    if broken:
        as_numba_does(tmp_path)
    for folder in [tmp_path / "dpstats", *(p for p in (tmp_path / "dpstats").rglob("*") if p.is_dir())]:
        (folder / "__pycache__").touch()
    done = run(CALL, tmp_path)
    if broken:
        assert "no locator available" in done.stderr
    else:
        assert done.stdout == "1 0\n", done.stderr
        fit = """import dpstats
data = {"y": list(range(100))}
bounds = {"y": (0, 100)}
print(dpstats.median("y ~ 1", data, eps=9, bounds=bounds, mechanism="smooth", seed=1).params.size)"""
        done = run(fit, tmp_path)
        assert done.stdout == "1\n", done.stderr


@compiled
@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_collected_after_compiling_as_before(collecting):
    @in_memory()
    def wrong(i):
        return i.nothing

    before = gc.isenabled()
    (gc.enable if collecting else gc.disable)()
    try:
        assert in_memory()(identity)(1) == 1
        assert gc.isenabled() == collecting
        with pytest.raises(TypingError):
            wrong(1)
        assert gc.isenabled() == collecting
    finally:
        (gc.enable if before else gc.disable)()


@compiled
def test_a_full_disk_stops_nothing(monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    @_jit.kernel
    def seven():
        return 7

    seven._cache.flush()
    monkeypatch.setattr(FunctionCache, "save_overload", full)
    assert seven() == 7


FITS = {
    "deepest": "deepest_regression('y ~ x', data, eps=3, mechanism='smooth', bounds=bounds)",
    "deepest-flat": "deepest_regression('y ~ I(0 * x)', data, eps=3, at=(-1, 1), "
    "mechanism='smooth', bounds={'y': (-10, 10)})",
    "tukey": "tukey_median('x + y ~ 1', data, eps=3, mechanism='smooth', bounds=bounds)",
    "median": "median('y ~ 1', data, eps=3, delta=1e-6, mechanism='smooth')",
    "median-bounds": "median('y ~ 1', data, eps=3, mechanism='smooth', bounds=bounds)",
    "medsweep": "medsweep('y ~ x', data, eps=3, delta=1e-6, variant='joint', clamp=10)",
}
COMPILED = """
import gc, json, os, sys, warnings
import numba, numpy as np, dpstats
from dpstats._jit import _Kernel
from dpstats.errors import ReleaseFailed
from dpstats.mechanisms import noise
warnings.simplefilter("ignore")
# once, and not in every child: imports, what Numba makes ready at its first call, and the search for kernels
[getattr(dpstats, name) for name in dpstats.__all__]
noise._opendp()
ready = numba.njit(lambda i: i)
ready(1)
there = lambda: [k for k in gc.get_objects() if isinstance(k, _Kernel)]
kernels = there()
gc.freeze()  # what a child finds is new
bounds = {"x": (-5, 5), "y": (-10, 10)}

def compiled(fit, usable):
    end, start = os.pipe()
    if not os.fork():
        data = dict(zip("xy", np.random.default_rng(0).normal(size=(2, 2500))))
        data["y"][usable:] = np.nan
        try:
            eval("dpstats." + fit)
        except ReleaseFailed:
            pass
        every = kernels + there()
        names = [f"{k.py_func.__module__}.{k.__name__}{s}" for k in every for s in k.overloads]
        os.write(start, json.dumps(sorted(names)).encode() or b" ")
        os._exit(0)
    os.close(start)
    os.wait()
    with open(end) as f:
        return json.load(f)

found = {}
for fit in sys.argv[1:]:
    compiled(fit, 300)  # from here on all is stored, and what is loaded is what Python calls
    found[fit] = [compiled(fit, usable) for usable in (300, 0, 1, 2, 3)]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def kernels_called(request):
    """What is compiled for 300, 0, 1, 2 and 3 usable rows, by fit, all found by one process."""
    wanted = {item.callspec.params["fit"] for item in request.session.items
              if "kernels_called" in getattr(item, "fixturenames", ())}  # fmt: skip
    store = {k: v for k, v in os.environ.items() if k == "NUMBA_CACHE_DIR"}
    code = f"import sys; sys.argv = {['', *(FITS[fit] for fit in sorted(wanted))]!r}\n{COMPILED}"
    done = run(code, PACKAGE.parent, NUMBA_DISABLE_JIT="0", **store)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@compiled
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("fit", FITS)
def test_what_is_compiled_and_stored_does_not_tell_how_many_rows_are_usable(fit, kernels_called):
    """Their number is private where that of all rows is public, and stored code outlives the process."""
    many, *few = kernels_called[FITS[fit]]
    assert many
    for names in few:
        assert names == many
