"""Where a run took place: processor, memory, versions. No host name, no path."""

import hashlib
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dpstats

PACKAGES = (
    "numpy", "scipy", "pandas", "numba", "opendp", "statsmodels", "scikit-learn", "diffprivlib",
    "interpret-core",
)  # fmt: skip


def describe(mode):
    """A row for ``runs.csv``."""
    now = datetime.now(UTC)
    return {
        "run": f"{now:%Y%m%d-%H%M%S}-{mode}",
        "date": f"{now:%Y-%m-%d}",
        "mode": mode,
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory_gib": memory_gib(),
        "load": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else "",
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "dpstats": dpstats.__version__,
        "code": code(),
        **{package: installed(package) for package in PACKAGES},
    }


def processor():
    """The model's name."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_gib():
    """Memory of the machine."""
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30)
    except (ValueError, OSError, AttributeError):
        return ""


def installed(package):
    """Its version, or an empty text."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def code():
    """A digest of the sources of dpstats, so that results of different code are told apart."""
    root, digest = Path(dpstats.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:12]
