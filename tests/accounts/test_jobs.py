"""Jobs of two users on one machine: what the one tries with what is the other's."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psutil
import pytest
from tests.accounts.conftest import Lab, acting_as, as_root, run_as
from tests.eventually import eventually
from tests.executors.puppets import make_spec
from tests.executors.turning_world import TurningWorld

from swell.executors.gang import host_messages as h
from swell.executors.gang.job_context import DeviceBinding, GangSettings
from swell.executors.local.agent import job_files
from swell.executors.local.agent.address import hold_lock
from swell.executors.local.agent.handshakes import Handshakes
from swell.executors.local.agent.host import LocalHost
from swell.executors.local.agent.job_files import place_job
from swell.executors.local.agent.options import LOOPBACK, AgentOptions
from swell.executors.local.containers.command import job_mounts, run_words
from swell.executors.local.containers.engine import ContainerEngine, ContainerKind
from swell.executors.local.processes.listing import is_alive, user_of
from swell.executors.local.zygote import client
from swell.executors.local.zygote.messages import Exited, Forked, ValuesPrinted
from swell.executors.storage import work_folder
from swell.live.submitter import JobFiles
from swell.model.code import CodeFile, CodeTree, object_path, tree_path
from swell.model.errors import WrongPhase
from swell.model.event import Outcome
from swell.model.job import FIXED_ENTRY, Elasticity, FixedTerms, JobSpec
from swell.store.code_store import CodeStore
from swell.wire import messages as m
from swell.wire.checkpoint_files import checkpoint_name
from swell.wire.whole_files import write_whole

Told = TypeVar("Told", h.RunOpened, h.WorkerExited)


class Machine(TurningWorld):
    """The host of a platform's account, on which jobs are commands of users."""

    def __init__(self, lab: Lab, state: Path) -> None:
        super().__init__()
        self.lab, self.state, self.heard = lab, state, []
        (state / "jobs").mkdir(mode=0o700, parents=True)
        (state / "token").write_text("secret")
        (state / "token").chmod(0o600)
        self._lock_fd = hold_lock(state)
        self._loop.run_until_complete(self._start())

    async def _start(self) -> None:
        options = AgentOptions(state_dir=self.state, preload=("msgspec",), gang_settings=GangSettings())
        self.host = LocalHost(options, self._lock_fd, self.heard.append)
        self._handshakes = Handshakes(msgspec.json.Decoder(m.Hello).decode, self.host.admit)
        self.host._address = f"{LOOPBACK}:{await self._handshakes.listen(LOOPBACK)}"
        self.host._scratch.make_folders()
        self.host.offer({"local/0": DeviceBinding(torch_device="cpu", kind="cpu")})

    def tell_now(self, message: h.ToHost) -> None:
        self.host.tell(message)

    def tick(self) -> None:
        self.host.tick()

    def close(self) -> None:
        self._loop.run_until_complete(self.host.shut_down())
        self._loop.run_until_complete(self._handshakes.close())
        os.close(self._lock_fd)
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    # ------------------------------------------------------------ jobs
    def spec(self, user: pwd.struct_passwd, command: str) -> JobSpec:
        return make_spec(
            entry=FIXED_ENTRY,
            args=("/bin/sh", "-c", command),
            workdir="/",
            run_as=user.pw_name,
            elasticity=Elasticity.FIXED,
            fixed=FixedTerms(time_s=60.0),
        )

    def begin(self, job: str, user: pwd.struct_passwd, command: str, **changes: Any) -> None:
        """Start a job's only worker."""
        spec = msgspec.structs.replace(self.spec(user, command), **changes)
        self.tell(h.OpenRun(run=job, job_id=job, spec=spec))
        self.start(job)

    def start(self, job: str) -> None:
        first = self.of(job, h.RunOpened).first_worker
        self.tell(h.StartWorker(run=job, worker=first, devices=("local/0",), environ={}))

    def of(self, job: str, kind: type[Told]) -> Told:
        """What was told of the run of a job."""

        def found() -> list[Told]:
            return [one for one in self.heard if isinstance(one, kind) and one.run == job]

        self.wait_until(lambda: bool(found()))
        return found()[0]

    def end_of(self, job: str) -> h.WorkerExited:
        return self.of(job, h.WorkerExited)

    def zygote(self, user: pwd.struct_passwd) -> Any:
        return self.host._zygotes.of("", user.pw_name)

    def run(self, job: str, user: pwd.struct_passwd, command: str) -> str:
        """What the job has printed, once it has ended."""
        self.begin(job, user, command)
        self.end_of(job)
        return self.log(job)

    def log(self, job: str) -> str:
        """As the platform reads it."""
        path = work_folder(self.state / "jobs" / job) / "worker-0.log"
        return path.read_text() if path.exists() else ""


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def machine(lab: Lab) -> Iterator[Machine]:
    folder = Path(tempfile.mkdtemp(dir=lab.folder))
    os.chown(folder, lab.platform.pw_uid, lab.platform.pw_gid)
    folder.chmod(0o755)
    with lab.as_platform():  # all the time: a zygote is started by a thread
        made = Machine(lab, folder / "state")
        yield made
        made.close()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_job_runs_as_its_user_and_the_platform_reads_its_log(machine: Machine, lab: Lab) -> None:
    """A second one is of the same zygote, whose interpreter has imported all already."""
    told = f"{lab.alice.pw_name}\n{lab.alice.pw_dir}\n0027\n"
    assert machine.run("a", lab.alice, "id -un; echo $HOME; umask") == told
    assert machine.end_of("a").status == 0
    assert machine.run("b", lab.alice, "grep PPid /proc/$PPID/status") == machine.run(
        "c", lab.alice, "grep PPid /proc/$PPID/status"
    )


