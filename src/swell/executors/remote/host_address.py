"""Where hosts find the controller: an address and a port, as people write them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address

#: Where no port is named.
DEFAULT_PORT = 7070
ANY = ("0.0.0.0", "::", "")  # noqa: S104 - compared, not bound to


class InvalidAddress(ValueError):
    """This is no address with a port; the text names the form."""


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


def parse_address(text: str) -> HostAddress:
    """`ADDRESS` or `ADDRESS:PORT`, an IPv6 address in brackets. Raises InvalidAddress."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        sign, port = rest[:1], rest[1:]
    else:
        host, sign, port = text.partition(":")
    is_number = port.isascii() and port.isdecimal() and int(port) < 2**16
    if not host or sign not in ("", ":") or (sign and not is_number) or " " in text:
        raise InvalidAddress(
            f"{text!r} is no address; write ADDRESS or ADDRESS:PORT, such as 10.9.0.1:{DEFAULT_PORT}, an "
            f"IPv6 address in brackets: [fd00::1]:{DEFAULT_PORT}"
        )
    return HostAddress(host, int(port) if port else DEFAULT_PORT)


def check_address(text: str) -> str:
    """The same address. Raises InvalidAddress."""
    try:
        if not ip_address(text).is_unspecified:
            return text
    except ValueError:
        pass
    raise InvalidAddress(
        f"workers cannot be reached at {text!r}; that is one IP address of this machine, no name: "
        "write for example --advertise 10.9.0.11"
    )
