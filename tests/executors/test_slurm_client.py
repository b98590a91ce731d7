"""Slurm's commands: what they are asked, recorded answers, and what becomes of failures."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from swell.executors.node.options import NodeOptions
from swell.executors.slices.order import SliceOrder
from swell.executors.slices.port import ClusterError, SliceJob, SliceState
from swell.executors.slurm import slurm_client
from swell.executors.slurm.engine import SlurmEngine
from swell.executors.slurm.slurm_client import (
    SlurmClient,
    batch_script,
    parse_duration,
    parse_jobs,
)
from swell.model.finding import Level

ORDER = SliceOrder(host=NodeOptions(join="h:1", devices="cuda:2"), token="token")

Result = TypeVar("Result")

#: Slurm 22.05.8, `squeue -h --states=all -o "%A|%T|%N|%l|%L|%r"` .
SQUEUE = """\
7|PENDING||UNLIMITED|UNLIMITED|Job's account not known, so it can't use this partition (closed allows b)
1|PENDING||2:00:00|2:00:00|PartitionConfig
2|FAILED||1:00:00|INVALID|BadConstraints
4|RUNNING|n1|1:00:00|58:20|None
5|CANCELLED|n2|1-00:00:00|23:59:54|None
"""
#: The same of `sinfo -h -N -o "%N|%T"`: a node of three partitions, and one that is drained.
SINFO = """\
n1|idle
n1|idle
n2|drained
gpu-07.cluster|down*
"""
SCONTROL = (
    "PartitionName=prod AllowGroups=ALL AllocNodes=ALL Default=YES QoS=N/A GraceTime=0 MaxTime=UNLIMITED "
    "Nodes=n[1-4,7] PreemptMode=OFF State=UP\n"
    "PartitionName=scav AllowGroups=ALL AllocNodes=ALL Default=NO QoS=N/A GraceTime=30 MaxTime=1-01:00:00 "
    "Nodes=n[1-4,7] PreemptMode=REQUEUE State=DOWN\n"
)


class Programs:
    """Programs of Slurm that print what was recorded, and note what they were asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._asked = folder / "asked"

    def answer(
        self, program: str, out: str = "", err: str = "", status: int = 0, *, hangs: bool = False
    ) -> None:
        (self._folder / f"{program}.out").write_text(out)
        (self._folder / f"{program}.err").write_text(err)
        at = self._folder / program
        lines = [
            "#!/bin/sh",
            f'echo "$0 $*" >> {self._asked}',
            f"[ $(basename $0) = sbatch ] && cat > {self._folder}/given",
            f"env > {self._folder}/environ",
            "exec sleep 600" if hangs else "",
            f"cat {at}.out; cat {at}.err >&2; exit {status}",
        ]
        at.write_text("\n".join(lines))
        at.chmod(at.stat().st_mode | stat.S_IXUSR)

    @property
    def asked(self) -> list[str]:
        return [Path(line).name for line in self._asked.read_text().splitlines()]

    def read(self, name: str) -> str:
        return (self._folder / name).read_text()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made = Programs(tmp_path)
    made.answer("scontrol", SCONTROL)
    return made


def run(work: Coroutine[None, None, Result]) -> Result:
    return asyncio.run(work)


def client(partition: str = "scav") -> SlurmClient:
    return SlurmClient("swell-abc", partition, ("--nodes=1", "--gres=gpu:2"))


# ---------------------------------------------------------------- what is asked
def test_one_look_is_one_query_of_jobs_and_one_of_nodes(programs: Programs) -> None:
    programs.answer("squeue", SQUEUE)
    programs.answer("sinfo", SINFO)
    programs.answer("scontrol", SCONTROL.splitlines()[1])
    slurm = client()
    read = [run(slurm.read()) for _ in range(2)][-1]
    assert [job.id for job in read.jobs] == [7, 1, 2, 4, 5]
    assert (read.num_fit, read.idle, read.grace_s) == (3, ("n1",), 30.0)
    assert programs.asked[0] == "scontrol show partition scav --oneliner", "once"
    assert sorted(programs.asked[3:]) == [
        "sinfo -h -N -o %N|%T --partition=scav",
        f"squeue -h --user={os.getuid()} --name=swell-abc --states=all -o %A|%T|%N|%l|%L|%r",
    ]


def test_a_slice_that_has_failed_is_told_with_the_last_words_of_its_host(
    programs: Programs, tmp_path: Path
) -> None:
    programs.answer("squeue", "1|FAILED|n1|1:00|N/A|NonZeroExitCode\n2|FAILED|n1|1:00|N/A|NonZeroExitCode\n")
    programs.answer("sinfo", SINFO)
    programs.answer("scontrol", SCONTROL)
    (tmp_path / "slurm").mkdir()
    slices = SlurmClient("swell-abc", "", (), tmp_path / "slurm")
    said = "swell: host 'n1-1' has torch 2.5, this platform has torch 2.6"
    (tmp_path / "slurm" / "1.out").write_text(f"noise\n{said}\nslurmstepd: error: exit\n")
    first, second = run(slices.read()).jobs
    assert first.words == "FAILED, host 'n1-1' has torch 2.5, this platform has torch 2.6"
    assert second.words == "FAILED, NonZeroExitCode"


def test_a_slice_is_submitted_by_name_with_its_script_as_input(programs: Programs) -> None:
    programs.answer("sbatch", "41;cluster\n")
    assert run(client().submit(ORDER, "n3")) == 41
    assert programs.asked == ["sbatch --parsable --job-name=swell-abc --nodes=1 --gres=gpu:2 --nodelist=n3"]
    assert programs.read("given") == batch_script(ORDER)


