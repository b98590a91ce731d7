"""What may happen to a platform. Each fault strikes, and leaves the platform up or on its way there.

A fault waits for states of the platform and never for a time, but for how long something is made to last.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.chaos.jobs import Jobs
from tests.chaos.scene import DEVICES, Scene, end, send
from tests.eventually import PATIENCE_S, eventually
from tests.platform.program import job_id

from swell.executors.local.agent.address import read_address
from swell.executors.local.processes.listing import is_alive
from swell.store.folder import StateFolder

Fault = Callable[[Scene], None]
FAULTS: dict[str, Fault] = {}
HOUR_S, DAY_S = 3600.0, 86_400.0
#: For how long something stands still, or is full.
SHORT_S = (0.2, 2.0)


def fault(strike: Fault) -> Fault:
    FAULTS[strike.__name__] = strike
    return strike


def last(scene: Scene) -> None:
    """The trouble is there for a while."""
    time.sleep(scene.chance.uniform(*SHORT_S))


# ---------------------------------------------------------------- workers
@fault
def kill_workers(scene: Scene) -> None:
    victims = scene.victims()
    end(scene.chance.sample(victims, scene.chance.randint(1, len(victims))))


@fault
def kill_a_whole_gang(scene: Scene) -> None:
    end(scene.victims())


@fault
def stop_a_worker(scene: Scene) -> None:
    victim = scene.chance.choice(scene.victims())
    send([victim], signal.SIGSTOP)
    eventually(lambda: not is_alive(victim), f"the end of the stopped worker {victim}", PATIENCE_S)


# ---------------------------------------------------------------- trial runs
def trial_workers(scene: Scene, job: str) -> list[int]:
    """Processes of the job's trial run that have begun to run its script."""
    import psutil

    found = []
    for process in psutil.Process(scene.zygote()).children():
        try:
            environ = process.environ()
        except psutil.Error:
            continue
        if environ.get("SWELL_TRIAL") == "1" and environ.get("SWELL_JOB_ID", job) == job:
            found.append(process.pid)
    return found


def submit_with_trial(scene: Scene) -> str:
    """A job that nothing is known of: its trial run begins at once."""
    job, words = scene.jobs.prepare(is_new=True)
    return scene.jobs.note(job, job_id(scene.swell.ok(*words))).id


def in_trial(scene: Scene, job: str) -> bool:
    with_job = [view for view in scene.views() if view.id == job]
    return bool(with_job) and with_job[0].reason_code in ("submitted", "profiling")


def strike_trial(scene: Scene, strike: Callable[[Sequence[int]], None]) -> None:
    """During the trial run of a new job; nothing if that is over before."""
    job = submit_with_trial(scene)

    def look() -> list[int] | None:
        return trial_workers(scene, job) or (None if in_trial(scene, job) else [0])

    pids = eventually(look, f"the trial run of {job}", PATIENCE_S)
    if pids != [0]:
        last(scene)
        strike(pids)


@fault
def kill_a_trial_worker(scene: Scene) -> None:
    strike_trial(scene, end)


@fault
def stop_a_trial_worker(scene: Scene) -> None:
    strike_trial(scene, lambda pids: send(pids, signal.SIGSTOP))


@fault
def kill_the_zygote_in_a_trial(scene: Scene) -> None:
    strike_trial(scene, lambda pids: end([scene.zygote()]))


@fault
def kill_the_agent_in_a_trial(scene: Scene) -> None:
    strike_trial(scene, lambda pids: end([scene.agent().pid]))


# ---------------------------------------------------------------- processes of the platform
@fault
def kill_the_zygote(scene: Scene) -> None:
    end([scene.zygote()])


@fault
def stop_the_zygote(scene: Scene) -> None:
    with scene.stopped(scene.zygote()):
        last(scene)


@fault
def kill_the_agent(scene: Scene) -> None:
    end([scene.agent().pid])


@fault
def stop_the_agent(scene: Scene) -> None:
    with scene.stopped(scene.agent().pid):
        last(scene)


@fault
def kill_the_daemon(scene: Scene) -> None:
    scene.kill_daemon()


@fault
def kill_daemon_and_agent(scene: Scene) -> None:
    agent = scene.agent().pid
    scene.kill_daemon()
    end([agent])


@fault
def stop_the_daemon(scene: Scene) -> None:
    daemon = scene.swell.daemon_pid
    assert daemon is not None
    with scene.stopped(daemon):
        last(scene)


@fault
def force_down_a_stopped_daemon(scene: Scene) -> None:
    daemon = scene.swell.daemon_pid
    assert daemon is not None
    os.kill(daemon, signal.SIGSTOP)
    done = scene.swell("down", "--force")
    assert done.returncode in (0, 1), done
    assert not is_alive(daemon)


@fault
def down_and_up(scene: Scene) -> None:
    done = scene.swell("down")
    assert done.returncode in (0, 1), done  # 1: a job that could not be saved goes on from its checkpoint


# ---------------------------------------------------------------- time
@fault
def step_the_clock_for_a_moment(scene: Scene) -> None:
    scene.wall.set(scene.chance.choice((DAY_S, -DAY_S, HOUR_S, -HOUR_S)))
    last(scene)
    scene.wall.set(0.0)


