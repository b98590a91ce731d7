"""Where hosts find the controller: an address and a port, as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

from swell.model.errors import InvalidOption

#: Where no port is named.
DEFAULT_PORT = 7070
ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound to


@dataclass(frozen=True, slots=True)
class HostAddress:
    """`host`: a name, an IPv4 or an IPv6 address."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_any(self) -> bool:
        """Whether it stands for all addresses of a machine."""
        return self.host in ANY


def parse_address(text: str, default_port: int = DEFAULT_PORT) -> HostAddress:
    """`ADDRESS` or `ADDRESS:PORT`, an IPv6 address in brackets. Raises InvalidOption."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        sign, port = rest[:1], rest[1:]
    else:
        host, sign, port = text.partition(":")
    is_number = port.isascii() and port.isdecimal() and int(port) < 2**16
    if not host or sign not in ("", ":") or (sign and not is_number) or " " in text:
        raise InvalidOption(
            f"{text!r} is no address; write ADDRESS or ADDRESS:PORT, such as 10.9.0.1:{default_port}, an "
            f"IPv6 address in brackets: [fd00::1]:{default_port}"
        )
    return HostAddress(host, int(port) if port else default_port)


def check_address(text: str) -> str:
    """The same address. Raises InvalidOption."""
    try:
        if not ip_address(text).is_unspecified:
            return text
    except ValueError:
        pass
    raise InvalidOption(
        f"workers cannot be reached at {text!r}; that is one IP address of this machine, no name: "
        "write for example --advertise 10.9.0.11"
    )
