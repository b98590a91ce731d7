"""`swell up --engine slurm` on a real Slurm: two nodes of two devices, and jobs of others that preempt."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.platform.program import Program, read_diary, submission
from tests.platform.starts import WITHIN_S, begin, hosts
from tests.slurm.cluster import SlurmCluster

from swell.model.view import JobView
from swell.sim.pool import read_pool

UP = (
    "up", "--engine", "slurm", "--partition", "scav", "--max-nodes", "2", "--slice-devices", "paced:2@640",
    "--listen", "127.0.0.1:0",
)  # fmt: skip
LONG = 9_000  #: epochs of half an hour on four devices


def await_workers(slurm: SlurmCluster, program: Program, job: str, num: int) -> JobView:
    def look() -> JobView | None:
        slurm.resume_nodes()
        view = program.job(job)
        return view if view.workers == num and view.phase == "running" else None

    try:
        return eventually(look, f"{num} workers of {job}", WITHIN_S)
    except AssertionError:
        log = (program.state / "agent.log").read_text()[-4000:]
        print(program.ok("nodes"), program.ok("explain", job), log, sep="\n")
        print(slurm.run("squeue").stdout, slurm.run("sinfo", "-N").stdout, sep="\n")
        raise


def steps(folder: Path) -> list[int]:
    return [entry.step for entry in read_diary(folder)]


def node_of(host: str) -> str:
    return host.partition("-")[0]


def run_for_others(slurm: SlurmCluster, node: str, seconds: int = 600) -> str:
    """A job of a partition that preempts; its id."""
    words = ("-p", "prod", "-w", node, "-c", "2", "-o", "/dev/null", "--wrap", f"sleep {seconds}")
    return slurm.run("sbatch", "--parsable", *words).stdout.strip()


def is_running(slurm: SlurmCluster, job: str) -> bool:
    return slurm.run("squeue", "-h", "-j", job, "-o", "%T").stdout.strip() == "RUNNING"


@pytest.mark.soak
def test_a_job_grows_with_its_slices_and_goes_on_through_preemption_and_a_restart_of_slurmctld(
    slurm: SlurmCluster, program: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "job"
    assert "Slurm: slices are asked for" in program.ok(*UP, "--idle-s", "1")
    job = begin(program, folder)
    await_workers(slurm, program, job, 4)
    program.await_steps(folder, 5)
    first = hosts(program)

    others = run_for_others(slurm, node_of(first[0]))
    eventually(lambda: is_running(slurm, others))
    view = await_workers(slurm, program, job, 2)
    assert {device.partition("/")[0] for device in view.devices} == {first[1]}
    assert first[0] not in hosts(program)
    slurm.stop("slurmctld")
    program.await_steps(folder, 20)
    slurm.start_controller()
    slurm.run("scancel", others)
    view = await_workers(slurm, program, job, 4)
    assert first[1] in {device.partition("/")[0] for device in view.devices}, "its host was never lost"

    program.finish(job, folder)
    done = steps(folder)
    assert done == list(range(1, len(done) + 1)), "no step was lost, and none done twice"
    eventually(lambda: not slurm.jobs(), what=lambda: slurm.run("squeue").stdout)


@pytest.mark.slow
def test_no_promise_counts_on_a_slice_beyond_its_time_limit(
    slurm: SlurmCluster, program: Program, tmp_path: Path
) -> None:
    """Half an hour of training at the largest size, on slices of ten minutes."""
    program.ok(*UP, "--sbatch", "--time=10", "--min-nodes", "2")

    def are_there() -> bool:
        nodes = program.json("nodes")["nodes"]
        return len(nodes) == 2 and all(node["until_s"] for node in nodes)

    eventually(are_there, "two slices whose ends are known", WITHIN_S)
    assert "no promise counts on it beyond" in program.ok("nodes")
    assert {node["rack"] for node in program.json("nodes")["nodes"]} == {"s1"}, "the switch of both"
    folder = tmp_path / "job"
    folder.mkdir()
    words = ("--workers", "1:4", "--epochs", LONG, "--or-nothing", "--deadline", "now+7200s")
    done = program(*submission(folder, *words))
    assert done.returncode == 3, done
    assert "4 devices of 4 will be gone before then" in done.stdout


@pytest.mark.slow
def test_what_slurm_refuses_is_told_at_the_start_by_the_doctor_and_beside_the_nodes(
    slurm: SlurmCluster, program: Program
) -> None:
    done = program("up", "--engine", "slurm", "--partition", "nosuch", "--listen", "127.0.0.1:0")
    assert done.returncode == 2
    assert "Partition nosuch not found" in done.stderr
    program.ok(*UP)
    said = program("doctor").stdout
    assert re.search(r"OK +slurm: partition scav has 2 nodes, 2 idle; it takes a slice", said), said
    program.ok("down")
    program.ok(*UP, "--sbatch", "--constraint=big", "--min-nodes", "1")
    said = program("doctor").stdout
    assert re.search(r"BAD +slurm: .*Invalid feature specification\n +-> see `scontrol ping`", said), said

    def lost() -> str:
        text = program.ok("nodes")
        return text if "lost: slurm-slices, " in text else ""

    said = eventually(lost, "why there is no slice")
    assert "Invalid feature specification" in said


@pytest.mark.soak
def test_idle_nodes_are_borrowed_given_up_to_others_and_logged_for_simulations(
    slurm: SlurmCluster, program: Program, tmp_path: Path
) -> None:
    others = run_for_others(slurm, "n1")
    eventually(lambda: is_running(slurm, others))
    program.ok(*UP, "--borrowed")
    folder = tmp_path / "job"
    job = begin(program, folder)
    await_workers(slurm, program, job, 2)
    (node,) = program.json("nodes")["nodes"]
    assert node_of(node["name"]) == "n2" and node["is_borrowed"], "n1 is not asked for"
    slurm.run("scancel", others)
    await_workers(slurm, program, job, 4)
    others = run_for_others(slurm, "n2")
    eventually(lambda: is_running(slurm, others))
    await_workers(slurm, program, job, 2)
    program.finish(job, folder)
    done = steps(folder)
    assert done == list(range(1, len(done) + 1))
    program.ok("down")
    pool = read_pool(program.state / "slurm" / "pool.csv")
    assert {interval.node for interval in pool.intervals} == {"n1", "n2"}
