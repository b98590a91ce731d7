"""A switch that holds frames: between machines of `tests.machines.namespaces`, for kernels without netem.

    python -I -S relay.py DELAY_S PREFIX

It takes the place of the bridge in the namespace of the network, between all interfaces whose names begin so,
those that come later too. Frames come and go as the kernel has them,
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
#: A machine that starts is looked for so often.
_LOOK_EVERY_S = 0.1


def open_port(interface: str) -> socket.socket:
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        port.setsockopt(socket.SOL_SOCKET, option + 25, _BUFFER_BYTES)  # SO_RCVBUFFORCE, SO_SNDBUFFORCE
    port.bind((interface, _ALL_PROTOCOLS))
    port.setblocking(False)
    return port


def update_ports(ports: dict[str, socket.socket], prefix: str) -> None:
    """Open those of interfaces that are new, and close those of interfaces that are gone."""
    names = {name for _, name in socket.if_nameindex() if name.startswith(prefix)}
    for name in names - ports.keys():
        with suppress(OSError):  # it is gone already
            ports[name] = open_port(name)
    for name in ports.keys() - names:
        ports.pop(name).close()


def main() -> None:
    delay_s, prefix = float(sys.argv[1]), sys.argv[2]
    ports: dict[str, socket.socket] = {}
    held: deque[tuple[float, socket.socket, bytes]] = deque()  # when it is due, whence, and the frame
    port_of: dict[bytes, socket.socket] = {}  # by hardware address
    look_s = 0.0
    while True:
        if time.monotonic() >= look_s:
            update_ports(ports, prefix)
            look_s = time.monotonic() + _LOOK_EVERY_S
        wait_s = max(0.0, (held[0][0] if held else look_s) - time.monotonic())
        for port in select.select(ports.values(), (), (), min(wait_s, _LOOK_EVERY_S))[0]:
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
            for port in ports.values() if known is None else [known]:
                if port is not source:
                    with suppress(OSError):  # as a switch does, it drops what cannot be sent; or it is closed
                        port.send(frame)


if __name__ == "__main__":
    main()
