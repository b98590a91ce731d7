"""`swell repro`, as a user runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli import main

JOBS = """\
job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration
0,100,3600,net,9000,64,1,3600
1,700,3600,net,12000,64,4,1200
"""


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What Figure 6(b) needs, but with two jobs."""
    folder = tmp_path / "data"
    for name, text in (
        ("traces/195job.csv", JOBS),
        ("throughputs_A100/net.csv", "global_batch_size,1,2,4\n64,1.0,1.8,3.0\n"),
    ):
        file = folder / "elasticflow" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_figure_is_printed_and_kept(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["repro", "elasticflow", "6b", "--docs", "docs"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Figure 6(b)")
    rows = {words[1]: words for line in out.splitlines() if (words := line.split())[:1] == ["16x8"]}
    assert rows["elasticflow"][2:4] == ["elasticflow", "1.000"] or "1.000" in rows["elasticflow"]
    assert "0.667" in out and "0.390" in out  # printed
    assert {"6b.json", "6b.csv", "6b.png"} <= {file.name for file in Path("out/repro/elasticflow").iterdir()}
    assert Path("docs/results/elasticflow.md").exists()


def test_what_is_missed_ends_with_status_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = data / "elasticflow/traces/195job.csv"
    trace.write_text(JOBS.replace(",9000,", ",101,"))
    assert main.run(["repro", "elasticflow", "6b"]) == 1
    assert "swell: 6b misses a target: elasticflow on 16x8: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("elasticflow", "5"), "elasticflow has no experiment '5'; choose of 6a, 6b"),
        (("saxena", "fig1"), "saxena has no experiment 'fig1'; choose of fig2, fig5"),
        (("hu", "fig1"), "hu has no experiment 'fig1'; choose of fig9, fig10"),
        (("bftrainer", "fig2"), "bftrainer has no experiment 'fig2'; choose of "),
        (("bftrainer", "fig9"), "data lacks bftrainer/summit-idle-intervals-8d.csv.gz, bftrainer/first-"),
        (("elasticflow", "8a", "--data", "nowhere"), "nowhere lacks elasticflow/traces/elasticVpollux_e.csv"),
        (("elasticflow", "12", "--state", "nowhere"), "nowhere"),
        (
            ("default", "fifth"),
            "default has no experiment 'fifth'; choose of pollux, mixed, saxena, hu",
        ),
        (("default", "mixed"), "data lacks pollux/profiles, pollux/workloads/workload-3.csv"),
        (("flowcon", "alpha"), "flowcon has no experiment 'alpha'; choose of fixed, cpu, fig3"),
        (
            ("flowcon", "--live", "out", "--image", "py:1"),
            "--live tells again of runs, and plays none: leave",
        ),
        (("flowcon", "--live", "out", "--shorter", "2"), "--live tells again of runs, and plays none: leave"),
        (
            ("elasticflow", "6b", "--out", "data/elasticflow/traces/195job.csv"),
            "is a file; name a folder",
        ),
        (
            ("elasticflow", "6b", "--docs", "/dev/null/docs"),
            "--docs: cannot write /dev/null/docs: Not a directory",
        ),
        (("fidelity", "--out", "/dev/null"), "--out: /dev/null is a file; name a folder"),
    ],
)
def test_what_is_wrong_is_named_in_a_line(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    assert main.run(["repro", *words]) == (5 if words[-2:] == ("--state", "nowhere") else 2)
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and text in err
