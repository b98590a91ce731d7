"""Options of `sbatch` and `srun` in all the forms that these take, and the size that they add up to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import pick

from swell.api.sbatch.errors import InvalidSbatchLine
from swell.api.sbatch.slurm_options import slurm_options
from swell.api.sbatch.slurm_size import SlurmSize, slurm_size

OPTIONS = pick(
    ("time", "t", "10"), ("nodes", "N", "2"), ("job-name", "J", "a b"), ("gpus", "G", "a100:4"),
    ("ntasks", "n", "8"), ("chdir", "D", "/data"), ("partition", "p", "gpu"), ("gres", "", "gpu:2"),
    ("gpus-per-node", "", "4"), ("mail-user", "", "me@here"),
)  # fmt: skip
FORMS = pick("--long=value", "--long value", "-s value", "-svalue", "--abbreviated=value")
#: Unique beginnings of long names.
SHORTENED = {"nodes": "nodes", "job-name": "job-n", "gpus": "gpus", "ntasks": "ntasks"}


def written(option: tuple[str, str, str], form: str) -> list[str]:
    name, letter, value = option
    if form == "-s value" and letter:
        return [f"-{letter}", value]
    if form == "-svalue" and letter:
        return [f"-{letter}{value}"]
    if form == "--long value":
        return [f"--{name}", value]
    return [f"--{SHORTENED.get(name, name) if form.startswith('--abbreviated') else name}={value}"]


@given(
    st.lists(st.tuples(OPTIONS, FORMS), max_size=5),
    pick("sbatch", "srun"),
    pick("", "torchrun --nodes -N", "python --exclusive --wait"),
)
def test_every_form_of_an_option_is_the_same_option(
    given_options: list[tuple[tuple[str, str, str], str]], program: str, behind: str
) -> None:
    words = [word for option, form in given_options for word in written(option, form)]
    found, rest = slurm_options(program, ["--exclusive", *words, *behind.split()], 1)
    expected = [(name, value) for (name, _, value), _ in given_options]
    assert found == [("exclusive", ""), *expected]
    assert rest == behind.split(), "options of what is run are its own"


def test_flags_and_optional_values() -> None:
    found, rest = slurm_options("sbatch", ["-W", "--exclusive=user", "--requeue", "-sN", "2"], 1)
    assert dict(found) == {"wait": "", "exclusive": "user", "requeue": "", "oversubscribe": "", "nodes": "2"}
    assert rest == []
    assert slurm_options("srun", ["-l", "-W", "3", "-K", "python"], 1)[0] == [
        ("label", ""),
        ("wait", "3"),
        ("kill-on-bad-exit", ""),
    ]


@pytest.mark.parametrize("words", [["--tiem=3"], ["-j", "x"], ["--nodes"], ["--requeue=no"], ["--gpu=1"]])
def test_an_option_that_is_none_is_named(words: list[str]) -> None:
    with pytest.raises(InvalidSbatchLine, match=r"line 3: sbatch: option .*; correct it"):
        slurm_options("sbatch", words, 3)


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({}, (1, 1, 0, 0)),
        ({"nodes": "2-4", "gpus-per-node": "4"}, (4, 4, 16, 4)),
        ({"nodes": "2", "gres": "nvme:1,gpu:a100:4(S:0)"}, (2, 2, 8, 4)),
        ({"gres": "gpu"}, (1, 1, 1, 1)),
        ({"gpus": "a100:4,v100:2"}, (1, 1, 6, 6)),
        ({"gpus": "8", "gpus-per-node": "4"}, (2, 2, 8, 4)),
        ({"gpus": "8", "ntasks-per-gpu": "2"}, (1, 16, 8, 8)),
        ({"ntasks": "8", "gpus-per-task": "1"}, (1, 8, 8, 8)),
        ({"ntasks": "8", "ntasks-per-node": "4", "gpus-per-node": "4"}, (2, 8, 8, 4)),
        ({"gpus": "8", "gpus-per-task": "2"}, (1, 4, 8, 8)),
        ({"nodes": "2", "ntasks-per-node": "3"}, (2, 6, 0, 0)),
        ({"ntasks": "4", "tres-per-task": "cpu:2,gres/gpu:2"}, (1, 4, 8, 8)),
    ],
)
def test_sizes(options: dict[str, str], size: tuple[int, int, int, int]) -> None:
    found = slurm_size(options, 1)
    assert found == SlurmSize(*size)
    assert found.variables["SLURM_NTASKS"] == size[1]
    assert found.variables.get("SLURM_GPUS_ON_NODE", 0) == size[3]


@given(*[st.integers(1, 6)] * 2)
def test_sizes_that_say_the_same_are_equal(nodes: int, gpus: int) -> None:
    of_node = slurm_size({"nodes": f"{nodes}", "gpus-per-node": f"{gpus}"}, 1)
    assert of_node == slurm_size({"nodes": f"{nodes}", "gpus": f"{nodes * gpus}"}, 1)
    assert of_node == slurm_size({"gpus-per-node": f"x:{gpus}", "gpus": f"{nodes * gpus}"}, 1)


@pytest.mark.parametrize(
    ("name", "value"), [("nodes", "a"), ("ntasks", "4.5"), ("gpus", "a100"), ("gpus-per-node", "²")]
)
def test_a_size_that_is_none_is_named(name: str, value: str) -> None:
    with pytest.raises(InvalidSbatchLine, match=f"--{name}={value}"):
        slurm_size({name: value}, 1)
