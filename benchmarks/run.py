"""Run the benchmark suite.

    python benchmarks/run.py                      # quick: some minutes on two cores
    python benchmarks/run.py --full               # hours
    python benchmarks/run.py --data DIR           # with the data sets that are not shipped
    python benchmarks/run.py --only speed         # one part; repeatable
    python benchmarks/run.py --publish            # also write benchmarks/results, docs/ and README.md
    python benchmarks/run.py --page               # only pages and figures, from the committed results

Results come in ``build/bench/<quick or full>/``, row by row, with a page and figures. The run is compared
with the committed results and says what got worse by more than its noise (exit code 3). ``--resume`` goes on
with an interrupted run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from suite import check, environment, page, pool, problems, store  # noqa: E402
from tqdm import tqdm  # noqa: E402

ROOT = Path(__file__).parents[1]
AUDIT = Path(__file__).parent / "audit" / "audit.py"
ALONE = ("speed",)  # parts that get the machine to themselves


def main(arguments=None):
    """Parse, run, compare, write."""
    options = parse(arguments)
    if options.page:
        return write_committed_pages()
    folder = ROOT / "build" / "bench" / options.mode
    if not options.resume:
        shutil.rmtree(folder, ignore_errors=True)
    started = time.monotonic()
    run = environment.describe(options.mode)
    logs = run_parts(options, folder, run)
    worse = report(folder, started)
    if options.publish:
        store.publish(folder, logs)
        write_committed_pages()
        print("Published: benchmarks/results, docs/benchmarks.md, docs/figures, README.md.")
    return 3 if worse else 0


def parse(arguments):
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", dest="mode", action="store_const", const="full", default="quick")
    parser.add_argument("--data", help="folder of the Parquet files that are not shipped")
    parser.add_argument("--only", action="append", choices=[*store.PARTS, "audit"], help="a part; repeatable")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args(arguments)
    options.only = options.only or [*store.PARTS, "audit"]
    options.data = options.data and str(Path(options.data).resolve())
    return options


def run_parts(options, folder, run):
    """Run the chosen parts under one progress bar; the tables are in `folder` afterwards."""
    missing = problems.available(options.data)[1]
    if "accuracy" in options.only and missing:
        print(f"Not shipped and not given with --data, so left out: {', '.join(missing)}.")
    parts = {name: module for name, module in store.PARTS.items() if name in options.only}
    logs = {name: store.Log(folder / f"{name}.jsonl", run, options.resume) for name in parts}
    todo = {
        name: logs[name].missing(module.tasks(options.mode, options.data)) for name, module in parts.items()
    }
    audit = start_audit(options.mode) if "audit" in options.only and AUDIT.exists() else None
    with tqdm(total=sum(map(len, todo.values())) + (audit is not None), unit="case", smoothing=0.05) as bar:
        for name, module in parts.items():
            alone = name in ALONE
            if alone:
                audit = finish_audit(audit, bar)
            bar.set_description(name)
            workers, threads = (1, None) if alone else (options.workers, 1)
            for task, rows, error in pool.run(module.run, todo[name], workers, threads):
                if error:
                    tqdm.write(f"{name}, {task}: {error}")
                else:
                    logs[name].add(task, rows)
                bar.update()
            for file, table in store.tables(name, logs[name].table(), run).items():
                store.write(table, file, folder)
        finish_audit(audit, bar)
    store.write(store.runs(run), "runs.csv", folder)
    return list(parts)


def start_audit(mode):
    """The privacy audit, a study of its own, beside the other parts; in its long version it writes its table
    itself."""
    arguments = ["--quick"] if mode == "quick" else []
    output = tempfile.TemporaryFile("w+")
    return subprocess.Popen([sys.executable, str(AUDIT), *arguments], stdout=output, stderr=output), output


def finish_audit(audit, bar):
    """Wait for the audit, if it was started and not waited for; its exit status says whether all rows are as
    they should be."""
    if audit is None:
        return
    bar.set_description("audit")
    process, output = audit
    process.wait()
    output.seek(0)
    told = output.read()
    verdict = "as it should be" if process.returncode == 0 else f"NOT as it should be:\n{told[-3000:]}"
    tqdm.write(f"Privacy audit: {verdict}")
    bar.update()


def report(folder, started):
    """Write the run's own page and say what got worse; True if anything did."""
    write_page(folder, folder)
    worse, tests = check.compare(lambda name: store.read(name, folder), store.read)
    print(
        f"{(time.monotonic() - started) / 60:.1f} minutes. "
        f"Tables, figures and page: {folder.relative_to(ROOT)}."
    )
    if worse:
        print(f"WORSE than the committed results by more than the noise ({tests} comparisons):")
        print("\n".join(f"  {line}" for line in worse))
    else:
        print(
            f"Not worse than the committed results in {tests} comparisons "
            f"(false-alarm rate {check.FALSE_ALARM:g})."
        )
    return bool(worse)


def write_committed_pages():
    """What the repository says, from the committed tables."""
    page.put_into_readme(ROOT / "README.md", store.COMMITTED)
    return write_page(store.COMMITTED, ROOT / "docs")


def write_page(source, target):
    """The page and its figures, from the tables in `source`."""
    figures = target / "figures"
    page.draw(source, figures)
    (target / "benchmarks.md").write_text(page.text(source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
