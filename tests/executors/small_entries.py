"""What forked workers run in the tests of the zygote."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import NoReturn


def tell(entry: str, args: list[str]) -> None:
    is_own_group = os.getpgid(0) == os.getpid()
    assert is_own_group
    listing = os.open("/proc/self/fd", os.O_RDONLY)
    opened = {int(name) for name in os.listdir(listing)}
    os.close(listing)
    sockets = [fd for fd in opened if is_socket(fd)]
    print(entry, args, os.environ["COLOUR"], os.getcwd(), os.getpid(), sockets)
    print("to stderr", file=sys.stderr)


def find_folder(entry: str, args: list[str]) -> None:
    print(sys.modules["tests.executors.keeps_folder"].FOLDER.name)


def is_socket(descriptor: int) -> bool:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}").startswith("socket:")
    except FileNotFoundError:
        return False


def leave(entry: str, args: list[str]) -> NoReturn:
    print("leaves")
    sys.exit(7)


def say_why(entry: str, args: list[str]) -> NoReturn:
    sys.exit("because")


def fail(entry: str, args: list[str]) -> NoReturn:
    raise KeyError("nothing there")


def have_child(entry: str, args: list[str]) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path("child").write_text(str(child.pid))
    time.sleep(60)


def draw(entry: str, args: list[str]) -> None:
    print(random.random())


def print_on_signal(entry: str, args: list[str]) -> None:
    """A page at SIGUSR1, a last line at SIGTERM."""
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGTERM))
    print("ready")
    while signal.sigwait((signal.SIGUSR1, signal.SIGTERM)) == signal.SIGUSR1:
        print("x" * 9999)
    print("the end")


def print_much(entry: str, args: list[str]) -> None:
    for _ in range(int(args[0]) // 100):
        print("x" * 99)


def print_for_ever(entry: str, args: list[str]) -> None:
    while True:
        print("x" * 9999)


def print_losses(entry: str, args: list[str]) -> None:
    """The last one without the end of a line."""
    for number in range(int(args[0])):
        sys.stderr.write(f"\r{number} of {args[0]} ")
        print(f'{{"step": {number}, "loss": {number / 2}}}')
    sys.stdout.write('{"step": -1, "loss": NaN}')


def list_pipes(entry: str, args: list[str]) -> None:
    """How many pipes it holds: stdout and stderr are one."""
    listing = os.open("/proc/self/fd", os.O_RDONLY)
    names = os.listdir(listing)
    os.close(listing)
    links = [
        os.readlink(f"/proc/self/fd/{name}") for name in names if os.path.exists(f"/proc/self/fd/{name}")
    ]
    print(len({link for link in links if link.startswith("pipe:")}))


def tell_folders(entry: str, args: list[str]) -> None:
    """Its own, and, told by a process of a loader, where that one would put its sockets."""
    print(os.getcwd(), tempfile.gettempdir(), flush=True)
    loader = multiprocessing.get_context("fork").Process(target=lambda: print(get_temp_dir(), flush=True))
    loader.start()
    loader.join()


def run_program(entry: str, args: list[str]) -> None:
    """`args`: a file for the pid of a shell's child, and the command by which it leaves this session."""
    file, command = args
    os.system(  # noqa: S605 - what is tried is what a script's shell leaves behind
        f"{command} & echo $! > {file}.draft; mv {file}.draft {file}"
    )
    pid = int(Path(file).read_text())
    with contextlib.suppress(ProcessLookupError):  # it has ended by itself
        while os.getsid(pid) != pid:  # until then a kill of this process group ends it
            time.sleep(0.01)


def stay(entry: str, args: list[str]) -> None:
    """Starts what `run_program` starts, and works on."""
    run_program(entry, args)
    time.sleep(60)
