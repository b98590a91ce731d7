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
    """What Figure 8(a) needs, but with two jobs."""
    folder = tmp_path / "data"
    for name, text in (
        ("traces/elasticVpollux_e.csv", JOBS),
        ("throughputs_T4/net.csv", "global_batch_size,1,2,4\n64,1.0,1.8,3.0\n"),
    ):
        file = folder / "elasticflow" / name
        file.parent.mkdir(parents=True)
        file.write_text(text)
    monkeypatch.chdir(tmp_path)
    return folder


def test_a_figure_is_printed_and_kept(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["repro", "elasticflow", "8a", "--docs", "docs"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("Figure 8(a)")
    rows = {words[1]: words for line in out.splitlines() if (words := line.split())[:1] == ["16x4"]}
    assert rows["elasticflow"][2:4] == ["elasticflow", "1.000"] or "1.000" in rows["elasticflow"]
    assert "pollux" in rows and "0.523" in rows["pollux"]
    assert "these files were missing: elasticflow/published-simulator-runs/fig8a-edf-job.csv" in out
    assert {"8a.json", "8a.csv", "8a.png"} <= {file.name for file in Path("out/repro").iterdir()}
    assert Path("docs/results/elasticflow.md").exists()


def test_what_is_missed_ends_with_status_1(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = data / "elasticflow/traces/elasticVpollux_e.csv"
    trace.write_text(JOBS.replace(",9000,", ",101,"))
    assert main.run(["repro", "elasticflow", "8a"]) == 1
    assert "swell: 8a misses a target: elasticflow on 16x4: 0.500" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("elasticflow", "7"), "elasticflow has no experiment '7'; choose of 6b, 8a"),
        (("saxena", "fig1"), "saxena has no experiment 'fig1'; choose of fig5, fig6"),
        (("hu", "fig1"), "hu has no experiment 'fig1'; choose of fig9, fig10"),
        (("bftrainer", "fig1"), "bftrainer has no experiment 'fig1'; choose of table1, replayer"),
        (("bftrainer", "fig9"), "data lacks bftrainer/summit-idle-intervals-8d.csv.gz, bftrainer/first-"),
        (("elasticflow", "8a", "--data", "nowhere"), "nowhere lacks elasticflow/traces/elasticVpollux_e.csv"),
        (("elasticflow", "12", "--state", "nowhere"), "nowhere"),
        (
            ("elasticflow", "8a", "--out", "data/elasticflow/traces/elasticVpollux_e.csv"),
            "is a file; name a folder",
        ),
        (
            ("elasticflow", "8a", "--docs", "/dev/null/docs"),
            "--docs: cannot write /dev/null/docs: Not a directory",
        ),
        (("fidelity", "--out", "/dev/null"), "--out: /dev/null is a file; name a folder"),
    ],
)
def test_what_is_wrong_is_named_in_a_line(
    data: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], text: str
) -> None:
    assert main.run(["repro", *words]) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and text in err


def test_alone_it_shows_its_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["repro"]) == 0
    assert "elasticflow" in capsys.readouterr().out
