"""What containers are started with, what they find inside, and which program runs them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.container_engines import TestedEngine, fake_docker
from tests.executors.puppets import make_spec

import swell
from swell.api.intake import SubmissionCheck
from swell.api.submission import Submission
from swell.executors.local.containers import bootstrap
from swell.executors.local.containers.command import job_mounts, mount_words, package_mounts, run_words
from swell.executors.local.containers.engine import (
    ContainerEngine,
    ContainerKind,
    EngineUnavailable,
    engine_of,
    engine_offers,
)
from swell.executors.local.processes.listing import is_alive
from swell.model.code import CodeLimits, CodeTree, tree_path
from swell.model.errors import InvalidJob
from swell.model.job import FIXED_ENTRY, CodeSource, Mount
from swell.store.folder import StateFolder
from swell.wire.lease_end import LEASE_FILE, ShownEnd

DOCKER, PODMAN, APPTAINER = map(ContainerEngine, ("docker", "podman", "apptainer"))


# ---------------------------------------------------------------- mounts
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r"), min_size=1))
def test_any_path_can_be_mounted(name: str) -> None:
    """The engines read the option as a line of CSV."""
    option, fields = mount_words(DOCKER, Mount(f"/data/{name}", f"/data/{name}"))
    assert option == "--mount"
    (read,) = csv.reader([fields]) if "\n" not in name else csv.reader(fields.splitlines(keepends=True))
    pairs = dict(field.partition("=")[::2] for field in read)
    assert pairs["source"] == pairs["destination"] == f"/data/{name}"
    assert "readonly" in pairs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a job."""
    folder = tmp_path / "state" / "jobs" / "j"
    folder.mkdir(parents=True)
    return folder


def test_a_job_may_write_in_its_folder_only_and_sees_no_other(folder: Path, tmp_path: Path) -> None:
    state, work = tmp_path / "state", tmp_path / "work"
    spec = make_spec(workdir=str(work), entry=str(work / "sub" / "train.py"))
    mounts = job_mounts(state, folder, spec)
    assert mounts == [
        Mount(str(work), str(work)),
        Mount(str(folder), str(folder), is_writable=True),
    ]
    above = msgspec.structs.replace(spec, workdir=str(tmp_path))
    assert Mount("", str(state)) in job_mounts(state, folder, above), "it has all jobs' files and the token"
    own = job_mounts(tmp_path / "elsewhere", folder, above)
    assert Mount("", str(state)) in own, "here it is the storage of a host that has joined"
    linked = tmp_path.with_name(f"link-to-{tmp_path.name}")
    linked.symlink_to(tmp_path)
    found = job_mounts(state, folder, msgspec.structs.replace(spec, workdir=str(linked)))
    assert {Mount("", str(state)), Mount("", str(linked / "state"))} <= set(found)


def test_what_a_worker_has_planted_is_not_mounted_for_the_next_one(folder: Path, tmp_path: Path) -> None:
    (folder / "code").symlink_to("../..")
    tree = CodeTree(roots=("/home/owner",), files={}, links={}, sources_digest="")
    (folder / "code.json").write_bytes(msgspec.json.encode(tree))
    for code in ("", "abc"):
        spec = make_spec(workdir=str(tmp_path / "work"), entry="a:b", code=code)
        found = job_mounts(tmp_path / "state", folder, spec)
        assert {mount.source for mount in found} <= {spec.workdir, str(folder), str(folder / "code.json")}


def test_a_job_sees_the_end_of_the_lease_of_a_machine_that_has_joined(folder: Path, tmp_path: Path) -> None:
    state, lease = tmp_path / "state", tmp_path / "state" / LEASE_FILE
    spec = make_spec(workdir=str(tmp_path), entry="package:main")
    ShownEnd(lease)
    mounts = job_mounts(state, folder, spec)
    assert mounts.index(Mount("", str(state))) < mounts.index(Mount(str(lease), str(lease)))


