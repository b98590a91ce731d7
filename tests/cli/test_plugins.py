"""Policies and engines of other packages, in simulation and live, and those that cannot be used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import PLANE, job_id
from tests.policies.guide import sources
from tests.started_program import run_program

from swell.api.client import connect
from swell.platform_options import PlatformOptions
from swell.store.folder import StateFolder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ENGINE_GUIDE = ROOT / "docs/how-to/add-an-engine.md"
MACHINES = ROOT / "examples/swell_machines"
TRACE = "submit_s,id,num_devices,duration_s,deadline_s\n0,one,1,600,9000\n60,two,2,300,9000\n"
#: A group of commands, as `my_policies` adds it to `swell`.
COMMAND = """
import typer

from swell.policies.registry import POLICIES

app = typer.Typer()


@app.callback()
def begin():
    "What this site has added."


@app.command()
def packages(names: list[str]):
    "Print the package of each policy."
    for name in names:
        print(name, POLICIES[name].__module__.partition(".")[0])
"""
#: More than a command takes on a busy machine.
LIMIT_S = 100.0


@dataclass(frozen=True)
class Site:
    """A folder of packages that the program finds in its path, as if they were installed."""

    folder: Path

    def install(self, package: str, points: str, **modules: str) -> None:
        """`points`: entry points. `modules`: sources."""
        info, place = self.folder / f"{package}-1.0.dist-info", self.folder / package
        info.mkdir()
        place.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(textwrap.dedent(points))
        for name, source in {"__init__": "", **modules}.items():
            (place / f"{name}.py").write_text(source)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Packages are looked through when a command asks for them, not when the program is imported."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
        paths = os.pathsep.join((str(self.folder), str(ROOT / "src")))
        return run_program(
            *words,
            environ=plain | {"PYTHONPATH": paths, "SWELL_STATE": str(self.folder / "state")},
            timeout_s=LIMIT_S,
            folder=self.folder,
        )

    def ok(self, *words: object) -> str:
        done = self.run(*words)
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """With the policies and the engine of the guides, and with what cannot be used."""
    made = Site(tmp_path_factory.mktemp("site"))
    plain, periodic = sources()
    points = """
        [swell.policies]
        shortest_first = my_policies.plain:ShortestFirst
        periodic_shares = my_policies.periodic:PeriodicShares
        [swell.commands]
        mine = my_policies.command:app
    """
    made.install("my_policies", points, plain=plain, periodic=periodic, command=COMMAND)
    guide = ENGINE_GUIDE.read_text()
    points = re.findall(r"```toml\n.*?(machines = .*?)\n *```", guide, flags=re.DOTALL)[0].replace('"', "")
    engine, door = ((MACHINES / name).read_text() for name in ("engine.py", "door.py"))
    made.install("swell_machines", f"[swell.engines]\n{points}", engine=engine, door=door)
    points = """
        [swell.policies]
        unimportable = broken.missing:Policy
        nameless = broken.nameless:Nameless
        fifo = broken.nameless:Nameless
        [swell.engines]
        greedy = broken.greedy:Greedy
        doorless = broken.greedy:Doorless
        failing = broken.greedy:Failing
        absent = broken.absent:Absent
        [swell.commands]
        pictures = broken.absent:app
        up = broken.absent:app
    """
    nameless = "from swell.policies.policy import Policy\nclass Nameless(Policy): pass\n"
    greedy = """
        from typing import Annotated
        from msgspec import Meta
        from swell.executors.engine import Engine

        class Greedy(Engine):
            name = "greedy"
            policy: Annotated[str, Meta(description="taken.")] = ""

        class Doorless(Engine):
            name = "doorless"
            door = "broken.nowhere:Door"

        class Failing(Engine):
            name = "failing"

            def findings(self, listen):
                raise OSError("no cloud")
    """
    made.install(
        "broken", points, missing="import torch_of_old\n", nameless=nameless, greedy=textwrap.dedent(greedy)
    )
    (made.folder / "log.csv").write_text(TRACE)
    yield made
    made.run("down")


def test_a_policy_of_another_package_is_simulated_with_its_parameters(site: Site) -> None:
    words = ("simulate", "log.csv", "--cluster", "1x2", "--policy", "shortest_first,periodic_shares,fifo")
    told = json.loads(site.ok(*words, "--set", "periodic_shares.most_workers=1", "--json", "-"))
    assert [result["policy"] for result in told] == ["shortest_first", "periodic_shares", "fifo"]
    assert told[1]["truth"]["settings"]["periodic_shares.most_workers"] == 1


def test_a_policy_and_a_command_stand_beside_those_of_swell_and_its_papers(site: Site) -> None:
    told = site.ok("mine", "packages", "fifo", "tiresias", "shortest_first")
    assert told.splitlines() == ["fifo swell", "tiresias swell_papers", "shortest_first my_policies"]
    words = ("simulate", "log.csv", "--cluster", "1x2", "--policy", "shortest_first,tiresias,fifo")
    told = json.loads(site.ok(*words, "--json", "-"))
    assert [result["policy"] for result in told] == ["shortest_first", "tiresias", "fifo"]
    shown = [line.split()[:3] for line in site.ok("--help").splitlines() if line.startswith("  ")]
    assert ["mine", "A", "command"] in shown and ["repro", "A", "command"] in shown
    assert "Start the platform" in site.ok("up", "--help")


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ("periodic_shares.most=1", "has no parameter 'most'; it has most_workers, period_s"),
        ("periodic_shares.most_workers=0", "most_workers=0 may not be: Expected int >= 1"),
    ],
)
def test_its_parameters_are_checked_by_what_it_declares(site: Site, setting: str, rule: str) -> None:
    done = site.run("simulate", "log.csv", "--cluster", "1x2", "--set", setting)
    assert (done.returncode, done.stdout) == (2, "") and rule in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("policy", "cause"),
    [
        ("unimportable", "ModuleNotFoundError: No module named 'torch_of_old'"),
        ("nameless", "TypeError: policy Nameless has no name"),
    ],
)
def test_a_policy_that_cannot_be_used_says_why_in_one_line(site: Site, policy: str, cause: str) -> None:
    done = site.run("simulate", "log.csv", "--cluster", "1x2", "--policy", policy)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert f"policy '{policy}' of package broken 1.0 cannot be used ({cause}" in done.stderr
    assert "`pip uninstall broken`" in done.stderr


def test_an_engine_that_cannot_be_used_says_why_in_one_line(site: Site) -> None:
    done = site.run("up", "--engine", "greedy")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert (
        "engine 'greedy' of package broken 1.0 cannot be used (`swell up` has another option" in done.stderr
    )
    done = site.run("up", "--engine", "doorless", "--state", "other")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "broken.nowhere:Door fails (ModuleNotFoundError" in done.stderr


@pytest.mark.parametrize(
    ("engine", "finding"),
    [
        ("failing", "BAD   engine: failing fails (OSError: no cloud)"),
        ("doorless", "BAD   engine: its door broken.nowhere:Door cannot be imported (ModuleNotFoundError"),
    ],
)
def test_doctor_outlives_an_engine_that_fails(site: Site, engine: str, finding: str) -> None:
    state = StateFolder(site.folder / f"state-{engine}")
    state.create()
    state.write_options(PlatformOptions(devices="none", policy="fifo", preload=(), engine=engine))
    done = site.run("doctor", "--state", state.path)
    assert finding in done.stdout and "Traceback" not in done.stderr, done


def test_an_engine_and_a_policy_of_other_packages_run_a_job(site: Site) -> None:
    words = ("--engine", "machines", "--num-machines", 2, "--each", "paced:1@640")
    shown = site.ok("up", *words, "--policy", "periodic_shares", "--set", "periodic_shares.period_s=1")
    assert "policy periodic_shares" in shown and "machines that are started: 2" in shown
    with connect(site.folder / "state") as client:
        eventually(lambda: client.cluster().num_devices == 2, "two machines")
    script = ("--script", PLANE, "--workdir", site.folder, "--global-batch", 64, "--epochs", 2)
    job = job_id(site.ok("submit", *script, "--workers", "1:2", "--name", "plane"))
    with connect(site.folder / "state") as client:
        eventually(lambda: client.job(job).phase == "succeeded", "the end of the job")
    told = site.ok("doctor")
    assert "OK    plug-ins: policy shortest_first, of package my_policies 1.0" in told
    assert "WARN  plug-ins: policy 'unimportable' of package broken 1.0 cannot be used" in told
    assert "OK    machines: 2 with paced:1@640 each" in told
    site.ok("down")
    again = site.ok("up")
    assert "--engine machines" in again and "--num-machines 2, --each paced:1@640" in again
    site.ok("down")
    (site.folder / "my_policies-1.0.dist-info").rename(site.folder / "removed")
    local = ("--engine", "local", "--devices", "paced:1@640", "--policy", "fifo", "--set", "")
    done = site.run("up", *local)
    (site.folder / "removed").rename(site.folder / "my_policies-1.0.dist-info")
    assert done.returncode == 2, done
    assert (
        "the journal was written under policy 'periodic_shares', which cannot be used now" in done.stderr
    ), done
    assert "policy fifo" in site.ok("up", *local)
