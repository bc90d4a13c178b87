"""Tasks in processes: whatever one of them does, the others are done, and its end is told."""

import pytest
from suite import pool

TASKS = {
    "__import__('os').environ['OMP_NUM_THREADS']": ("1", None),
    "1 / 0": (None, "ZeroDivisionError: division by zero"),
    "__import__('os')._exit(1)": (None, "the process died"),
    "__import__('time').sleep(60)": (None, "TimeoutError: more than 3 s"),
    "1 + 1": (2, None),
}


@pytest.mark.slow
def test_no_task_takes_the_others_down():
    ends = {task: (result, error) for task, result, error in pool.run(eval, list(TASKS), workers=2, limit=3)}
    assert ends == TASKS


def test_nothing_to_do():
    assert list(pool.run(eval, [], workers=2)) == []