def test_code_is_mounted_wherever_it_lies_and_by_both_of_its_names(folder: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "disk")
    tree = CodeTree(roots=("/elsewhere/lib",), files={}, links={}, sources_digest="")
    tree_path(state, "abc").parent.mkdir(parents=True)
    tree_path(state, "abc").write_bytes(msgspec.json.encode(tree))
    spec = make_spec(workdir=str(tmp_path / "home"), entry="package.module:main", code="abc")
    sources = {mount.source for mount in job_mounts(state, folder, spec)}
    assert sources >= {"/elsewhere/lib", str(tmp_path / "home"), str(tmp_path / "disk")}


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("{tmp}/state/jobs/k", "/x"),
        ("{tmp}/state", "/x"),
        ("/", "/x"),
        ("/proc/self", "/x"),
        ("/run/swell", "/x"),
        ("/etc", "/x"),
        ("{tmp}/data", "/usr"),
        ("{tmp}/data", "/proc/self/mem"),
        ("{tmp}/data", "{tmp}/state/jobs/j"),
        ("{tmp}/data", "/run/swell/packages/0"),
    ],
)
def test_what_is_of_the_platform_or_of_other_processes_is_no_mount(
    folder: Path, tmp_path: Path, source: str, target: str, is_link: bool
) -> None:
    mount = Mount(source.format(tmp=tmp_path), target.format(tmp=tmp_path))
    if is_link:
        (tmp_path / "link").symlink_to(mount.source)
        mount = msgspec.structs.replace(mount, source=str(tmp_path / "link"))
    spec = make_spec(workdir=str(tmp_path / "work"), entry="a:b", image="img:1", mounts=(mount,))
    with pytest.raises(InvalidJob, match="a mount is"):
        job_mounts(tmp_path / "state", folder, spec)


def test_a_mount_above_the_platforms_folders_hides_them(folder: Path, tmp_path: Path) -> None:
    mounts = (Mount(str(tmp_path), "/inside", True), Mount("/data", "/data"))
    spec = make_spec(workdir=str(tmp_path / "work"), entry="a:b", mounts=mounts)
    found = job_mounts(tmp_path / "state", folder, spec)
    assert {*mounts, Mount("", "/inside/state")} <= set(found)


def test_a_job_of_a_user_mounts_what_only_root_can_move(folder: Path, tmp_path: Path) -> None:
    """The engine is root: it follows paths that the user may not, and that others may have changed since."""
    (tmp_path / "mine").symlink_to("/opt")
    fixed, closed, mine = Mount("/opt", "/opt"), Mount("/root/x", "/x"), Mount(str(tmp_path / "data"), "/x")
    linked = Mount(str(tmp_path / "mine"), "/y", True)
    spec = make_spec(workdir=str(tmp_path / "work"), entry="a:b", run_as="ann", mounts=(fixed, linked))
    found = job_mounts(tmp_path / "state", folder, spec)
    assert {fixed, Mount("/opt", "/y", True)} <= set(found) and str(tmp_path / "work") not in str(found)
    for mount in (closed, mine):
        with pytest.raises(InvalidJob, match="path a user could change"):
            job_mounts(tmp_path / "state", folder, msgspec.structs.replace(spec, mounts=(mount,)))


OWN, PLATFORMS = (
    "which a container has of its own; use",
    "which is of the platform; use a folder of the job's",
)


@pytest.mark.parametrize(
    ("workdir", "why"),
    [
        *((path, OWN) for path in ("/", "/tmp", "/usr/", "/tmp/../etc")),  # noqa: S108
        *((f"{{tmp}}/{name}", PLATFORMS) for name in ("state", "state/jobs/k", "link", "link/jobs")),
    ],
)
def test_what_a_container_or_the_platform_has_of_its_own_is_no_workdir(
    folder: Path, tmp_path: Path, workdir: str, why: str
) -> None:
    (tmp_path / "link").symlink_to("state")
    (tmp_path / "state" / "jobs" / "k").mkdir()
    spec = make_spec(workdir=workdir.format(tmp=tmp_path), entry="package:main", image="img:1")
    with pytest.raises(InvalidJob, match=why):
        job_mounts(tmp_path / "state", folder, spec)
    asked = Submission(global_batch=8, steps=1, code=CodeSource.LIVE)
    with pytest.raises(InvalidJob, match=why):
        SubmissionCheck(StateFolder(tmp_path / "state"), CodeLimits()).prepare(asked, spec, user="")


# ---------------------------------------------------------------- options
def words(engine: ContainerEngine, gpus: tuple[str, ...] = (), **changes: Any) -> list[str]:
    spec = make_spec(image="img:1", **changes)
    return run_words(engine, "swell-1", spec, [Mount("/work", "/work")], "/work", gpus)


