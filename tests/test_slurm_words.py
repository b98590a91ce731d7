"""GPUs are counted alike in all the ways in which Slurm writes them, whatever their types are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.sbatch import slurm_size
from swell.slurm_words import count_gpus

TYPES = ("a100", "v100", "1g.5gb", "2080ti", "nvidia_a100_80gb_pcie_1g.10gb", "a100-sxm4")


@pytest.mark.parametrize(
    ("resources", "num"),
    [
        ("gres/gpu:a100=4,gres/gpu:v100=2", 6),
        ("billing=8,cpu=64,gres/gpu=6,gres/gpu:a100=4,gres/gpu:v100=2,mem=8G,node=1", 6),
        ("gres/gpu:a100=4,gres/gpu=4", 4),
        ("gpu:1g.5gb:7", 7),
        ("gres/gpu:1g.5gb=7", 7),
        ("gpu:1g.5gb:4(S:0-1,3),gpu:3g.20gb:2(S:0)", 6),
        ("gpu:a100:4(IDX:0-1,3),gpu:2", 6),
        ("nvme:1,gres:gpu:2", 2),
        ("gres/gpu:2", 2),
        ("gpu", 1),
        ("gpu:1g.5gb", 1),
        ("gres/gpumem=80G,gres/gpuutil=30,mps:100", 0),
        ("(null)", 0),
        ("", 0),
    ],
)
def test_gpus_in_a_list_of_resources(resources: str, num: int) -> None:
    assert count_gpus(resources) == num


@given(st.dictionaries(st.sampled_from(TYPES), st.integers(1, 64), min_size=1), st.booleans())
def test_all_types_count_in_each_way_to_write_them(numbers: dict[str, int], has_total: bool) -> None:
    num = sum(numbers.values())
    gres = ",".join(f"gpu:{kind}:{each}(S:0-1)" for kind, each in numbers.items())
    tres = [f"gres/gpu:{kind}={each}" for kind, each in numbers.items()]
    assert count_gpus(gres) == count_gpus(",".join([*[f"gres/gpu={num}"] * has_total, *tres])) == num
    asked = ",".join(f"{kind}:{each}" for kind, each in numbers.items())
    sizes = {slurm_size({name: text}, 1) for name, text in (("gres", gres), ("gpus-per-node", asked))}
    assert {gpus for _, _, gpus in sizes} == {num}
