"""A job on machines that have only the storage in common with the one where it was submitted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.executors.puppets import make_spec
from tests.machines.namespaces import HOME, STORAGE, Network, why_not
from tests.machines.test_joining_machines import IMPORTABLE, HeadMachine, HostMachine

from swell.executors.local.agent.options import DEFAULT_CALL, DEFAULT_PRELOAD
from swell.model.event import GangEnded, GangStarted, Outcome
from swell.wire.checkpoint_files import newest_whole, steps_in

TINY = Path(__file__).parents[1] / "executors" / "train_tiny.py"
PROJECT = f"{HOME}/project"
#: Run on the head's machine: a submission keeps the code in this way.
TAKE = """
import pathlib, sys
from swell.store.code_store import CodeStore
storage = pathlib.Path(sys.argv[2])
(storage / "jobs" / "job-1").mkdir(parents=True)
print(CodeStore(storage).take(sys.argv[1], sys.argv[1] + "/train.py"))
"""


def await_this(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def is_of_snapshot(log: Path) -> bool:
    """The script has run there, with the module beside it."""
    return "of the snapshot" in log.read_text()


@pytest.mark.slow
def test_a_job_goes_on_on_another_machine_when_its_own_is_gone() -> None:
    """It takes half a minute: two machines import torch, and a lease ends."""
    pytest.importorskip("torch")
    if why_not():
        pytest.skip(f"machines cannot be had here: {why_not()}")
    with Network(3) as network:
        head = HeadMachine(network[0], DEFAULT_CALL, DEFAULT_PRELOAD)
        project = network[0].outside(PROJECT)
        project.mkdir()
        text = TINY.read_text().replace(
            "run = train", "import helper\nprint(helper.WORD, flush=True)\nrun = train"
        )
        (project / "train.py").write_text(text)
        (project / "helper.py").write_text("WORD = 'of the snapshot'\n")
        code = network[0].run(sys.executable, "-c", TAKE, PROJECT, STORAGE, env=IMPORTABLE).strip()
        spec = make_spec(entry=f"{PROJECT}/train.py", workdir=PROJECT, code=code, args=("0.01",))
        hosts = {name: HostMachine(network[i], network[0], name) for i, name in ((1, "n1"), (2, "n2"))}
        for host in hosts.values():
            host.start(head.token)
        head.await_offers(hosts)
        job = network[0].outside(STORAGE) / "jobs" / "job-1"
        head.launch_job(spec)
        head.await_event(GangStarted)
        await_this(lambda: newest_whole(job / "checkpoints") is not None)
        hosts["n1"].machine.kill()
        ended = head.await_event(GangEnded)
        assert isinstance(ended, GangEnded) and ended.outcome is Outcome.LOST
        newest = newest_whole(job / "checkpoints")
        assert newest is not None
        head.launch_job(spec, 2, "n2")
        again = head.await_event(GangStarted)
        assert isinstance(again, GangStarted) and again.steps >= steps_in(newest) > 0
        await_this(lambda: len([log for log in job.glob("worker-*.log") if is_of_snapshot(log)]) >= 3)
        assert msgspec.json.encode((job / "leaders").read_text().splitlines()) == b'["0 0","2 0"]'