@fault
def step_the_clock_and_restart(scene: Scene) -> None:
    scene.wall.set(scene.chance.choice((600.0, -600.0)))
    scene.kill_daemon()
    scene.up()
    scene.wall.set(0.0)


# ---------------------------------------------------------------- disks
def fill(scene: Scene) -> Path:
    """Not a byte is left for others."""
    ballast = scene.state / "ballast"
    with ballast.open("ab", buffering=0) as file:
        block = bytes(1 << 20)
        while block:
            try:
                file.write(block)
            except OSError:
                block = block[: len(block) // 2]
    return ballast


@fault
def fill_the_disk(scene: Scene) -> None:
    if not scene.has_own_disk:
        return
    scene.await_running()
    ballast = fill(scene)
    try:
        last(scene)
        if scene.chance.random() < 0.5:
            for pid in scene.victims()[:1]:
                end([pid])
            last(scene)
    except (ConnectionError, AssertionError):
        pass  # the daemon may have had to end: its last words are looked for by a test of their own
    finally:
        ballast.unlink()


# ---------------------------------------------------------------- files
def damage(scene: Scene, path: Path) -> None:
    """A byte somewhere is another one, or the end is missing."""
    content = bytearray(path.read_bytes())
    if not content:
        return
    if scene.chance.random() < 0.5:
        place = scene.chance.randrange(len(content))
        content[place] ^= 1 << scene.chance.randrange(8)
    else:
        del content[scene.chance.randrange(len(content)) :]
    path.write_bytes(content)


@fault
def damage_checkpoints(scene: Scene) -> None:
    """The newest one, or all; then the job has to read one."""
    view = scene.chance.choice(scene.await_running())
    found = scene.checkpoints(view.id)
    for path in found if scene.chance.random() < 0.3 else found[-1:]:
        if path.exists():  # a new one may just have taken its place
            damage(scene, path)
    for pid in view.live_pids:
        if is_alive(pid):
            end([pid])


@fault
def damage_the_journal_and_restore_it(scene: Scene) -> None:
    copy = scene.folder / f"backup-{len(scene.told)}.db"
    scene.swell.ok("admin", "backup", copy)
    scene.kill_daemon()
    folder = StateFolder(scene.state)
    for name in ("journal.db-wal", "journal.db-shm"):
        (scene.state / name).unlink(missing_ok=True)
    content = bytearray(folder.journal.read_bytes())
    content[: 1 << 12] = os.urandom(1 << 12)
    folder.journal.write_bytes(content)
    refused = scene.swell("up", "--devices", DEVICES)
    assert refused.returncode != 0 and "swell restore" in refused.stderr, refused
    assert "Traceback" not in refused.stderr, refused
    scene.swell.ok("restore", copy)
    assert sqlite3.connect(folder.journal).execute("PRAGMA quick_check").fetchone() == ("ok",)


@fault
def take_the_journal_away_from_the_daemon(scene: Scene) -> None:
    """Found out at the next write, at the latest when a job is submitted; put back, all goes on."""
    journal = StateFolder(scene.state).journal
    kept = journal.rename(scene.state / "kept")
    job, words = scene.jobs.prepare()
    refused = scene.swell(*words)
    assert refused.returncode != 0 and "Traceback" not in refused.stderr, refused
    kept.rename(journal)
    shutil.rmtree(job.folder)


@fault
def edit_the_script_of_a_running_job(scene: Scene) -> None:
    view = scene.chance.choice(scene.await_running())
    script = scene.jobs.every[view.id].folder / "tally.py"
    script.write_text("raise SystemExit('this was never submitted')\n")
    end([view.live_pids[-1]])


# ---------------------------------------------------------------- people
@fault
def submit_and_kill_at_once(scene: Scene) -> None:
    """What was answered is there."""
    job = scene.jobs.submit()
    scene.kill_daemon()
    scene.ensure_up()
    assert job.id in [view.id for view in scene.views()], f"{job.id} was answered and is lost"


@fault
def cancel_and_kill_at_once(scene: Scene) -> None:
    job = scene.jobs.submit()
    scene.swell.ok("cancel", job.id)
    job.is_cancelled = True
    scene.kill_daemon()
    scene.ensure_up()
    eventually(
        lambda: [view for view in scene.views() if view.id == job.id and view.phase.is_end],
        f"the end of the cancelled {job.id}",
        PATIENCE_S,
    )


@fault
def knock_at_the_agents_door(scene: Scene) -> None:
    """Connections that say nothing, or nonsense."""
    address = read_address(scene.state)
    if address is None:
        return
    lines = []
    try:
        for _ in range(40):
            line = socket.create_connection(("127.0.0.1", address.port), 2.0)
            line.sendall(scene.chance.choice((b"", b"x" * 5000, b"{}\n", b'{"type":"Hello"}\n')))
            lines.append(line)
    except OSError:
        pass  # turned away, as it should be
    finally:
        for line in lines:
            line.close()


@fault
def start_a_second_platform(scene: Scene) -> None:
    refused = scene.swell("up", "--devices", DEVICES)
    assert refused.returncode != 0 and "Traceback" not in refused.stderr, refused


def refill(scene: Scene, jobs: Jobs) -> None:
    jobs.refill(scene.views())
