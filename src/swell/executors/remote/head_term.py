"""The term of a platform's head: a head that takes over from a copy has a higher term than the one before.

Hosts remember the highest that they have met, and a head of a lower one is none any longer.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from pathlib import Path

from swell.wire.whole_files import sync, write_whole

REIGN_FILE = "reign"
MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class HeadTerm:
    """Term of a head: a number that is higher for each later head, sealed with an HMAC.

    Hosts keep the sealed number and show it to later heads. The seal proves to these that it was a head's.

    Args:
        key: secret that all heads of the platform have, and no host.
    """

    number: int = 0
    key: bytes = field(default=b"", repr=False)

    @property
    def sealed(self) -> str:
        """What hosts keep, and show to every head."""
        return f"{self.number}.{self._seal_of(self.number)}"

    def proven(self, sealed: str) -> int:
        """The number that a head of this platform has sealed so; 0: none has."""
        number = number_of(sealed)
        expected = f"{number}.{self._seal_of(number)}".encode()
        return number if hmac.compare_digest(sealed.encode("utf-8", "surrogatepass"), expected) else 0

    def _seal_of(self, number: int) -> str:
        return hmac.new(self.key, f"swell reign {number}".encode(), hashlib.sha256).hexdigest()


#: Of a head that has taken over from no other one.
FIRST = HeadTerm()


def number_of(sealed: str) -> int:
    """0 of what is none."""
    number, _, _ = sealed.partition(".")
    return int(number) if number.isascii() and number.isdecimal() and len(number) <= MOST_DIGITS else 0


class UnusableHeadTerm(ValueError):
    """The file holds no number; the text names the remedy."""


def read_head_term(folder: Path, name: str = REIGN_FILE) -> int:
    """0: no head has taken over from another one. Raises UnusableReign, OSError."""
    path = folder / name
    try:
        return parse_head_term(path.read_bytes())
    except FileNotFoundError:
        return 0
    except ValueError as error:
        raise UnusableHeadTerm(
            f"{path} is damaged ({error}); it must hold how often another head has taken over: write a "
            "number there that is higher than it can have been"
        ) from error


def parse_head_term(text: bytes) -> int:
    """Raises ValueError."""
    reign = int(text)
    if reign < 0:
        raise ValueError(f"{reign} is below 0")
    return reign


def write_head_term(folder: Path, reign: int, name: str = REIGN_FILE) -> None:
    """Raises OSError."""
    write_whole(folder / name, f"{reign}\n".encode(), is_synced=True)
    sync(folder)
