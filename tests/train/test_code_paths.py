"""Imports of a script come from the snapshot of its code, however it asks for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swell.train.link.code_paths import snapshotted, submitted

SCRIPT = """
import multiprocessing, os, sys
sys.path.append({folder!r})
import added, beside, given

def tell(queue):
    import later
    queue.put((later.VERSION, added.VERSION))

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=tell, args=(queue,))
    process.start()
    print(*queue.get(timeout=60), added.VERSION, beside.VERSION, given.VERSION, os.getcwd())
    process.join()
"""


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a folder `work`, in which all is new, the snapshot with all that is old."""
    code = tmp_path / "code"
    for version, root in (("new", tmp_path / "work"), ("old", Path(f"{code}{tmp_path}/work"))):
        for name in ("modules/added.py", "modules/later.py", "beside.py", "path/given.py"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(f"VERSION = {version!r}\n")
    Path(f"{code}{tmp_path}/work/data").symlink_to(tmp_path)
    monkeypatch.setenv("SWELL_CODE", str(code))
    return code


#: Runs each script in a fork of one process: an import of torch takes seconds.
RUN = """
import os, sys
from swell.train.runtime.runner import run_entry
for entry in sys.argv[1:]:
    if os.fork() == 0:
        run_entry(entry, ())
    os.wait()
"""


@pytest.mark.slow
def test_imports_are_the_snapshots(code: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    entries = []
    for number, folder in enumerate(("modules", "./modules", f"{work}/modules")):
        entry = work / f"train{number}.py"
        entry.write_text("raise SystemExit('the new one')")
        Path(f"{code}{entry}").write_text(SCRIPT.format(folder=folder))
        entries.append(str(entry))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(work / "path"), *sys.path))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", RUN, *entries],
        capture_output=True,
        text=True,
        cwd=work,
        env=environment,
        check=False,
    )
    assert done.stdout == f"old old old old old {work}\n" * len(entries), done.stderr


def test_names_go_there_and_back(code: Path, tmp_path: Path) -> None:
    file = tmp_path / "work" / "beside.py"
    assert snapshotted(str(file)) == f"{code}{file}"
    assert submitted(f'File "{code}{file}", line 1') == f'File "{file}", line 1'
    for elsewhere in ("/nowhere/a.py", "beside.py", str(tmp_path / "work" / "data" / "work")):
        assert snapshotted(elsewhere) == elsewhere


def test_without_a_snapshot_all_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SWELL_CODE", raising=False)
    assert snapshotted(__file__) == submitted(__file__) == __file__
