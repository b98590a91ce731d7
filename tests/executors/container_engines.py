"""Engines for tests: a fake one, and real ones, started on a scratch folder where that is possible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pytest

from swell.executors.local.processes.listing import list_processes

START_S = 60.0
TESTS = Path(__file__).parents[1]
#: Of the standard library, not needed in an image.
LEFT_OUT = {
    "__pycache__",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "site-packages",
    "test",
    "tkinter",
    "turtledemo",
}
#: Libraries that torch needs and Python may not.
LIBRARIES = ("libdl.so.2", "libgcc_s.so.1", "libgomp.so.1", "libpthread.so.0", "librt.so.1", "libstdc++.so.6")


@dataclass(frozen=True)
class TestedEngine:
    """An engine that tests can use, with an image of this interpreter, and one without any."""

    __test__ = False

    name: str
    image: str
    image_without_python: str

    def call(self, *words: str) -> str:
        done = subprocess.run([self.name, *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def running(self) -> list[str]:
        return self.call("ps", "--format", "{{.Names}}").split()


# ---------------------------------------------------------------- fake ones
@contextmanager
def fake_docker(folder: Path) -> Iterator[TestedEngine]:
    with _in_front(folder, "docker"):
        yield TestedEngine("docker", "fake:1", "fake:no-python")


@contextmanager
def fake_apptainer(folder: Path) -> Iterator[TestedEngine]:
    images = [folder / "1.sif", folder / "no-python.sif"]
    with _in_front(folder, "apptainer"):
        for image in images:
            image.touch()
        yield TestedEngine("apptainer", *map(str, images))


@contextmanager
def _in_front(folder: Path, name: str) -> Iterator[None]:
    """A fake program of this name is the first on the PATH."""
    programs = folder / "bin"
    programs.mkdir()
    (folder / "containers").mkdir()
    program = programs / name
    source = Path(__file__).with_name("fake_docker.py").read_text().partition("\n")[2]
    program.write_text(f"#!{sys.executable}\n{source}")
    program.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        patch.setenv("FAKE_DOCKER", str(folder))
        patch.delenv("DOCKER_HOST", raising=False)
        yield


# ---------------------------------------------------------------- real ones
@contextmanager
def real_docker(folder: Path) -> Iterator[TestedEngine]:
    """The daemon of this machine, where it may be used."""
    if shutil.which("docker") is None or _fails(["docker", "version"]):
        pytest.skip("no docker daemon may be used here; see `docker version`")
    with _images("docker") as engine:
        yield engine


@contextmanager
def real_podman(folder: Path) -> Iterator[TestedEngine]:
    """With images and containers of its own."""
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed")
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(
        f'[engine]\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\ntmp_dir = "{folder / "t"}"\n'
        f'{runtime}[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/data"\nrunroot = "{folder}/run"\n'
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONTAINERS_CONF", f"{folder}/containers.conf")
        patch.setenv("CONTAINERS_STORAGE_CONF", f"{folder}/storage.conf")
        if _fails(["podman", "info"]):
            pytest.skip("podman cannot run here; see `podman info`")
        try:
            with _images("podman") as engine:
                yield engine
        finally:
            _await_programs_of(folder)
            for words in (["rm", "--all", "--force", "--time", "0"], ["system", "reset", "--force"]):
                subprocess.run(["podman", *words], capture_output=True, check=False)


def _await_programs_of(folder: Path) -> None:
    """What a killed agent has started may end later than the agent, and uses the folder until then."""
    variable = f"CONTAINERS_STORAGE_CONF={folder}".encode()
    deadline_s = time.monotonic() + START_S
    while time.monotonic() < deadline_s:
        if not any(variable in _environ_of(process.pid) for process in list_processes()):
            return
        time.sleep(0.05)


def _environ_of(pid: int) -> bytes:
    """Empty of one that is gone."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _fails(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


# ---------------------------------------------------------------- images
@contextmanager
def _images(engine: str) -> Iterator[TestedEngine]:
    """Made of this machine's files, because no registry may be within reach."""
    names = [f"localhost/swell-test-{kind}:{os.getpid()}" for kind in ("python", "empty")]
    for name, write in zip(names, (write_python_image, write_empty_image), strict=True):
        with subprocess.Popen(
            [engine, "import", "-", name], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        ) as process:
            assert process.stdin is not None
            write(process.stdin)
            process.stdin.close()
            assert process.wait() == 0
    try:
        yield TestedEngine(engine, *names)
    finally:
        subprocess.run([engine, "rmi", "--force", *names], capture_output=True, check=False)


def write_empty_image(file: IO[bytes]) -> None:
    with tarfile.open(fileobj=file, mode="w|") as tar:
        folder = tarfile.TarInfo("empty")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)


def write_python_image(file: IO[bytes]) -> None:
    """This interpreter with its standard library, and these tests; neither swell nor torch."""
    program, library = Path(sys.executable).resolve(), Path(sysconfig.get_path("stdlib"))
    files = {program: program}
    for folder, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in LEFT_OUT and not name.startswith("config-")]
        files |= {Path(folder, name): Path(folder, name) for name in names if not name.endswith(".a")}
    files |= {path: path for path in _libraries(path for path in files if _has_machine_code(path, program))}
    packages = Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))
    files |= {packages / "tests" / path.relative_to(TESTS): path for path in TESTS.glob("executors/*.py")}
    with tarfile.open(fileobj=file, mode="w|") as tar:
        for path, source in sorted(files.items()):
            tar.add(source.resolve(), arcname=str(path).lstrip("/"), recursive=False)
        link = tarfile.TarInfo("usr/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, str(program)
        if Path("/usr/bin/python3") != program:
            tar.addfile(link)


def _has_machine_code(path: Path, program: Path) -> bool:
    return path == program or path.suffix == ".so" or ".so." in path.name


def _libraries(paths: Iterator[Path]) -> Iterator[Path]:
    listed = subprocess.run(["ldd", *map(str, paths)], capture_output=True, text=True, check=False).stdout
    found = {Path(word) for word in listed.split() if word.startswith("/") and not word.endswith(":")}
    for name in LIBRARIES:
        found |= {path.parent / name for path in found if (path.parent / name).exists()}
    yield from found
