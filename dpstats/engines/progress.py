"""A progress bar on a terminal, for what takes a while; nothing where tqdm is not installed.

It counts groups, which are public. How many passes over the rows an estimator makes may depend on the rows
(:class:`~dpstats.linear.gradients.Gradients`), so that of passes it shows the time alone.
"""

from typing import Any

from dpstats._quiet import quiet

__all__ = ["progress"]


def progress(total: int | None, label: str, unit: str, *, everywhere: bool = False, delay: float = 1) -> Any:
    """A bar of tqdm, with ``update(steps)`` and ``close()``; it is a context manager, too.

    Parameters
    ----------
    total : int or None
        None where the steps are not public: the time that has passed is shown.
    label, unit : str
    everywhere : bool
        Whether to show it where there is no terminal, too.
    delay : float
        Seconds until it is shown.

    Examples
    --------
    >>> with progress(3, "median", "group") as bar:
    ...     bar.update(1)
    """
    try:
        with quiet():  # in a notebook without widgets it says so, with its path
            from tqdm.auto import tqdm
    except ImportError:
        return _NoBar()
    shown = None if total is not None else "{desc} [{elapsed}]"
    disable = False if everywhere else None
    return tqdm(total=total, desc=label, unit=unit, disable=disable, delay=delay, bar_format=shown)


class _NoBar:
    def update(self, steps: int) -> None:
        pass

    def close(self) -> None:
        pass

    def __enter__(self) -> "_NoBar":
        return self

    def __exit__(self, *error: object) -> None:
        pass
