"""A switch that holds frames: between machines of `tests.machines.namespaces`, for kernels without netem.

    python -I -S relay.py DELAY_S INTERFACE ...

It takes the place of the bridge in the namespace of the network. Frames come and go as the kernel has them,
with up to 64 KiB each (PACKET_VNET_HDR), so two machines fill 1 Gbit/s with a small part of a core.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections import deque
from contextlib import suppress

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ALL_PROTOCOLS = 3
_BUFFER_BYTES = 64 * 2**20
_HEADER_BYTES, _ADDRESS_BYTES, _FRAME_BYTES = 10, 6, 2**17


def open_port(interface: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        port.setsockopt(socket.SOL_SOCKET, option + 25, _BUFFER_BYTES)  # SO_RCVBUFFORCE, SO_SNDBUFFORCE
    port.bind((interface, _ALL_PROTOCOLS))
    port.setblocking(False)
    return port


def main() -> None:
    delay_s, ports = float(sys.argv[1]), [open_port(name) for name in sys.argv[2:]]
    held: deque[tuple[float, socket.socket, bytes]] = deque()  # when it is due, whence, and the frame
    port_of: dict[bytes, socket.socket] = {}  # by hardware address
    print("ready", flush=True)
    while True:
        wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
        for port in select.select(ports, (), (), wait_s)[0]:
            with suppress(OSError):  # nothing more is there, or its machine is down
                while True:
                    frame = port.recv(_FRAME_BYTES)
                    held.append((time.monotonic() + delay_s, port, frame))
        while held and held[0][0] <= time.monotonic():
            _, source, frame = held.popleft()
            receiver, sender = (
                frame[begin : begin + _ADDRESS_BYTES]
                for begin in (_HEADER_BYTES, _HEADER_BYTES + _ADDRESS_BYTES)
            )
            port_of[sender] = source
            known = port_of.get(receiver)
            for port in ports if known is None else [known]:
                if port is not source:
                    with suppress(OSError):  # as a switch does, it drops what cannot be sent
                        port.send(frame)


if __name__ == "__main__":
    main()
