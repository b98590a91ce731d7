"""What the simulation benchmark runs and tells, on a log of a few lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.simulation import CASES, Case, chosen, machines, measure

LOG = """job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration
a,100,3000,any,9000,64,2,2000
b,150,500,any,9000,64,1,500
c,160,50000,any,200,64,1,50000
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "machines.csv").write_text(
        "machineId, number of GPUs, single GPU mem\nm0,2, 12GB\nm1,8, 24GB\n"
    )
    return tmp_path


@pytest.mark.parametrize("cluster", ["1x4", "machines.csv"])
def test_a_row_is_a_whole_run_and_its_digest_comes_out_again(data: Path, cluster: str) -> None:
    case = Case("few", "log.csv", cluster, profiles="law")
    first, second = (measure(case, data, 0) for _ in range(2))
    assert (first.jobs, first.turns) == (3, second.turns)
    assert first.digest == second.digest
    assert first.cpu_s == pytest.approx(first.read_s + first.head_s + first.world_s + first.figures_s)
    assert 0 < first.head_s < first.cpu_s and first.peak_mib > 1


def test_machines_of_a_list_are_nodes(data: Path) -> None:
    assert [(node.name, len(node.devices)) for node in machines(data / "machines.csv")] == [
        ("m0", 2),
        ("m1", 8),
    ]


def test_rows_are_chosen_by_how_their_names_begin() -> None:
    assert chosen("") == list(CASES)
    assert [case.name for case in chosen("philly,1000")] == ["1000", "philly-fifo", "philly-tiresias"]
    assert len({case.name for case in CASES}) == len(CASES)
