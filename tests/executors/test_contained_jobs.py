"""Jobs in containers, by a fake engine and by real ones: the contract, what they may do, and their ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.eventually import eventually
from tests.executors.contained import contained_executor, contained_job, engine_params, executors, started
from tests.executors.container_engines import TestedEngine
from tests.executors.contract import JOB, ExecutorContract, ExecutorWorld, launch
from tests.executors.listening import Listener
from tests.executors.puppets import devices
from tests.executors.shared_platform import SharedPlatform
from tests.executors.test_fixed_jobs import fixed

from swell.executors.local.agent.address import read_address
from swell.executors.local.containers.engine import ContainerKind
from swell.executors.local.link import LocalExecutor
from swell.executors.local.processes.listing import is_alive
from swell.model.command import LaunchGang, ProfileJob, StopGang
from swell.model.event import (
    GangEnded,
    GangResized,
    GangStarted,
    HostRuledOut,
    Outcome,
    ProfilingFailed,
)
from swell.model.job import JobSpec, Mount
from swell.model.target import Target

#: Run inside, it prints what it could do; each argument is a file to be read.
PROBE = """
import json, os, sys
def attempt(work):
    try:
        return bool(work()) or True
    except OSError:
        return False
def read(path):
    return os.listdir(path) if os.path.isdir(path) else open(path).read()
def write(folder):
    return attempt(lambda: open(os.path.join(folder, "probe"), "w").close())