def test_a_container_can_do_little() -> None:
    found = words(DOCKER)
    line = " ".join(found)
    for option in (
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--pids-limit 4096",
        "--pull never",
        "--workdir /work",
        f"--user {os.geteuid()}:{os.getegid()}",
    ):
        assert option in line
    program = "/run/swell/packages/0/swell/executors/local/containers/bootstrap.py"
    assert found[-3:] == ["python3", "img:1", program]
    assert "SWELL_TOKEN" not in line and "--memory" not in line and "--gpus" not in line


def test_apptainer_gets_gpus_and_no_folder_of_this_machine_by_itself() -> None:
    found = words(APPTAINER, ("GPU-a",), memory_bytes=1024)
    assert found[:5] == ["exec", "--containall", "--no-home", "--no-privs", "--nv"]
    assert "--nv" not in words(APPTAINER)
    script = "/run/swell/packages/0/swell/executors/local/containers/bootstrap.py"
    assert found[-3:] == ["img:1", "python3", script]
    assert found[found.index("--mount") + 1] == "type=bind,source=/work,destination=/work,readonly"
    with pytest.raises(ValueError, match="Apptainer cannot hide"):
        mount_words(APPTAINER, Mount("", "/home/state"))


def test_a_memory_limit_counts_swap_too() -> None:
    assert "--memory 1024 --memory-swap 1024" in " ".join(words(DOCKER, memory_bytes=1024))


def test_a_worker_has_the_gpus_of_its_devices_and_no_others() -> None:
    found = words(DOCKER, ("GPU-a", "GPU-b"))
    assert found[found.index("--gpus") + 1] == '"device=GPU-a,GPU-b"'
    line = " ".join(words(PODMAN, ("GPU-a", "GPU-b")))
    assert "--device nvidia.com/gpu=GPU-a --device nvidia.com/gpu=GPU-b" in line


# ---------------------------------------------------------------- inside
def told(**changes: Any) -> dict[str, Any]:
    usual = {"version": swell.__version__, "abi": "none", "packages": [], "modules": [], "is_command": False}
    return usual | changes


def find(order: dict[str, Any], *without: str) -> str:
    """What an interpreter without these modules says."""
    code = (
        "import importlib.util, json, runpy, sys\n"
        f"found = importlib.util.find_spec\nabsent = {without!r}\n"
        "importlib.util.find_spec = lambda name: None if name in absent else found(name)\n"
        f"print(runpy.run_path({bootstrap.__file__!r})['find_packages'](json.loads(sys.argv[1])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(order)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("order", "without", "says"),
    [
        (told(), (), ""),
        (told(version="9.9"), (), f"it has swell {swell.__version__}, and the platform is 9.9; install"),
        (told(), ("torch",), f"its Python has no torch; install 'swell[torch]=={swell.__version__}' in it"),
        (told(), ("torch", "msgspec"), "its Python has no torch and no msgspec"),
        (told(abi="cpython-39"), ("swell",), "made for cpython-39, do not fit its Python"),
        (told(abi="cpython-39", is_command=True), ("swell", "torch", "msgspec"), ""),
    ],
)
def test_an_image_says_what_it_lacks(order: dict[str, Any], without: tuple[str, ...], says: str) -> None:
    pytest.importorskip("torch")
    answer = find(order, *without)
    assert says in answer
    assert bool(answer) == bool(says)


def test_what_starts_a_command_needs_the_standard_library_alone() -> None:
    first, *_ = package_mounts()
    code = f"import sys; sys.path.append({first.source!r}); import {FIXED_ENTRY.partition(':')[0]}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_the_platforms_packages_hold_the_script_that_begins() -> None:
    first, *_ = package_mounts()
    assert bootstrap.__file__.startswith(f"{first.source}/swell/")