@pytest.fixture
def held(machine: Machine, lab: Lab) -> tuple[int, dict[str, str]]:
    """A job of alice's that goes on, with a secret in its environment: a pid of it, and its variables."""
    machine.begin("held", lab.alice, "echo $$; env; echo end; exec sleep 1000", env=(("SECRET", "x"),))
    machine.wait_until(lambda: "end\n" in machine.log("held"))
    pid, *lines = machine.log("held").splitlines()
    return int(pid), dict(line.split("=", 1) for line in lines if "=" in line)


def test_a_user_can_neither_look_into_nor_end_a_job_of_anothers(
    machine: Machine, lab: Lab, held: tuple[int, dict[str, str]]
) -> None:
    pid, environ = held
    assert environ["SECRET"] == "x"
    attempts = (
        f"cat /proc/{pid}/environ",
        f"ls /proc/{pid}/fd",
        f"cat /proc/{pid}/mem",
        f"ls -l /proc/{pid}/cwd",
        f"kill -9 {pid}",
        f"kill -STOP -{pid}",
        f"prlimit --nofile=1 --pid {pid}",
        f"renice 19 {pid}",
        f"python3 -c 'import ctypes; exit(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0) == -1)'",
    )
    script = "\n".join(
        f"{attempt} >/dev/null 2>&1 && echo done: {number}" for number, attempt in enumerate(attempts)
    )
    for told in (
        machine.run("bobs", lab.bob, f"{script}\necho tried"),
        run_as(lab.bob, "sh", "-c", f"{script}\necho tried").stdout,
    ):
        assert told == "tried\n"
    assert is_alive(pid)


