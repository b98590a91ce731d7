"""Which code and which environment the processes of a job have."""

from __future__ import annotations

import os
import signal
import sys
import venv
from pathlib import Path

import pytest
from tests.platform.program import ENDLESS, PLANE, Program, job_id, read_diary, submission

pytestmark = pytest.mark.slow

FOREWORD = """
import helper
sys.path.append("modules")
import added
here = Path(__file__).parent
facts = ("{version}", helper.VERSION, (here / "config").read_text(), (here / "large").stat().st_size)
with open("starts", "a") as starts:
    print(*facts, added.VERSION, os.environ.get("MOOD"), file=starts)
"""


def write_version(folder: Path, version: str) -> None:
    """plane.py with a module, a small and a large file beside it."""
    first, rest = PLANE.read_text().split("from swell import train\n")
    (folder / "train.py").write_text(
        f"{first}from swell import train\n{FOREWORD.format(version=version)}{rest}"
    )
    (folder / "modules").mkdir(exist_ok=True)
    (folder / "modules" / "added.py").write_text(f"VERSION = {version!r}\n")
    (folder / "helper.py").write_text(f"VERSION = {version!r}\n")
    (folder / "config").write_text(version)


def test_a_job_runs_what_was_submitted_whatever_becomes_of_its_files(swell: Program, tmp_path: Path) -> None:
    write_version(tmp_path, "old")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(2**21)
    options = ("--epochs", ENDLESS, "--workers", 2, "--env", "MOOD=calm")
    told = swell.ok(*submission(tmp_path, *options, script=tmp_path / "train.py"))
    assert told.endswith("\n  not in the copy of the code: large (2.1 MB)\n")
    job = job_id(told)
    before = swell.await_training(job, 2, tmp_path)
    write_version(tmp_path, "new")
    os.kill(before.live_pids[1], signal.SIGKILL)
    healed = swell.await_job(
        job, lambda view: len(set(view.live_pids) - set(before.live_pids)) == 1, "another worker"
    )
    assert healed.workers == 2
    swell.await_steps(tmp_path, 3)
    os.kill(healed.live_pids[0], signal.SIGKILL)
    swell.await_steps(tmp_path, 3)
    ended = swell.finish(job, tmp_path)
    starts = (tmp_path / "starts").read_text().splitlines()
    assert len(starts) >= 3, "of two workers and of the one that joined; the trial run writes elsewhere"
    assert set(starts) == {f"old old old {2**21} old calm"}
    assert f"snapshot {ended.code[:12]}" in swell.ok("show", job)
    assert {entry.step for entry in read_diary(tmp_path)} == set(range(1, ended.steps + 1)), (
        "it writes where it always did"
    )


def test_a_traceback_names_the_file_that_its_user_has(swell: Program, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def divide(a, b):\n    return a / b\n")
    (tmp_path / "train.py").write_text(
        "import helper, pathlib\npathlib.Path('helper.py').write_text('')\nhelper.divide(1, 0)\n"
    )
    options = ("--elasticity", "restart", "--workers", 1)
    job = job_id(swell(*submission(tmp_path, *options, script=tmp_path / "train.py")).stdout)
    swell.await_end(job, "failed")
    told = swell.ok("show", job)
    assert f'File "{tmp_path}/helper.py", line 2, in divide\n    return a / b' in told


def test_live_code_is_that_of_now_and_what_is_written_beside_a_snapshot_stays_there(
    swell: Program, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text("from pathlib import Path\n(Path(__file__).parent / 'made').mkdir()\n")
    options = ("--elasticity", "restart", "--workers", 1)
    live = swell.submit(tmp_path, *options, "--code", "live", script=script)
    assert swell.await_end(live).code == ""
    assert (tmp_path / "made").is_dir()
    (tmp_path / "made").rmdir()
    taken = swell.await_end(swell.submit(tmp_path, *options, script=script))
    assert not (tmp_path / "made").exists()
    assert Path(f"{swell.state}/jobs/{taken.id}/code{tmp_path}/made").is_dir()


def make_environment(folder: Path, *, is_complete: bool) -> Path:
    """The interpreter of a virtual environment; a complete one has all that this one has."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    installed = [path for path in sys.path if "site-packages" in path or path.endswith("src")]
    (site / "ours.pth").write_text("\n".join(installed) if is_complete else "")
    return folder / "bin" / "python"


def test_a_job_has_the_interpreter_and_the_variables_that_it_asks_for(swell: Program, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "env", is_complete=True)
    work = tmp_path / "work"
    work.mkdir()
    (work / "extra").mkdir()
    (work / "extra" / "module.py").write_text("NAME = 'extra'\n")
    (work / "train.py").write_text(
        "import os, sys, module\n"
        "print('prefix', sys.prefix, module.NAME, module.__file__, os.environ['MOOD'], os.environ['RANK'])\n"
    )
    (work / "job.yaml").write_text(
        "script: train.py\nelasticity: restart\nworkers: 1\npython: ../env/bin/python\n"
        f"env:\n  MOOD: 7\n  PYTHONPATH: {work}/extra\n"
    )
    job = job_id(swell.ok("submit", work / "job.yaml"))
    swell.await_end(job)
    module = f"{swell.state}/jobs/{job}/code{work}/extra/module.py"
    assert f"prefix {python.parents[1]} extra {module} 7 0" in swell.ok("logs", job)
    bare = make_environment(tmp_path / "bare", is_complete=False)
    refused = swell(*submission(work, "--steps", 1, "--python", bare, script=work / "train.py"))
    assert refused.returncode != 0
    assert f"torch is not installed for {bare}" in refused.stderr and "swell[torch]" in refused.stderr
