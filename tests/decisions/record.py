"""Write again what runs command: `python -m tests.decisions.record`.

With `--show CASE` the commands of one run are printed instead: two versions of them can be compared.
"""

from __future__ import annotations

import argparse

from tests.decisions.cases import cases
from tests.decisions.digests import RECORDED, transcribe, write


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.decisions.record", description=__doc__)
    parser.add_argument("--show", metavar="CASE", help="print the commands of this run, and write nothing")
    asked = parser.parse_args()
    known = cases()
    if asked.show is not None:
        if asked.show not in known:
            parser.error(f"there is no case {asked.show!r}; choose one of {', '.join(known)}")
        print("\n".join(map(str, transcribe(known[asked.show]).told)))
        return
    write({name: transcribe(case).digest() for name, case in known.items()})
    print(f"wrote {len(known)} runs to {RECORDED}")


if __name__ == "__main__":
    main()