def test_a_user_can_neither_read_nor_change_what_is_anothers_or_the_platforms(
    machine: Machine, lab: Lab, held: tuple[int, dict[str, str]]
) -> None:
    jobs, room = machine.state / "jobs", held[1]["TMPDIR"]
    work = jobs / "held" / "work"
    checkpoint = work / "checkpoints" / "c"
    machine.run(
        "saves", lab.alice, f"mkdir {checkpoint.parent}; echo state > {checkpoint}; echo x > {work}/output"
    )
    assert checkpoint.read_text() == "state\n", "the platform reads what its users' jobs have saved"
    attempts = [f"ls {path}" for path in (machine.state, jobs, jobs / "held", work, checkpoint.parent, room)]
    attempts += [f"cat {work}/{name}" for name in ("worker-0.log", "output", "checkpoints/c")]
    attempts += [
        f"cat {machine.state}/{name}" for name in ("token", "agent.lock", "agent.json", "zygote*.log")
    ]
    attempts += [
        f"touch {path}/new" for path in (machine.state, jobs, jobs / "held", jobs / "bobs", work, room)
    ]
    attempts += [
        f"ln -s / {jobs}/bobs/code",
        f"rmdir {jobs}/bobs/work",
        f"mv {jobs}/bobs/work {jobs}/bobs/other",
    ]
    attempts += [
        f"mv {work}/output {jobs}/bobs/work/",
        f"ln {work}/output {jobs}/bobs/work/",
        f"chmod 777 {work}",
    ]
    script = "\n".join(f"{attempt} >/dev/null 2>&1 && echo done: {attempt}" for attempt in attempts)
    assert machine.run("bobs", lab.bob, f"{script}\necho tried") == "tried\n"
    assert run_as(lab.bob, "sh", "-c", f"{script}\necho tried").stdout == "tried\n"


def test_all_that_others_can_look_at_are_folders_on_the_way_to_jobs(
    machine: Machine, lab: Lab, held: tuple[int, dict[str, str]]
) -> None:
    passed = {machine.state, *(machine.state / "jobs" / part for part in ("", "held"))}
    with as_root():
        for top, folders, files in os.walk(machine.state):
            for path in (Path(top), *(Path(top, name) for name in (*folders, *files))):
                mode = path.lstat().st_mode & 0o007
                assert mode == (0o001 if path in passed else 0), path


def test_no_program_of_the_platforms_group_comes_of_a_given_folder(machine: Machine, lab: Lab) -> None:
    """Its files are of that group."""
    told = machine.run(
        "a",
        lab.alice,
        f"cd {machine.state}/jobs/a/work; cp /usr/bin/id .; chmod 2777 id; stat -c %a id; ./id -g",
    )
    assert told == f"777\n{lab.alice.pw_gid}\n"


def test_what_a_job_leaves_behind_without_mark_session_or_parent_ends_with_it(
    machine: Machine, lab: Lab
) -> None:
    told = machine.run("a", lab.alice, "env -i setsid sh -c 'setsid sleep 1000 & echo $!'; exit 3")
    assert machine.end_of("a").status == 3
    assert not is_alive(int(told))


def test_a_zygote_that_its_user_has_stopped_keeps_no_worker(
    machine: Machine, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "OBEYED_S", 0.5)
    machine.begin("a", lab.alice, "echo $PPID; exec sleep 1000")
    machine.wait_until(lambda: "\n" in machine.log("a"))
    worker = int(machine.log("a"))
    zygote = psutil.Process(worker).ppid()
    run_as(lab.alice, "kill", "-STOP", str(zygote))
    machine.tell(h.SignalWorker(run="a", worker=0, signal=signal.SIGKILL))
    assert machine.end_of("a").status == -signal.SIGKILL
    assert not is_alive(worker) and not is_alive(zygote)
    assert machine.run("b", lab.alice, "echo again") == "again\n"


def test_a_zygote_that_has_no_work_ends_and_the_next_job_has_another(
    machine: Machine, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "IDLE_S", 0.2)
    machine.run("a", lab.alice, "true")
    zygote = machine.zygote(lab.alice)
    machine.wait_until(lambda: zygote._life is None)
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    eventually(lambda: not any(user_of(pid) == lab.alice.pw_uid for pid in pids))
    assert machine.run("b", lab.alice, "echo again") == "again\n"


