"""Environments that the real uv makes of wheels made here."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.executors.puppets import make_spec
from tests.wheels import uv_environ, write_wheel

from swell.executors.gang.host_messages import OpenRun, RunRefused
from swell.executors.local.agent.job_files import JobPlace, place_job
from swell.executors.local.agent.options import AgentOptions
from swell.executors.local.environments import CLOSED, KEPT_S, OPEN, EnvironmentSet, uv_words
from swell.executors.local.processes.listing import is_alive
from swell.model.event import Outcome
from swell.wire.job_inputs import JobInputs

pytestmark = pytest.mark.skipif(not uv_words(), reason="uv is not installed; `pip install uv`")
#: What a process of an environment tells of it.
TELL = """
import importlib.util, laba, labb, msgspec, swell, sys
assert importlib.util.find_spec("torch") is not None
print(laba.VERSION, labb.VERSION, swell.__file__, sys.prefix)
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in uv_environ(folder).items():
        monkeypatch.setenv(name, value)
    write_wheel(folder, "laba", "1.0", ["labb>=1", "torch>=2", "numpy"])
    write_wheel(folder, "labb", "1.0")
    write_wheel(folder, "labb", "2.0")
    write_wheel(folder, "torch", "1.0")
    write_wheel(folder, "msgspec", "0.1")
    return folder


@pytest.fixture
def environments(tmp_path: Path, wheels: Path) -> EnvironmentSet:
    return EnvironmentSet(tmp_path / "state")


def told(python: str) -> list[str]:
    return subprocess.run(
        [python, "-P", "-c", TELL], check=True, capture_output=True, text=True
    ).stdout.split()


def test_requirements_are_added_to_the_packages_that_are_there(environments: EnvironmentSet) -> None:
    import swell

    python = environments.made("laba", "", OPEN)
    prefix = str(Path(python).parents[1])
    assert told(python) == ["1.0", "2.0", swell.__file__, prefix]
    (packages,) = Path(prefix).glob("lib/python*/site-packages")
    added = {path.name.partition("-")[0] for path in packages.glob("*.dist-info")}
    assert added == {"laba", "labb"}, "torch and numpy were there"
    assert environments.made("laba", "", OPEN) == python
    assert environments.made("laba\nlabb==1.0", "", OPEN) != python


def test_it_is_made_once_whoever_asks_at_the_same_time(environments: EnvironmentSet, tmp_path: Path) -> None:
    others = EnvironmentSet(tmp_path / "state")  # as of an agent whose builds have outlived it
    with ThreadPoolExecutor(6) as threads:
        asked = [threads.submit(one.made, "laba", "", OPEN) for one in (environments, others) * 3]
        pythons = {one.result() for one in asked}
    assert len(pythons) == 1 and told(*pythons)
    assert [path.name for path in (tmp_path / "state" / "envs").iterdir() if path.is_dir()] == [
        Path(*pythons).parents[1].name
    ]


@pytest.mark.parametrize("line", ["torch==1.0", "msgspec==0.1", "nowhere"])
def test_what_contradicts_the_platform_or_is_nowhere_fails_in_words_of_uv(
    environments: EnvironmentSet, line: str
) -> None:
    with pytest.raises(ValueError, match=line) as failed:
        environments.made(f"labb\n{line}", "", OPEN)
    assert "unsatisfiable" in str(failed.value)
    assert told(environments.made("laba", "", OPEN)), "what fails leaves others as they are"


def test_unused_ones_go_when_another_is_made(environments: EnvironmentSet) -> None:
    old, used, young = (environments.made(text, "", OPEN) for text in ("labb==1.0", "labb==2.0", "laba"))
    for python in (old, used):
        os.utime(Path(python).parents[1], (0, time.time() - KEPT_S - 60))
    environments.made("laba\nlabb==1.0", "", OPEN, in_use={used})
    assert [os.path.exists(python) for python in (old, used, young)] == [False, True, True]
    assert environments.made("labb==1.0", "", OPEN) == old and os.path.exists(old)


