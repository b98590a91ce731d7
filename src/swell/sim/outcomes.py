"""What became of each job of a run, in few bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import get_type_hints, overload

import msgspec

from swell.sim.outcome import JobOutcome

FIELDS = JobOutcome.__struct_fields__
#: Fields whose texts are the same for many jobs: a number stands for each of the first `NUM_TEXTS`.
TEXTS = ("model", "tenant", "why")
TEXTS_AT = tuple(FIELDS.index(name) for name in TEXTS)
NUM_TEXTS = 1 << 14
NOTHING = -1

_TYPES = get_type_hints(JobOutcome)
Packed = msgspec.defstruct(
    "Packed",
    [(name, str | int if name in TEXTS else _TYPES[name]) for name in FIELDS],
    array_like=True,
    gc=False,
)


class Outcomes(Sequence[JobOutcome]):
    """Outcomes by the place of their jobs in the workload, noted in any order: some 120 bytes each.

    They are told one by one, made again each time.
    """

    def __init__(self) -> None:
        self._data = bytearray()
        self._begins = array("q")  #: by place, in bytes; NOTHING: not yet
        self._ends = array("q")
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(Packed)

    def note(self, place: int, outcome: JobOutcome) -> None:
        """Once for each place."""
        values: list[object] = list(msgspec.structs.astuple(outcome))
        for at in TEXTS_AT:
            values[at] = self._number(str(values[at]))
        num_more = place + 1 - len(self._begins)
        if num_more > 0:
            self._begins.extend([NOTHING] * num_more)
            self._ends.extend([NOTHING] * num_more)
        self._begins[place] = len(self._data)
        self._data += self._encoder.encode(values)
        self._ends[place] = len(self._data)

    def _number(self, text: str) -> int | str:
        number = self._numbers.get(text)
        if number is not None:
            return number
        if len(self._texts) == NUM_TEXTS:
            return text
        self._numbers[text] = number = len(self._texts)
        self._texts.append(text)
        return number

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[JobOutcome]:
        return map(self._at, range(len(self)))

    @overload
    def __getitem__(self, place: int) -> JobOutcome: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[JobOutcome, ...]: ...

    def __getitem__(self, place: int | slice) -> JobOutcome | tuple[JobOutcome, ...]:
        places = range(len(self))[place]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Outcomes):
            return NotImplemented
        return len(self) == len(other) and all(map(JobOutcome.__eq__, self, other))

    def _at(self, place: int) -> JobOutcome:
        with memoryview(self._data) as data:
            packed = self._decoder.decode(data[self._begins[place] : self._ends[place]])
        values = msgspec.structs.asdict(packed)
        for name in TEXTS:
            if isinstance(values[name], int):
                values[name] = self._texts[values[name]]
        return JobOutcome(**values)
