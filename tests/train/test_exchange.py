"""Real workers finish a tree's sum together, bit by bit as one process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.train.fake_agent import fork_script

SUMS = Path(__file__).parent / "scripts" / "sums.py"


@pytest.mark.slow
@pytest.mark.parametrize("num_workers", [2, 3, 6])
def test_bits_of_a_sum_do_not_depend_on_the_number_of_workers(num_workers: int, tmp_path: Path) -> None:
    processes = [
        fork_script(
            SUMS, (str(tmp_path / "store"), str(rank), str(num_workers)), tmp_path / f"log-{rank}", {}
        )
        for rank in range(num_workers)
    ]
    for rank, process in enumerate(processes):
        process.join(60)
        log = (tmp_path / f"log-{rank}").read_text()
        assert (process.exitcode, log) == (0, "all sums are equal\n")