def test_variables_of_the_job_in_which_the_head_runs_stay_with_the_head(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SLURM_JOB_ID", "SBATCH_PARTITION", "SLURM_CPUS_PER_TASK", "SQUEUE_FORMAT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm.conf")
    programs.answer("sbatch", "1\n")
    run(client().submit(ORDER))
    told = programs.read("environ").splitlines()
    assert not any(line.startswith(("SLURM_JOB_ID", "SBATCH_", "SLURM_CPUS", "SQUEUE_")) for line in told)
    assert "SLURM_CONF=/etc/slurm.conf" in told


def test_what_is_to_be_cancelled_is_one_command_and_nothing_is_none(programs: Programs) -> None:
    programs.answer("scancel")
    run(client().cancel([]))
    run(client().cancel([7, 3]))
    assert programs.asked == ["scancel --quiet 3 7"]


# ---------------------------------------------------------------- what they print
def test_jobs_are_read() -> None:
    held, waits, failed, runs, cancelled = parse_jobs(SQUEUE)
    assert held.reason.startswith("Job's account not known") and held.limit_s is None
    assert waits == SliceJob(
        id=1, state=SliceState.WAITING, word="PENDING", limit_s=7200, left_s=7200, reason="PartitionConfig"
    )
    assert failed.word == "FAILED" and failed.state is SliceState.FAILED and failed.reason == "BadConstraints"
    assert runs == SliceJob(
        id=4, state=SliceState.RUNNING, word="RUNNING", node="n1", limit_s=3600, left_s=3500.0
    )
    assert cancelled.limit_s == 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300), ("59:58", 3598), ("1:00:00", 3600), ("2-00", 172800), ("1-02:03", 93780),
        ("1-02:03:04", 93784), ("0:00", 0), ("UNLIMITED", None), ("INVALID", None), ("", None),
    ],
)  # fmt: skip
def test_durations_are_read_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert parse_duration(text) == seconds


# Failures in the words of Slurm 22.05.8. Those of accounts, QOS and limits were not seen live.
DOWN = "Unable to contact slurm controller (connect failure)"
MUNGE = (
    "squeue: error: If munged is up, restart with --num-threads=10\n"
    'squeue: error: Munge encode failed: Failed to connect to "/run/munge.socket": Connection refused\n'
    "slurm_load_jobs error: Protocol authentication error\n"
)


@pytest.mark.parametrize(
    ("err", "told"),
    [
        (f"slurm_load_jobs error: {DOWN}\n", DOWN),
        (MUNGE, "Munge encode failed"),
        ("squeue: error: a word that no version has\n", "squeue: a word that no version has"),
    ],
)
def test_where_slurm_does_not_answer_its_words_are_told_in_one_line(
    programs: Programs, err: str, told: str
) -> None:
    programs.answer("squeue", err=err, status=1)
    programs.answer("sinfo", SINFO)
    with pytest.raises(ClusterError) as failed:
        run(client().read())
    assert told in str(failed.value) and "\n" not in str(failed.value) and not failed.value.is_final


def test_a_command_that_hangs_is_ended(programs: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm_client, "LIMIT_S", 0.05)
    programs.answer("scancel", hangs=True)
    with pytest.raises(ClusterError, match=r"scancel did not answer within 50 ms"):
        run(client().cancel([1]))


@pytest.mark.parametrize(
    "err",
    [
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        "sbatch: error: Batch job submission failed: Invalid account or account/partition combination "
        "specified",
        "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: Job violates "
        "accounting/QOS policy (job submit limit, user's size and/or time limits)",
        "sbatch: error: Batch job submission failed: Something new",
    ],
)
def test_what_slurm_refuses_is_told_in_its_words(programs: Programs, err: str) -> None:
    programs.answer("sbatch", err=f"{err}\n", status=1)
    with pytest.raises(ClusterError) as refused:
        run(client().submit(ORDER))
    words = str(refused.value)
    assert words.startswith("sbatch: ") and err.splitlines()[-1].partition("error: ")[2] in words


def test_without_slurms_commands_the_remedy_is_a_login_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match=r"sbatch cannot be run .* start it on a login node"):
        run(client().submit(ORDER))


# ---------------------------------------------------------------- the doctor
def found(**options: Any) -> list[tuple[Level, str, str]]:
    engine = SlurmEngine(**({"partition": "scav"} | options))
    return [(finding.level, finding.text, finding.remedy) for finding in engine.findings("")]


@pytest.fixture
def healthy(programs: Programs) -> Programs:
    programs.answer("scontrol", SCONTROL.splitlines()[1].replace("State=DOWN", "State=UP"))
    programs.answer("sinfo", SINFO)
    programs.answer("sbatch", err="sbatch: Job 11 to start at 2026-11-26T19:24:38 using 1 processors\n")
    for program in ("squeue", "scancel"):
        programs.answer(program)
    return programs


def test_a_partition_that_takes_a_slice_is_well(healthy: Programs) -> None:
    assert found() == [(Level.OK, "partition scav has 3 nodes, 1 idle; it takes a slice", "")]
    assert "sbatch --test-only " in " ".join(healthy.asked), "no job is submitted"


def test_a_slurmctld_that_is_down_is_told_with_its_words(healthy: Programs) -> None:
    healthy.answer("squeue", err=f"slurm_load_jobs error: {DOWN}\n", status=1)
    ((level, text, remedy),) = found()
    assert level is Level.BAD and DOWN in text and "`scontrol ping`" in remedy


def test_a_partition_without_a_grace_time_is_none_to_borrow_from(healthy: Programs) -> None:
    healthy.answer("scontrol", "PartitionName=scav GraceTime=0\n")
    _, (level, text, remedy) = found(is_borrowed=True)
    assert level is Level.WARN and "has no GraceTime" in text and remedy
