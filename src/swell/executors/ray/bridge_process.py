"""The bridge's process: `python -m swell.executors.ray.bridge_process PLATFORM OPTIONS`.

It may hang while the GCS is away, and Ray ends it after a minute of that. So it is a process of its own,
which the agent starts again, and which keeps nothing that Ray has not.
"""

from __future__ import annotations

import logging
import os
import select
import sys
import time

import msgspec

from swell.executors.ray.bridge import Bridge
from swell.executors.ray.messages import (
    AcquireDevice,
    FromBridge,
    ReturnAll,
    ReturnDevice,
    StartHosts,
    ToBridge,
    Unconnected,
)
from swell.executors.ray.options import RayOptions
from swell.wire.lines import LineBuffer

STEP_S = 0.1
STDIN = 0

_decode = msgspec.json.Decoder(ToBridge).decode


def serve(bridge: Bridge) -> None:
    """Until there are no orders any more."""
    while not bridge.connect():
        time.sleep(STEP_S)  # Ray has no call that waits for this
    received = LineBuffer()
    while True:
        bridge.step(time.monotonic())
        if not select.select([STDIN], [], [], STEP_S)[0]:
            continue
        text = os.read(STDIN, 1 << 16)
        if not text:
            return
        received.feed(text)
        for line in received.lines():
            if not _obey(bridge, _decode(line)):
                return


def _obey(bridge: Bridge, order: ToBridge) -> bool:
    """False if it was the last one."""
    match order:
        case StartHosts():
            bridge.start_hosts(order)
        case AcquireDevice():
            bridge.acquire(order, time.monotonic())
        case ReturnDevice():
            bridge.give_back(order, time.monotonic())
        case ReturnAll():
            bridge.return_all()
            return False
    return True


def main() -> None:
    platform, options = sys.argv[1], msgspec.json.decode(sys.argv[2], type=RayOptions)
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what Ray prints is no message
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    def say(message: FromBridge) -> None:
        out.write(msgspec.json.encode(message) + b"\n")

    try:
        from swell.executors.ray.ray_client import NoRay, RayClient
    except ImportError as error:
        why = f"Ray cannot be imported ({error}); `--engine ray` needs it: pip install 'swell[ray]'"
        say(Unconnected(why=why))
        return
    try:
        client = RayClient(options.address)
    except NoRay as error:
        say(Unconnected(why=str(error)))
        return
    serve(Bridge(client, platform, options, say, time.time))


if __name__ == "__main__":
    main()