def test_one_that_was_killed_half_way_is_made_again(environments: EnvironmentSet, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    (slow / "uv").write_text(f"#!/bin/sh\ntouch {slow}/begun\nexec sleep 600\n")
    (slow / "uv").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1) as threads:
        patch.setenv("PATH", str(slow), prepend=os.pathsep)
        asked = threads.submit(environments.made, "laba", "", OPEN)
        eventually((slow / "begun").exists, "a build that goes on")
        build = next(iter(environments._builds or ()))
        environments.end()
        with pytest.raises(ValueError, match="cannot be made"):
            asked.result()
    assert not is_alive(build.pid)
    assert told(EnvironmentSet(tmp_path / "state").made("laba", "", OPEN))


def test_no_code_of_a_package_runs_as_the_platform_for_another_account(
    environments: EnvironmentSet, wheels: Path, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    write_wheel(wheels, "labc", "1.0", more={"labc.pth": f"import os; open({str(ran)!r}, 'w')\n"})
    source = wheels / "labd-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(ran)!r}, 'w')")
    with tarfile.open(wheels / "labd-1.0.tar.gz", "w:gz") as archive:
        archive.add(source, "labd-1.0")
    with pytest.raises(ValueError, match="labd"):
        environments.made("labd", "", CLOSED)
    python = environments.made("labc", "", CLOSED)
    assert not ran.exists()
    subprocess.run([python, "-c", ""], check=True)
    assert ran.exists(), "it is code that a job of that environment runs"


def test_another_interpreter_has_its_own(environments: EnvironmentSet, tmp_path: Path) -> None:
    other = tmp_path / "other" / "bin" / "python"
    base = [sys.executable, "-m", "venv", "--without-pip", str(other.parents[1])]
    subprocess.run(base, check=True)
    (site,) = other.parents[1].glob("lib/python*/site-packages")
    folders = [path for path in sys.path if path.endswith(("site-packages", "src"))]
    (site / "ours.pth").write_text("".join(f"import site; site.addsitedir({path!r})\n" for path in folders))
    python = environments.made("laba", str(other), OPEN)
    assert told(python) and python != environments.made("laba", "", OPEN)


# ---------------------------------------------------------------- as a job has it
def test_a_job_gets_its_interpreter_and_variables(environments: EnvironmentSet, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "jobs" / "j"
    folder.mkdir(parents=True)
    JobInputs(variables={"KEY": "s3cret"}, requirements="laba").write(folder)
    spec = make_spec(workdir=str(tmp_path), entry="m:f", secrets=("KEY",), uv="0" * 64)
    order = OpenRun(run="j", job_id="j", spec=spec)
    place = place_job(AgentOptions(state_dir=tmp_path / "state"), order, environments.made)
    assert isinstance(place, JobPlace) and "s3cret" not in repr(place)
    assert place.environ["KEY"] == "s3cret" and place.environ["PATH"].startswith(
        os.path.dirname(place.python)
    )
    (folder / "inputs.json").unlink()
    (folder / "inputs.json").symlink_to("/etc/hostname")
    refused = place_job(AgentOptions(state_dir=tmp_path / "state"), order, environments.made)
    assert isinstance(refused, RunRefused) and "link" in refused.why
    (folder / "inputs.json").unlink()
    refused = place_job(AgentOptions(state_dir=tmp_path / "state"), order, environments.made)
    assert isinstance(refused, RunRefused) and refused.outcome is Outcome.FAILED
    assert "submit it again" in refused.why


def test_a_host_without_uv_is_one_that_lacks_something(
    environments: EnvironmentSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    order = OpenRun(run="j", job_id="j", spec=make_spec(workdir=str(tmp_path), uv="0" * 64))
    refused = place_job(AgentOptions(state_dir=tmp_path / "state"), order, environments.made)
    assert isinstance(refused, RunRefused) and refused.is_lacking and "pip install uv" in refused.why