def test_a_user_who_names_many_interpreters_has_one_zygote_that_waits(machine: Machine, lab: Lab) -> None:
    """Each takes a connection, of which all users together have a limit, and memory."""
    machine.run("a", lab.alice, "true")
    folder = os.path.dirname(sys.executable)
    machine.begin("b", lab.alice, "echo $PPID; exec sleep 1000", python=f"{folder}/./python")
    machine.wait_until(lambda: "\n" in machine.log("b"))
    machine.wait_until(lambda: machine.zygote(lab.alice)._life is None)
    machine.begin("c", lab.alice, "true", python=f"{folder}/././python")
    assert machine.end_of("c").status == 0
    assert is_alive(int(machine.log("b"))), "one with a worker stays"


def test_what_a_zygote_says_of_others_is_not_believed(
    machine: Machine, lab: Lab, held: tuple[int, dict[str, str]]
) -> None:
    """Its user may have taken it over."""
    machine.begin("bobs", lab.bob, "echo here; exec sleep 1000")
    machine.wait_until(lambda: machine.log("bobs") != "")
    zygote, num = machine.zygote(lab.bob), len(machine.heard)
    link = zygote._link
    for lie in (
        Exited(key="held/0", status=0),
        Forked(key="held/0", pid=held[0]),
        Forked(key="bobs/0", pid=held[0]),
        Forked(key="bobs/0", pid=1),
        ValuesPrinted(key="held/0", values={"loss": 0.0}),
    ):
        zygote._hear_line(link, msgspec.json.encode(lie))
    assert machine.heard[num:] == [] and is_alive(held[0])
    zygote._hear_line(link, b"no message")
    assert machine.end_of("bobs").status == -signal.SIGKILL
    assert is_alive(held[0])


def test_a_job_of_a_user_that_may_not_run_here_waits_and_is_told_why(machine: Machine, lab: Lab) -> None:
    """Another host may have that user. Names count, and the numbers of a shared folder."""
    lost = f"{machine.state}/jobs/lost"
    orders = [(lab.outsider, "no member of the group"), (lab.shellless, "may not log in")]
    for name in ("", "other"):
        options = AgentOptions(state_dir=machine.state, joined_as=name)
        for user, why in orders:
            order = h.OpenRun(run=user.pw_name, job_id=user.pw_name, spec=machine.spec(user, "true"))
            refused = place_job(options, order, lambda *_: "")
            assert isinstance(refused, h.RunRefused) and why in refused.why
            assert refused.outcome is Outcome.LOST and refused.is_lacking == bool(name)
    os.makedirs(f"{lost}/work")
    with as_root():
        os.chown(f"{lost}/work", lab.bob.pw_uid, lab.platform.pw_gid)
    order = h.OpenRun(run="lost", job_id="lost", spec=machine.spec(lab.alice, "true"))
    refused = place_job(options, order, lambda *_: "")
    assert isinstance(refused, h.RunRefused) and "the same numbers of users" in refused.why


def test_a_job_that_goes_on_from_anothers_checkpoint_can_use_its_copy(machine: Machine, lab: Lab) -> None:
    jobs, digest = machine.state / "jobs", sha(b"state")
    name = checkpoint_name(7, 7, digest)
    machine.run("old", lab.alice, f"cd {jobs}/old/work; mkdir checkpoints; printf state > checkpoints/{name}")
    files = JobFiles(jobs)
    files.reserve("new")
    copy = files.hand_over("old", "new", lab.alice.pw_name)
    assert copy == jobs / "new" / "work" / "checkpoints" / name
    told = machine.run("new", lab.alice, f"cat {copy}; echo changed >> {copy} && rm {copy} && echo gone")
    assert told == "stategone\n"
    machine.run("evil", lab.bob, f"cd {jobs}/evil/work; ln -s {jobs}/old/work/checkpoints checkpoints")
    with pytest.raises((WrongPhase, OSError)):
        files.hand_over("evil", "new", lab.bob.pw_name)


