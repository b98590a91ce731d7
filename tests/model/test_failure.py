"""A failed job's reason is the error's own sentence, with the line of the user's script."""

from __future__ import annotations

import pytest

from swell.model.failure import MAX_CHARS, failure_sentence

IN_SCRIPT = """Traceback (most recent call last):
  File "/home/ada/job/train.py", line 12, in <module>
    cfg["learning"]
    ~~~^^^^^^^^^^^^
"""
IN_LIBRARY = """  File "/ada/lib/python3.11/site-packages/torch/module.py", line 1501, in _call_impl
    return forward_call(*args, **kwargs)
"""


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        (IN_SCRIPT + "KeyError: 'learning'\n", "KeyError: 'learning' (train.py:12)"),
        (IN_SCRIPT + IN_LIBRARY + "RuntimeError: shapes\n", "RuntimeError: shapes (train.py:12)"),
        (
            IN_SCRIPT + IN_LIBRARY + 'RuntimeError: Error(s) in loading state_dict for Net:\n\tMissing "a"\n',
            'RuntimeError: Error(s) in loading state_dict for Net: Missing "a" (train.py:12)',
        ),
        (
            IN_SCRIPT + "ValueError: Caught IndexError in DataLoader worker process 0.\n"
            'Original Traceback (most recent call last):\n  File "/home/ada/job/data.py", line 7, in get\n'
            "    return self.x[i]\nIndexError: list index out of range\n",
            "IndexError: list index out of range (data.py:7)",
        ),
        (
            "worker 3 (rank 1 of 4) failed in step 5:\n" + IN_SCRIPT + "KeyError: 'learning'",
            "KeyError: 'learning' (train.py:12)",
        ),
        (
            IN_SCRIPT + "swell.train.collective.gradients.LoopError: run.step was called twice",
            "run.step was called twice (train.py:12)",
        ),
        (
            '  File "/job/train.py", line 1\n    def broken(:\n               ^\nSyntaxError: invalid syntax',
            "SyntaxError: invalid syntax (train.py:1)",
        ),
        (
            "the model and one sample need more memory than the device has\n" + IN_SCRIPT + "MemoryError",
            "MemoryError (train.py:12); the model and one sample need more memory than the device has",
        ),
        (
            "worker 0 exited with status 1; its log ends:\nstarting\n" + IN_SCRIPT + "KeyError: 1\nbye\n",
            "KeyError: 1 (train.py:12)",
        ),
        (
            "worker 0 exited with status 2; its log ends:\nusage: train.py\ntrain.py: error: no --lr",
            "worker 0 exited with status 2; its log ends: train.py: error: no --lr",
        ),
        ("worker 1 was killed by SIGKILL", "worker 1 was killed by SIGKILL"),
        (
            "swell.train.runtime.runner.NotElasticError: train.py ended without it",
            "train.py ended without it",
        ),
        ("", ""),
    ],
)
def test_the_sentence_is_the_errors_own(message: str, sentence: str) -> None:
    assert failure_sentence(message) == sentence


def test_a_sentence_has_an_end() -> None:
    assert len(failure_sentence(IN_SCRIPT + "ValueError: " + "x" * 10_000)) == MAX_CHARS
