"""One-line mistakes in privacy and inference, each of which a named test must catch.

    python tests/mutants/run.py            all of mutants.toml, two at a time
    python tests/mutants/run.py ID ...     some of them
    python tests/mutants/run.py --table F  and the outcomes as a table of Markdown into a file

The project is copied; a mutant is made in a copy of its own and its tests are run there. The run fails if a
mutant lives, if its line is no longer found exactly once, if its tests cannot be run with it, or if they fail
without it.
"""

import argparse
import ast
import contextlib
import functools
import importlib
import itertools
import multiprocessing.connection
import os
import shutil
import sys
import tempfile
import time
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "Outcome", "compiled_after", "load", "problems", "run", "table"]

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.toml")
AT_ONCE = 2
SECONDS = 300
"""For the tests of one mutant."""
_LEFT_OUT = (".*", "build", "dist", "*.egg-info", "*.Rcheck", "rendered")
_OPTIONS = ("-q", "-p", "no:cacheprovider", "--tb=line", "-rfE")
_HEAVY = ("pytest", "numpy", "scipy.stats", "scipy.optimize", "scipy.integrate", "pandas", "numba", "patsy",
          "narwhals", "hypothesis", "hypothesis.extra.pytestplugin", "_hypothesis_pytestplugin",
          "xdist.plugin", "pytest_cov.plugin")  # fmt: skip
_PASSED, _FAILED = 0, 1


@dataclass(frozen=True)
class Mutant:
    """A mistake: `old`, part of one line of `file` that occurs once, becomes `new`.

    Attributes
    ----------
    id, file, old, new, why : str
    tests : tuple of str
        Node ids of pytest, the likeliest to fail first.
    """

    id: str
    file: str
    old: str
    new: str
    why: str
    tests: tuple[str, ...]

    def applied(self, text):
        """The text with the mistake in it."""
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: ``killed``, or ``ALIVE``, ``BROKEN`` (its tests did not run) or ``TOO
    LONG``."""

    id: str
    verdict: str
    by: str
    seconds: float


def load(path=LIST):
    """The mutants of a file."""
    with open(path, "rb") as file:
        entries = tomllib.load(file)["mutant"]
    return [Mutant(**entry | {"tests": tuple(entry["tests"])}) for entry in entries]


def problems(mutants, root=ROOT):
    """What is wrong with a list, in words; nothing of it is run."""
    found = [
        f"{name}: {n} mutants have this id" for name, n in Counter(m.id for m in mutants).items() if n > 1
    ]
    for m in mutants:
        path = Path(root, m.file)
        times = path.read_text().count(m.old) if m.old and path.is_file() else 0
        if times != 1:
            found.append(f"{m.id}: its line is found {times} times in {m.file}, not once")
        if "\n" in m.old + m.new or m.old == m.new:
            found.append(f"{m.id}: not the change of one line")
        if not (m.tests and m.why):
            found.append(f"{m.id}: no tests, or no reason")
        found += [
            f"{m.id}: there is no {t.partition('::')[0]}"
            for t in m.tests
            if not Path(root, t.partition("::")[0]).is_file()
        ]
    return found


def compiled_after(file, root=ROOT):
    """The files whose compiled functions may hold what is in `file`: it, and all that import it, through
    others too.

    Numba's caches go by the time of a function's own file, and know nothing of what was compiled into it from
    others.
    """
    imports = _imports(Path(root), Path(file).parts[0])
    found, waiting = set(), {file}
    while waiting:
        found.add(file := waiting.pop())
        waiting |= {other for other, targets in imports.items() if file in targets} - found
    return found


@functools.cache
def _imports(root, package):
    """Files of a package, and which others each imports."""
    modules = {}
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {}
    for path in modules.values():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
        graph[path.relative_to(root).as_posix()] = {
            modules[n].relative_to(root).as_posix() for n in names & modules.keys()
        }
    return graph


def _copy(source, target, function=shutil.copy2):
    # with their times, by which the caches of compiled functions go
    ignore = shutil.ignore_patterns(*_LEFT_OUT)
    return Path(shutil.copytree(source, target, ignore=ignore, symlinks=True, copy_function=function))


def _prepare(root):
    """Import what the tests import besides the project, once for all: the tests run in forks of this
    process."""
    for name in _HEAVY if Path(root) == ROOT else ("pytest",):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _pytest(copy, arguments, log, keep):
    """The body of a fork: run pytest in a copy, with its output in a file, and exit with its status."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 1)
    os.dup2(1, 2)
    os.chdir(copy)
    sys.path.insert(0, str(copy))
    sys.dont_write_bytecode = not keep
    import pytest

    status = pytest.main([*_OPTIONS, *arguments])
    sys.stdout.flush()
    os._exit(int(status))


def _mutated(pristine, target, mutant):
    """A copy of the project with a mistake in it, and without what was compiled of the files that the mistake
    reaches."""
    # links: whatever is written there, caches included, is written anew and moved into its place
    copy = _copy(pristine, target, os.link)
    for path in (copy / file for file in compiled_after(mutant.file, pristine)):
        for cache in path.parent.glob(f"__pycache__/{path.stem}.*.nb?"):
            cache.unlink()
    path = copy / mutant.file
    # the interpreter takes what it compiled for new if size and second of the file are the same
    for cache in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        cache.unlink()
    text = mutant.applied(path.read_text())
    path.unlink()
    path.write_text(text)
    return copy