def test_code_is_its_users_alone(machine: Machine, lab: Lab) -> None:
    script = b"print(1)"
    file = CodeFile(digest=sha(script), num_bytes=len(script), is_executable=False)
    content = msgspec.json.encode(CodeTree(roots=("/srv/a",), files={"/srv/a/t.py": file}, links={}))
    kept = {
        object_path(machine.state, sha(script)): script,
        tree_path(machine.state, sha(content)): content,
    }
    for path, text in kept.items():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, text)
    code = f"{machine.state}/jobs/a/code"
    machine.begin(
        "a", lab.alice, f"cat {code}/srv/a/t.py; test $SWELL_CODE = {code} && echo same", code=sha(content)
    )
    machine.end_of("a")
    assert machine.log("a") == "print(1)same\n"
    told = machine.run(
        "b", lab.bob, f"ls {code} || cat {code}/srv/a/t.py || cat {machine.state}/jobs/a/code.json"
    )
    assert told.count("Permission denied") == 3


def test_a_container_is_of_the_user_and_sees_no_folder_that_the_user_could_swap(
    machine: Machine, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = msgspec.structs.replace(machine.spec(lab.alice, "true"), image="i", workdir=lab.bob.pw_dir)
    folder = machine.state / "jobs" / "a"
    machine.run("a", lab.alice, "true")
    mounts = job_mounts(machine.state, folder, spec)
    words = run_words(ContainerEngine("docker"), "n", spec, mounts, "/", ())
    podman = AgentOptions(state_dir=machine.state, containers=ContainerKind.PODMAN)
    monkeypatch.setattr(ContainerEngine, "program", "/bin/true")
    monkeypatch.setattr(job_files, "engine_of", ContainerEngine)
    refused = place_job(podman, h.OpenRun(run="a", job_id="a", spec=spec), lambda *_: "")
    assert [mount.target for mount in mounts] == [str(folder / "work")]
    assert words[words.index("--user") + 1] == f"{lab.alice.pw_uid}:{lab.alice.pw_gid}"
    assert isinstance(refused, h.RunRefused) and "use docker" in refused.why


def test_a_trial_run_of_a_user_writes_in_a_mirror_of_its_own(machine: Machine, lab: Lab) -> None:
    workdir = Path(lab.alice.pw_dir) / "project"
    with acting_as(lab.alice):
        workdir.mkdir()
        (workdir / "data").write_text("kept")
        workdir.chmod(0o755)
    with as_root():
        workdir.parent.chmod(0o755)
    outside, copy = lab.folder / "alice" / "outside", f"$SWELL_CODE{workdir}"
    spec = msgspec.structs.replace(
        machine.spec(
            lab.alice,
            f"pwd; echo x > {outside}; echo x > $TMPDIR/t; mkdir {copy}/made; echo y > {copy}/data;"
            f" cat {copy}/data; echo x > data; cat data",
        ),
        workdir=str(workdir),
        code=CodeStore(machine.state).take_snapshot(str(workdir), None).digest,
    )
    machine.tell(h.OpenRun(run="t", job_id="t", spec=spec, is_trial=True))
    machine.start("t")
    machine.end_of("t")
    text = (machine.state / "jobs" / "t" / "work" / "trial-0.log").read_text()
    assert text.splitlines()[-2:] == ["y", "x"] and (workdir / "data").read_text() == "kept", text
    assert "no files of its own" in text or not outside.exists()


def test_an_agent_that_is_killed_leaves_no_process_of_a_user_and_its_lock_is_free_then(
    machine: Machine, lab: Lab, held: tuple[int, dict[str, str]]
) -> None:
    """To the keepers it is the end of their connections."""
    zygote = machine.zygote(lab.alice)
    zygote._process.close()
    zygote._link._transport.abort()
    os.close(machine._lock_fd)
    machine._lock_fd = hold_lock(machine.state)
    assert not is_alive(held[0])
