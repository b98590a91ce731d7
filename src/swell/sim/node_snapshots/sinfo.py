"""What Slurm's `sinfo` prints, any columns in any order, with their names in the first line:

    PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST
    batch*       up 1-00:00:00      5   idle n[1-4,7]
    batch*       up 1-00:00:00      1  alloc n5

`STATE` and `NODELIST` are needed; of `GRES` (`sinfo -o "%T %N %G"`) a node has its GPUs, else one device. A
node of several partitions is in several lines.
"""

from __future__ import annotations

from swell.sim.node_snapshots.hostlist import expanded
from swell.sim.node_snapshots.slurm_states import is_idle_word, num_devices
from swell.sim.node_snapshots.snapshot import IdleNodes, Lines, MalformedSnapshot, TextReader


def _is_like(lines: Lines) -> bool:
    words = lines[0][1].split()
    return "STATE" in words and "NODELIST" in words


def _read(lines: Lines) -> IdleNodes:
    header = lines[0][1].split()
    found: dict[str, int] = {}
    for number, text in lines[1:]:
        cells = dict(zip(header, text.split(), strict=False))
        if len(text.split()) != len(header):
            raise MalformedSnapshot(
                number,
                f"has {len(text.split())} columns where the first line has {len(header)}; take the snapshot "
                "with columns that hold no blanks",
            )
        if not is_idle_word(cells["STATE"]) or cells["NODELIST"] in ("n/a", "(null)"):
            continue
        try:
            names = expanded(cells["NODELIST"])
        except ValueError as error:
            raise MalformedSnapshot(number, str(error)) from error
        found.update(dict.fromkeys(names, num_devices(cells.get("GRES", ""))))
    return found


SINFO = TextReader("sinfo", _is_like, _read)