def _forks(jobs, seconds=None):
    """Run pairs of a name and a callable that returns the arguments of :func:`_pytest`, some at once.

    Yields
    ------
    name, status, output, seconds
        The status is None for one that took too long.
    """
    context, jobs, running = multiprocessing.get_context("fork"), iter(jobs), {}
    while True:
        for name, arguments in itertools.islice(jobs, AT_ONCE - len(running)):
            copy, tests, log = arguments()
            process = context.Process(target=_pytest, args=(copy, tests, log, seconds is None))
            process.start()
            running[process.sentinel] = process, name, log, time.monotonic()
        if not running:
            return
        ended = multiprocessing.connection.wait(list(running), timeout=1)
        for sentinel, (process, name, log, began) in list(running.items()):
            took = time.monotonic() - began
            late = seconds is not None and took > seconds
            if sentinel in ended or late:
                if sentinel not in ended:
                    process.kill()
                process.join()
                yield name, process.exitcode if sentinel in ended else None, log.read_text(), took
                del running[sentinel]


def run(mutants, root=ROOT, tell=print):
    """Try every mutant.

    Returns
    -------
    wrong : list of str
        Why the run fails, if it does.
    outcomes : list of Outcome
        None of them if the list has problems, or the tests fail without any mutant.
    """
    if wrong := problems(mutants, root):
        return wrong, []
    _prepare(root)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        pristine = _copy(root, folder / "project")
        tests = sorted({test for m in mutants for test in m.tests})
        # by file, so that what a file computes once is computed once; this also compiles what is not in the
        # caches
        files = sorted({test.partition("::")[0] for test in tests})
        parts = [[t for t in tests if t.partition("::")[0] in files[i::AT_ONCE]] for i in range(AT_ONCE)]
        jobs = [
            (i, lambda i=i, part=part: (pristine, part, folder / f"{i}.txt"))
            for i, part in enumerate(parts)
            if part
        ]
        for _, status, output, _ in _forks(jobs):
            if status != _PASSED:
                lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR"))]
                wrong += [f"without any mutant: {line}" for line in lines or [output]]
        if wrong:
            return wrong, []
        jobs = (
            (
                m.id,
                lambda m=m: (_mutated(pristine, folder / m.id, m), ["-x", *m.tests], folder / f"{m.id}.txt"),
            )
            for m in mutants
        )
        found = {}
        for name, status, output, seconds in _forks(jobs, SECONDS):
            verdict = {_PASSED: "ALIVE", _FAILED: "killed", None: "TOO LONG"}.get(status, "BROKEN")
            lines = [line for line in output.splitlines() if line.startswith(("FAILED ", "ERROR "))]
            by = lines[0].partition(" ")[2] if lines else ""
            found[name] = Outcome(name, verdict, by, seconds)
            tell(f"{verdict:8} {seconds:5.1f} s  {name}: {by}")
            shutil.rmtree(folder / name)
    outcomes = [found[m.id] for m in mutants]
    return [f"{o.id}: {o.verdict} {o.by}".rstrip() for o in outcomes if o.verdict != "killed"], outcomes


def table(mutants, outcomes):
    """The outcomes as a table of Markdown."""
    lines = ["| mutant | file | killed by | s |", "|---|---|---|---|"]
    for m, o in zip(mutants, outcomes, strict=True):
        by = o.by.partition(" - ")[0].removeprefix("tests/") if o.verdict == "killed" else o.verdict
        lines.append(f"| {m.id} | `{m.file.removeprefix('dpstats/')}` | `{by}` | {o.seconds:.0f} |")
    return "\n".join(lines) + "\n"


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Mistakes that the tests must catch.")
    parser.add_argument("ids", nargs="*", metavar="ID")
    parser.add_argument("--table", metavar="FILE")
    parser.add_argument("--root", default=ROOT, help="another project")
    parser.add_argument("--list", default=LIST, help="another list")
    options = parser.parse_args(arguments)
    # one thread for each of the two processes; before anything reads it
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
        "COLUMNS": "200"
    }
    for name in ("NUMBA_CACHE_DIR", "PYTEST_ADDOPTS"):
        os.environ.pop(name, None)
    mutants = load(options.list)
    if unknown := set(options.ids) - {m.id for m in mutants}:
        parser.error(f"no mutant {', '.join(sorted(unknown))}")
    mutants = [m for m in mutants if not options.ids or m.id in options.ids]
    began = time.monotonic()
    wrong, outcomes = run(mutants, options.root, tell=lambda line: print(line, flush=True))
    minutes = (time.monotonic() - began) / 60
    killed = sum(o.verdict == "killed" for o in outcomes)
    print(f"{killed} of {len(mutants)} mutants killed in {minutes:.1f} minutes")
    if options.table and outcomes:
        Path(options.table).write_text(table(mutants, outcomes))
    print(*wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
