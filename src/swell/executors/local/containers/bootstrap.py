"""The first lines that run in a container: meet the agent, find Swell and torch, become a zygote.

Run as a script by the interpreter of the image, whatever its version: it imports the standard library only,
until it knows that the rest is there. What it prints is the agent's explanation.
"""

import array
import importlib.util
import json
import os
import socket
import sys
import sysconfig
from typing import Any

NUM_DESCRIPTORS = 2
LEAST_VERSION = (3, 11)


def main() -> None:
    order = json.loads(sys.argv[1])
    channel = socket.socket(socket.AF_UNIX)
    channel.connect(order["socket"])
    _, log = receive_descriptors(channel)  # the lock is just kept
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    del sys.path[0]  # this script's folder
    lack = find_packages(order)
    if lack:
        sys.exit(lack)
    from swell.executors.local.zygote.process import serve_on

    serve_on(channel, order["modules"])


def receive_descriptors(channel: socket.socket) -> "array.array[int]":
    """The lock that all processes of a platform hold, and the zygote's log."""
    descriptors = array.array("i")
    num_bytes = NUM_DESCRIPTORS * descriptors.itemsize
    _, messages, _, _ = channel.recvmsg(1, socket.CMSG_SPACE(num_bytes))
    for _, _, content in messages:
        descriptors.frombytes(content[:num_bytes])
    return descriptors


def find_packages(order: "dict[str, Any]") -> str:
    """Let Swell and torch be found. Returns what is missing, in words; empty if nothing is."""
    version = order["version"]
    remedy = f"install 'swell[torch]=={version}' in it"
    if sys.version_info < LEAST_VERSION:
        own = ".".join(map(str, sys.version_info[:2]))
        return f"its Python is {own}, and Swell needs {'.'.join(map(str, LEAST_VERSION))} or newer"
    if importlib.util.find_spec("swell") is not None:
        import swell

        if swell.__version__ != version:
            return f"it has swell {swell.__version__}, and the platform is {version}; {remedy}"
    elif sysconfig.get_config_var("SOABI") == order["abi"]:
        sys.path += order["packages"]  # what the image has itself comes first
    else:
        own = sysconfig.get_config_var("SOABI")
        return (
            f"it has no swell, and the platform's packages, made for {order['abi']}, do not fit its Python "
            f"({own}); {remedy}"
        )
    lacking = [name for name in ("torch", "msgspec") if importlib.util.find_spec(name) is None]
    return f"its Python has no {' and no '.join(lacking)}; {remedy}" if lacking else ""


if __name__ == "__main__":
    main()
