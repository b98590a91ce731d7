"""The first process of a container: finds Swell and torch, and runs the worker in a child.

Run as a script by the interpreter of the image, whatever its version: it imports the standard library only,
until it knows that the rest is there. What it prints is in the worker's log. Its order is a variable. Its
standard input ends when the engine's program outside is gone: then the container ends, too.
"""

import importlib.util
import json
import os
import select
import signal
import sys
import sysconfig
from importlib import import_module
from typing import Any

#: Exit status: the image lacks something.
UNUSABLE = 78
#: Variable with its order.
ORDER = "SWELL_CONTAINED"
STDIN = 0


def main() -> None:
    order = json.loads(os.environ.pop(ORDER))
    del sys.path[0]  # this script's folder
    lack = find_packages(order)
    if lack:
        print(lack, file=sys.stderr)
        sys.exit(UNUSABLE)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # until it can be passed on
    pid = os.fork()
    if pid == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        run(order)
    sys.exit(watch(pid))


def run(order: "dict[str, Any]") -> None:
    """Become the worker."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), STDIN)
    os.environ.update(order["environ"])
    os.makedirs(os.environ.get("SWELL_OUTPUT", "/tmp"), mode=0o700, exist_ok=True)  # noqa: S108
    module, _, function = order["call"].partition(":")
    sys.exit(getattr(import_module(module), function)(order["entry"], order["args"]))


def watch(pid: int) -> int:
    """Return how the worker has ended, which is killed when nobody is left who would hear of it."""
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(pid, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    ended = os.pidfd_open(pid)
    while ended not in select.select([STDIN, ended], [], [])[0]:
        if not os.read(STDIN, 1 << 16):
            os.kill(pid, signal.SIGKILL)
            break
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def find_packages(order: "dict[str, Any]") -> str:
    """Let Swell and torch be found. Returns what is missing, in words; empty if nothing is."""
    if order["is_command"]:  # what starts it needs the standard library and Swell's own folder
        sys.path += order["packages"][:1]
        return ""
    version = order["version"]
    remedy = f"install 'swell[torch]=={version}' in it"
    if importlib.util.find_spec("swell") is not None:
        import swell

        if swell.__version__ != version:
            return f"it has swell {swell.__version__}, and the platform is {version}; {remedy}"
    elif (own := sysconfig.get_config_var("SOABI")) == order["abi"]:
        sys.path += order["packages"]  # what the image has itself comes first
    else:
        return (
            f"it has no swell, and the platform's packages, made for {order['abi']}, do not fit its Python "
            f"({own}); {remedy}"
        )
    lacking = [name for name in ("torch", "msgspec") if importlib.util.find_spec(name) is None]
    return f"its Python has no {' and no '.join(lacking)}; {remedy}" if lacking else ""


if __name__ == "__main__":
    main()
