"""What forked workers run in the tests of the zygote."""

from __future__ import annotations

import multiprocessing
import os
import random
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


def use_torch(entry: str, args: list[str]) -> None:
    import torch

    print(torch.ones(3).sum().item())


def tell_folders(entry: str, args: list[str]) -> None:
    """Its own, and, told by a process of a loader, where that one would put its sockets."""
    print(os.getcwd(), tempfile.gettempdir(), flush=True)
    loader = multiprocessing.get_context("fork").Process(target=lambda: print(get_temp_dir(), flush=True))
    loader.start()
    loader.join()
