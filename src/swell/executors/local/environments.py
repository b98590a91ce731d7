"""Environments of jobs' own: the packages of an interpreter, and what a list of requirements adds to them.

One is made once on a host, by its content, for all jobs that ask for the same, and goes when none has started
in it for `KEPT_S`. A process of the interpreter itself makes it. uv sees the packages that are there as
installed in the environment, by their metadata, which is taken out again: so it adds what is missing, and
fails if requirements contradict Swell, torch or what Swell needs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import signal
import site
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path

import swell

KEPT_S = 14 * 86400.0
#: Of what uv says at last.
NUM_LINES = 12
#: In the folder of an environment that is whole.
READY = "swell-ready"
#: Installer of packages that are shown as installed; and those whose version is that of the interpreter.
SHOWN, FIXED = "swell-base", ("swell", "torch")
#: No code of a package runs while it is installed; and else, what takes time later.
CLOSED, OPEN = "--no-build", "--compile-bytecode"


def uv_words() -> list[str]:
    """Return the begin of a command line of uv; empty: it is not installed."""
    if found := shutil.which("uv"):
        return [found]
    return [sys.executable, "-m", "uv"] if importlib.util.find_spec("uv") else []


def found_first(programs: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables by which processes find this folder of programs before all others."""
    path = variables.get("PATH", os.environ.get("PATH", os.defpath))
    return {"PATH": f"{programs}{os.pathsep}{path}", "VIRTUAL_ENV": os.path.dirname(programs)}


class EnvironmentSet:
    """Those of a host. Thread-safe; methods wait for programs."""

    def __init__(self, state_dir: Path) -> None:
        self._root = state_dir.absolute() / "envs"
        self._lock = threading.Lock()
        self._builds: set[subprocess.Popen[bytes]] | None = set()  #: None: there are to be no more

    def made(self, requirements: str, python: str, option: str, in_use: Collection[str] = ()) -> str:
        """Return the interpreter of an environment, which is made if there is none.

        Args:
            python: the interpreter to whose packages it adds; empty: this one.
            option: `CLOSED` for requirements of one who may not run code as this account, else `OPEN`.
            in_use: interpreters whose environments are not removed.

        Raises ValueError, with what uv has said: there can be none; OSError: its folder cannot be written.
        """
        base = python or sys.executable
        content = (
            requirements,
            base,
            os.path.realpath(base),
            "" if python else sys.version,
            swell.__version__,
        )
        folder = self._root / hashlib.sha256("\0".join(content).encode()).hexdigest()[:32]
        with self._lock:
            is_ready = (folder / READY).exists()
            if is_ready:
                os.utime(folder)  # it is in use now
        if not is_ready:
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_unused(in_use)
            self._build([base, "-P", "-m", __name__, str(folder), option, *uv_words()], requirements)
        return str(folder / "bin" / "python")

    def end(self) -> None:
        """Kill what makes one now: it is made again when a job asks for it."""
        with self._lock:
            builds, self._builds = self._builds or (), None
        for build in builds:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(build.pid, signal.SIGKILL)

    def _build(self, words: list[str], requirements: str) -> None:
        pipe, out = subprocess.PIPE, subprocess.STDOUT
        with self._lock:
            if self._builds is None:
                raise InterruptedError("the agent ends")
            build = subprocess.Popen(
                words, stdin=pipe, stdout=pipe, stderr=out, cwd="/", start_new_session=True
            )
            self._builds.add(build)
        said = build.communicate(requirements.encode())[0].decode(errors="replace")
        with self._lock:
            (self._builds or set()).discard(build)
        if build.returncode:
            last = "\n".join(said.strip().splitlines()[-NUM_LINES:])
            raise ValueError(f"its environment (`uv`) cannot be made:\n{last}")

    def _remove_unused(self, in_use: Collection[str]) -> None:
        with self._lock:
            for folder in self._root.iterdir():
                is_used = str(folder / "bin" / "python") in in_use
                if folder.is_dir() and not is_used and time.time() - folder.stat().st_mtime > KEPT_S:
                    (folder / READY).unlink(missing_ok=True)
                    shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- in the process that makes one
def make(folder: Path, option: str, uv: list[str]) -> None:
    """Make an environment of the requirements in the standard input, unless another process does."""
    os.umask(0o022)
    folder.parent.chmod(0o711)  # all accounts run in those whose names they are told
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / READY).exists():
            return
        shutil.rmtree(folder, ignore_errors=True)
        _run(*uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(folder))
        packages = next(folder.glob("lib/python*/site-packages"))
        limits = folder / "constraints.txt"
        limits.write_text("\n".join(show_installed(packages)))
        options = ("--python", str(folder / "bin" / "python"), "--constraints", str(limits), option)
        _run(*uv, "pip", "install", "--quiet", "--no-progress", "--color", "never", *options, "-r", "-")
        for mark in packages.glob("*.dist-info/INSTALLER"):
            if mark.read_text() == SHOWN:
                shutil.rmtree(mark.parent)
        own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
        lines = [f"import site; site.addsitedir({path!r})\n" for path in (*site.getsitepackages(), *own)]
        (packages / "swell-base.pth").write_text("".join(lines))
        (folder / READY).touch()


def show_installed(packages: Path) -> list[str]:
    """Have a folder of packages show those of this interpreter as installed; return what they must stay."""
    limits = [line for line in importlib.metadata.requires("swell") or () if "extra ==" not in line]
    for found in importlib.metadata.distributions():
        if (text := found.read_text("METADATA")) is None:
            continue
        name = found.metadata["Name"]
        folder = packages / f"{name.replace('-', '_')}-{found.version}.dist-info"
        folder.mkdir(exist_ok=True)
        for file, content in (("METADATA", text), ("RECORD", ""), ("INSTALLER", SHOWN)):
            (folder / file).write_text(content)
        if name in FIXED:
            limits.append(f"{name}=={found.version}")
    return limits


def _run(*words: str) -> None:
    """Raises SystemExit: the program failed, and has said why."""
    if subprocess.run(words, check=False).returncode:
        sys.exit(1)


if __name__ == "__main__":
    make(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
