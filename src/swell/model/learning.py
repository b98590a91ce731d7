"""What jobs have learnt, and with what: columns for policies that divide the cores of nodes."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from swell.arrays import BoolArray, FloatArray, IntArray

#: Columns by node, not by job.
OF_NODES = frozenset({"node_names", "num_whole"})


@dataclass(frozen=True, kw_only=True)
class Learning:
    """What each of the J jobs of a snapshot has learnt, by row. Arrays are read-only."""

    node: IntArray  #: (J,) equal numbers, one node; -1: it holds no devices, or those of several nodes
    node_names: tuple[str, ...]  #: by these numbers, which are others once a node has come or gone
    #: (J,) latest value of the job's evaluation function, its sign such that learning lowers it; NaN: none
    value: FloatArray
    rises: BoolArray  #: (J,) as the job says, learning raises the value that it reports
    value_s: FloatArray  #: (J,) when that was reported; NaN: never
    cpu_s: FloatArray  #: (J,) CPU time that the job has used so far; NaN: not measured
    share: FloatArray  #: (J,) that its gang has, or is about to have; NaN: none
    cores: FloatArray  #: (J,) of its node; NaN: not known, or no node
    #: (N,) devices of each node that can be in use while each worker has a core of its own
    num_whole: IntArray

    def of_rows(self, rows: IntArray) -> Learning:
        """Return the columns of these (n,) jobs alone, in this order."""
        columns = (one.name for one in fields(self) if one.name not in OF_NODES)
        return replace(self, **{name: getattr(self, name)[rows] for name in columns})
