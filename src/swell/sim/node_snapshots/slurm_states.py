"""Which states of Slurm are those of an idle node, and how many GPUs a node has."""

from __future__ import annotations

from collections.abc import Collection

from swell.slurm_gpus import count_gpus

#: A planned node is idle until the job starts for which it is kept free.
IDLE_WORDS = frozenset({"idle", "idle-", "plnd", "planned"})
#: What may stand with IDLE in JSON.
IDLE_FLAGS = frozenset({"IDLE", "PLANNED"})


def is_idle_word(word: str) -> bool:
    """`idle` and planned nodes. `idle*` does not answer, `idle~` is off, `mix` is in part taken."""
    return word.lower() in IDLE_WORDS


def are_idle_flags(flags: Collection[str]) -> bool:
    """Whether states in JSON are those of an idle node: `["IDLE"]`, `["IDLE", "PLANNED"]`."""
    return "IDLE" in flags and IDLE_FLAGS.issuperset(flags)


def num_devices(gres: str) -> int:
    """GPUs of `gpu:a100:4(S:0-1),gpu:2`; 1 for a node without any."""
    return count_gpus(gres) or 1
