"""One job of a file stands for each combination of its sweep."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swell.api.fields import InvalidField
from swell.api.job_file import MOST_JOBS, expanded, load
from swell.api.submission import parse
from swell.model.errors import InvalidJob

PLAIN = {"script": "train.py", "global_batch": 64, "steps": 10}


def jobs(**fields: Any) -> list[dict[str, Any]]:
    return expanded({**PLAIN, **fields})


def test_a_grid_is_a_job_for_each_combination_in_order() -> None:
    found = jobs(
        args=["--lr", "{lr}", "--out", "run-{lr}-{width}", "{other}"],
        env={"WIDTH": "{width}"},
        tags=["first"],
        sweep={"lr": [0.1, 1e-5], "width": [64, 128]},
    )
    assert [job["name"] for job in found] == [f"train-{number}" for number in (1, 2, 3, 4)]
    assert found[0]["args"] == ["--lr", 0.1, "--out", "run-0.1-64", "{other}"]
    assert found[3]["args"][3] == "run-1e-05-128"
    assert [job["env"] for job in found] == [{"WIDTH": 64}, {"WIDTH": 128}] * 2
    assert found[1]["tags"] == ["first", "lr=0.1", "width=128"]
    assert {job["group"] for job in found} == {"train"}
    assert all("sweep" not in job for job in found)


def test_combinations_may_be_listed_and_fields_and_names_be_parameters() -> None:
    found = jobs(
        name="net-{width}",
        group="nets",
        seed="{seed}",
        env={"WIDTH": "{width}"},
        sweep=[{"width": 64, "seed": 1}, {"width": 128, "seed": 2}],
    )
    assert [(job["name"], job["seed"], job["group"]) for job in found] == [
        ("net-64", 1, "nets"),
        ("net-128", 2, "nets"),
    ]
    assert [parse(job).seed for job in found] == [1, 2]
    assert jobs(name="net-{w}", args=["{w}"], sweep={"w": [1]})[0]["group"] == "net"


@pytest.mark.parametrize(
    ("sweep", "part"),
    [
        ({}, "is no sweep"),
        ("lr", "is no sweep"),
        ([], "is no sweep"),
        ([{"lr": 1}, {"width": 2}], "different parameters"),
        ({"lr": 0.1}, "give a list of its values"),
        ({"lr": []}, "give a list of its values"),
        ({"lr": [[1]]}, "texts and numbers only"),
        ({"lr": [None]}, "texts and numbers only"),
        ({"a b": [1]}, "letters, digits and underscores"),
        ({"lr": [1], "width": [1]}, "parameter width is not used; write {width}"),
        ({"lr": list(range(MOST_JOBS + 1))}, "more than 1000"),
    ],
)
def test_what_is_no_sweep_is_refused_with_a_remedy(sweep: Any, part: str) -> None:
    with pytest.raises(InvalidField) as error:
        jobs(args=["{lr}"], sweep=sweep)
    assert error.value.field == "sweep" and part in str(error.value)


def test_a_file_names_the_line_of_the_sweep(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "script: train.py\nglobal_batch: 64\nsteps: 9\nargs: ['{lr}']\nsweep:\n  lr: [0.1, 0.2]\n"
    )
    assert [job.submission.args for job in load(path)] == [(0.1,), (0.2,)]
    path.write_text("script: train.py\nsweep:\n  lr: [0.1, 0.2]\n")
    with pytest.raises(InvalidJob, match=r"line 2: sweep: parameter lr is not used"):
        load(path)


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"group": "a b"}, "is not a valid name of a group"),
        ({"tags": ["a b"]}, "is not a valid tag"),
        ({"tags": ["a,b"]}, "is not a valid tag"),
        ({"tags": ["x" * 101]}, "is not a valid tag"),
        ({"tags": [str(number) for number in range(21)]}, "more than 20"),
    ],
)
def test_groups_and_tags_have_a_form(fields: dict[str, Any], part: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    with pytest.raises(InvalidField, match=part):
        parse({**PLAIN, **fields}).to_spec(0.0, tmp_path)
    spec = parse({**PLAIN, "group": "g", "tags": ["b", "a", "b"]}).to_spec(0.0, tmp_path)
    assert (spec.group, spec.tags) == ("g", ("b", "a"))