def test_an_environment_whose_torch_is_elsewhere_has_it_in_containers(tmp_path: Path) -> None:
    """A new environment that knows of this one by a `.pth` file, as one with an outer environment does."""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path)], check=True)
    (site,) = tmp_path.glob("lib/python*/site-packages")
    (site / "outer.pth").write_text("\n".join(path for path in sys.path if os.path.isabs(path)))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def says(python: str, *words: str) -> str:
        done = subprocess.run([python, *words], check=True, capture_output=True, text=True, env=environment)
        return done.stdout.strip()

    asks = (
        "from swell.executors.local.containers.command import package_mounts as found\n"
        "print([one.source for one in found()])"
    )
    folders = says(str(tmp_path / "bin" / "python"), "-c", asks)
    assert str(site) in folders
    finds = (
        f"import sys, importlib.util as u; sys.path += {folders}\n"
        "print(*(bool(u.find_spec(one)) for one in sys.argv[1:]))"
    )
    found = says(sys.executable, "-I", "-S", "-c", finds, "torch", "numpy", "msgspec", "swell")
    assert found == "True True True True"


# ---------------------------------------------------------------- its first process
def first_process(**changes: Any) -> subprocess.Popen[bytes]:
    """Which has its order, and a standard input that does not end."""
    packages = [path for path in sys.path if path]
    given = told(**{"environ": {"A": "b"}, "packages": packages, "args": ["1"], **changes})
    return subprocess.Popen(
        [sys.executable, bootstrap.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {bootstrap.ORDER: json.dumps(given)},
    )


@pytest.fixture
def entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "contained_entry.py").write_text(
        "import os, signal, sys\n"
        "def ends(entry, args):\n    print(entry, args, os.environ['A'], sys.stdin.read())\n    return 7\n"
        "def waits(entry, args):\n    print(os.getpid(), flush=True)\n    signal.pause()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return "contained_entry"


def test_a_worker_has_its_variables_and_no_input_and_its_end_is_the_containers(entry: str) -> None:
    pytest.importorskip("torch")
    with first_process(call=f"{entry}:ends", entry="train.py") as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"train.py ['1'] b \n"
        assert process.wait() == 7


def test_a_worker_ends_when_the_engines_program_outside_is_gone(entry: str) -> None:
    pytest.importorskip("torch")
    with first_process(call=f"{entry}:waits", entry="") as process:
        assert process.stdout is not None and process.stdin is not None
        pid = int(process.stdout.readline())
        assert is_alive(pid)
        process.stdin.close()
        assert process.wait() == 128 + signal.SIGKILL and not is_alive(pid)


def test_a_worker_hears_the_signals_that_its_first_process_gets(entry: str) -> None:
    pytest.importorskip("torch")
    with first_process(call=f"{entry}:waits", entry="") as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.terminate()
        assert process.wait() == 128 + signal.SIGTERM


# ---------------------------------------------------------------- programs
@pytest.fixture
def engine(tmp_path: Path) -> Iterator[TestedEngine]:
    with fake_docker(tmp_path) as engine:
        yield engine


def test_an_engine_that_answers_is_offered(engine: TestedEngine, tmp_path: Path) -> None:
    docker = engine_offers()[0]
    assert (docker.name, docker.note, docker.is_offered) == ("docker", "28.0.0", True)
    assert engine_of(ContainerKind.AUTO) == engine_of(ContainerKind.DOCKER) == DOCKER
    assert engine_of(ContainerKind.OFF) is None


def test_one_that_does_not_says_why(
    engine: TestedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = tmp_path / "down"
    down.write_text("permission denied while trying to connect to the Docker daemon socket")
    assert "permission denied" in engine_offers()[0].why_not
    with pytest.raises(EngineUnavailable, match="docker cannot be used: permission denied"):
        DOCKER.check_image(engine.image)
    down.unlink()
    DOCKER.check_image(engine.image)
    with pytest.raises(
        ValueError, match="there is no image nope:1 on this machine; get it with `docker pull"
    ):
        DOCKER.check_image("nope:1")
    monkeypatch.setenv("PATH", "")
    assert {offer.why_not for offer in engine_offers()} == {"it is not installed"}
    assert engine_of(ContainerKind.AUTO) is None


def test_a_program_that_hangs_or_is_gone_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "docker"
    program.write_text(f"#!{sys.executable}\ninput()\nimport time; time.sleep(60)")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = ContainerEngine("docker")
    assert engine.call("version", limit_s=0.0) == ("", "docker did not answer within 0 s")
    program.unlink()
    assert "cannot be run" in engine.call("version")[1]


def test_podman_does_not_copy_what_is_hidden() -> None:
    assert "notmpcopyup" in mount_words(PODMAN, Mount("", "/state"))[1]
    assert "notmpcopyup" not in mount_words(DOCKER, Mount("", "/state"))[1], "it does not know the word"