status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)
print(json.dumps({
    "writes": {folder: write(folder) for folder in ("/", "/usr", "/tmp", *WRITTEN)},
    "reads": {path: attempt(lambda: read(path)) for path in sys.argv[1:]},
    "network": [line.split(":")[0].strip() for line in open("/proc/net/dev").read().splitlines()[2:]],
    "capabilities": int(status["CapEff"], 16),
    "new_privileges": status["NoNewPrivs"] == "0",
    "user": os.getuid(),
}))
"""

#: The command of a fixed job: when it gets SIGTERM it takes half a second to save.
SAVES_OUTPUT = """
import os, signal, sys, time
def save(number, frame):
    time.sleep(0.5)
    open(os.path.join(os.environ["SWELL_OUTPUT"], "saved"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
time.sleep(600)
"""

#: The contract takes longer with a real engine.
REAL_IN_SOAK = pytest.mark.parametrize("engine", engine_params(pytest.mark.soak), indirect=True)
FAKE_ONLY = pytest.mark.parametrize("engine", ["fake"], indirect=True)
REAL_ONLY = pytest.mark.parametrize("engine", engine_params()[2:], indirect=True)
#: Apptainer says in words alone that an image has no python3.
TELLING = pytest.mark.parametrize("engine", ["fake", *engine_params()[2:]], indirect=True)


@pytest.fixture(scope="module", params=engine_params())
def engine(request: pytest.FixtureRequest) -> Iterator[TestedEngine]:
    with started(request.param) as engine:
        yield engine


@pytest.fixture(scope="module")
def platform(
    tmp_path_factory: pytest.TempPathFactory, engine: TestedEngine, importable: None
) -> Iterator[SharedPlatform]:
    state_dir = tmp_path_factory.mktemp("contained") / "state"
    made = SharedPlatform(state_dir, lambda: contained_executor(state_dir, engine), devices(*range(8)))
    yield made
    made.close()


@pytest.fixture
def new_executor(tmp_path: Path, engine: TestedEngine) -> Iterator[Callable[[], LocalExecutor]]:
    with executors(tmp_path / "state", engine) as make:
        yield make


@pytest.fixture
def executor(new_executor: Callable[[], LocalExecutor]) -> LocalExecutor:
    return new_executor()


@pytest.fixture
def make_job(tmp_path: Path, engine: TestedEngine) -> Callable[..., JobSpec]:
    """Its folder holds the platform's, which is hidden, where the engine can do that."""
    workdir = tmp_path / "work" if engine.name == "apptainer" else tmp_path
    workdir.mkdir(exist_ok=True)
    return lambda **args: contained_job(engine, workdir, **args)


def in_image(world: ExecutorWorld, engine: TestedEngine, spec: JobSpec, generation: int) -> LaunchGang:
    return LaunchGang(
        job_id=world.job_id,
        generation=generation,
        target=Target(devices=world.devices[:1]),
        spec=msgspec.structs.replace(spec, image=engine.image),
        total_steps=None,
    )


@pytest.mark.slow
@REAL_IN_SOAK
class TestContainedJobs(ExecutorContract):
    pass


def test_each_worker_has_a_container(world: ExecutorWorld, engine: TestedEngine) -> None:
    world.launch(world.devices[:1])
    world.wait(GangStarted, 1)
    world.resize(2, world.devices[:3])
    grown = world.wait(GangResized, 2)
    assert all(map(is_alive, grown.pids)), "these are processes of this machine, by its own numbers"
    assert len(engine.running()) == 3 and all(world.job_id in name for name in engine.running())
    world.resize(3, world.devices[:1])
    world.wait(GangResized, 3)
    eventually(lambda: len(engine.running()) == 1)
    world.stop(4)
    world.wait(GangEnded, 4)
    assert not engine.running(), "its devices are free, so its containers are gone"


@REAL_ONLY
def test_a_container_reads_and_writes_what_is_its_jobs(
    executor: LocalExecutor,
    listener: Listener,
    make_job: Callable[..., JobSpec],
    engine: TestedEngine,
    tmp_path: Path,
) -> None:
    data, results = (
        tmp_path.with_name(f"{tmp_path.name}-data"),
        tmp_path.with_name(f"{tmp_path.name}-results"),
    )
    for folder in (data, results):
        folder.mkdir()
    command = launch(make_job, devices(0))
    mounts = (Mount(str(data), "/data"), Mount(str(results), str(results), True))
    spec = msgspec.structs.replace(command.spec, mounts=mounts)
    executor.perform(msgspec.structs.replace(command, spec=spec))
    other = msgspec.structs.replace(launch(make_job, devices(1)), job_id="other")
    executor.perform(other)
    listener.wait(GangStarted, num=2)
    state, jobs = tmp_path / "state", tmp_path / "state" / "jobs"
    secrets = [
        str(state / "agent.json"),
        str(jobs / "other"),
        "/etc/shadow",
        str(tmp_path / "state" / "agent.log"),
    ]
    name = next(name for name in engine.running() if JOB in name)
    written = [str(tmp_path), str(jobs / JOB), str(jobs / JOB / "output"), "/data", str(results)]
    names = f"WRITTEN = {written}\n"
    done = json.loads(engine.call("exec", name, "python3", "-c", names + PROBE, str(tmp_path), *secrets))
    assert done["writes"] == {
        "/": False,
        "/usr": False,
        "/tmp": True,  # noqa: S108
        str(tmp_path): False,
        str(jobs / JOB): True,
        str(jobs / JOB / "output"): True,
        "/data": False,
        str(results): True,
    }
    assert (results / "probe").stat().st_uid == os.geteuid()
    assert done["reads"] == {str(tmp_path): True} | dict.fromkeys(secrets, False)
    assert (done["capabilities"], done["new_privileges"], done["user"]) == (0, False, os.geteuid())
    assert (jobs / JOB / "output" / "probe").exists()


@pytest.mark.slow
def test_containers_end_with_their_agent_and_the_next_one_begins_again(
    new_executor: Callable[[], LocalExecutor],
    make_job: Callable[..., JobSpec],
    engine: TestedEngine,
    tmp_path: Path,
) -> None:
    executor, listener = new_executor(), Listener()
    executor.start(listener.put, listener.find)
    executor.perform(launch(make_job, devices(0, 1)))
    pids = listener.wait(GangStarted, 1).pids
    address = read_address(tmp_path / "state")
    assert address is not None
    os.kill(address.pid, signal.SIGKILL)
    eventually(lambda: bool(listener.found))
    eventually(lambda: not any(map(is_alive, pids)))
    again = launch(make_job, devices(0), generation=2, steps=5)
    executor.perform_again([again], listener.found[0])
    assert listener.wait(GangEnded, 2).outcome is Outcome.SUCCEEDED
    eventually(lambda: not engine.running())


@pytest.mark.slow
@TELLING
def test_an_image_that_cannot_train_fails_its_job_and_no_other(
    executor: LocalExecutor, listener: Listener, make_job: Callable[..., JobSpec], engine: TestedEngine
) -> None:
    wrong = {"missing": "localhost/no/such:image", "no-python": engine.image_without_python}
    for number, (job_id, image) in enumerate(wrong.items()):
        command = launch(make_job, devices(number))
        spec = msgspec.structs.replace(command.spec, image=image)
        executor.perform(msgspec.structs.replace(command, job_id=job_id, spec=spec))
    executor.perform(msgspec.structs.replace(launch(make_job, devices(2), steps=5), job_id="sound"))
    listener.wait(GangEnded, num=3)
    ends = {event.job_id: event for event in listener.events if isinstance(event, GangEnded)}
    assert [ends[job_id].outcome for job_id in (*wrong, "sound")] == [
        Outcome.FAILED,
        Outcome.FAILED,
        Outcome.SUCCEEDED,
    ]
    assert f"there is no image {wrong['missing']} on this machine" in ends["missing"].message
    assert "its image has no python3 that can be run" in ends["no-python"].message
    command = launch(make_job, devices(0))
    spec = msgspec.structs.replace(command.spec, image=wrong["no-python"])
    executor.perform(ProfileJob(job_id="trial", spec=spec, sizes=(1,), device_kind="paced@400"))
    failed = listener.wait(ProfilingFailed)
    assert failed.outcome is Outcome.FAILED
    assert "has no python3" in failed.message


# ---------------------------------------------------------------- engines that are down
@pytest.fixture
def is_down(engine: TestedEngine) -> Iterator[Path]:
    """A file that makes the fake daemon refuse, with its words."""
    path = Path(os.environ["FAKE_DOCKER"], "down")
    yield path
    path.unlink(missing_ok=True)


@FAKE_ONLY
def test_without_a_daemon_a_gang_is_lost_and_can_be_tried_again(is_down: Path, world: ExecutorWorld) -> None:
    is_down.write_text("permission denied while trying to connect to the Docker daemon socket")
    world.launch(world.devices[:1])
    ended = world.wait(GangEnded, 1)
    assert ended.outcome is Outcome.LOST
    assert "docker cannot be used: permission denied" in ended.message
    is_down.unlink()
    world.launch(world.devices[:1], generation=2, steps=5)
    assert world.wait(GangEnded, 2).outcome is Outcome.SUCCEEDED


@FAKE_ONLY
def test_a_worker_whose_container_cannot_be_removed_has_not_ended(
    is_down: Path,
    executor: LocalExecutor,
    listener: Listener,
    make_job: Callable[..., JobSpec],
    state_dir: Path,
) -> None:
    executor.perform(launch(make_job, devices(0)))
    listener.wait(GangStarted)
    is_down.write_text("could not kill: tried to kill container, but did not receive an exit event")
    executor.perform(StopGang(job_id=JOB, generation=2))
    tries = "did not receive an exit event); its worker's devices stay in use, next try in"
    eventually(lambda: (state_dir / "agent.log").read_text().count(tries) > 1)
    assert not any(isinstance(event, GangEnded) for event in listener.events)
    is_down.unlink()
    listener.wait(GangEnded)


@FAKE_ONLY
def test_a_platform_without_containers_says_so(
    engine: TestedEngine, tmp_path: Path, make_job: Callable[..., JobSpec]
) -> None:
    with executors(tmp_path / "state", engine, containers=ContainerKind.OFF) as make:
        executor, listener = make(), Listener()
        executor.start(listener.put)
        executor.perform(launch(make_job, devices(0)))
        ended = listener.wait(GangEnded, 1)
    assert ended.outcome is Outcome.FAILED
    assert "this platform runs no containers" in ended.message


@FAKE_ONLY
def test_a_machine_without_an_engine_is_ruled_out_at_once(
    engine: TestedEngine, tmp_path: Path, make_job: Callable[..., JobSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job goes to another one, or waits and says what it lacks."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with executors(tmp_path / "state", engine) as make:
        executor, listener = make(), Listener()
        executor.start(listener.put)
        executor.perform(launch(make_job, devices(0)))
        listener.wait(GangEnded, 1)
    (ruled_out,) = [event for event in listener.events if isinstance(event, HostRuledOut)]
    assert ruled_out.job_id == JOB
    assert (
        "has no program that runs containers" in ruled_out.message and "install docker" in ruled_out.message
    )


@pytest.mark.slow
def test_the_command_of_a_fixed_job_runs_in_its_image(
    world: ExecutorWorld, engine: TestedEngine, tmp_path: Path
) -> None:
    tells = "import os, sys; print(sorted(os.environ), os.getcwd()); sys.exit(127)"
    jobs = [
        ("python3", "-c", tells),
        ("no-such-command",),
        ("python3", "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"),
    ]
    for generation, command in enumerate(jobs, start=1):
        world.executor.perform(in_image(world, engine, fixed(tmp_path, *command), generation))
        world.wait(GangEnded, generation)
    tells_all, lacks, crashes = [event for event in world.listener.events if isinstance(event, GangEnded)]
    told = tells_all.message.splitlines()
    assert told[0] == "its command ended with status 127; its log ends:"
    assert str(tmp_path) in told[1] and "SWELL_OUTPUT" in told[1]
    assert "SWELL_TOKEN" not in told[1] and "OMP_NUM_THREADS" not in told[1]
    assert "there is no command 'no-such-command' in its image" in lacks.message
    assert (crashes.outcome, crashes.message) == (Outcome.FAILED, "its command was killed by SIGSEGV")
    assert not engine.running()


@pytest.mark.slow
def test_the_command_of_a_fixed_job_in_an_image_has_its_limit_and_its_grace(
    world: ExecutorWorld, engine: TestedEngine, tmp_path: Path, platform: SharedPlatform
) -> None:
    spec = fixed(tmp_path, "python3", "-c", SAVES_OUTPUT, time_s=3.0)
    world.executor.perform(in_image(world, engine, spec, 1))
    assert world.wait(GangEnded, 1).outcome is Outcome.TIMED_OUT
    assert (platform.state_dir / "jobs" / world.job_id / "output" / "saved").exists()
    assert not engine.running()
