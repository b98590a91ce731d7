"""A folder that behaves as the kernel's control groups do, of version 1 or 2."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from swell.wire.group_places import GroupFiles

V1_FILES = {"cpu": {"cpu.shares": "1024", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "-1"}}
V2_FILES = {
    "cpu": {"cpu.weight": "100", "cpu.max": "max 100000"},
    "memory": {"memory.max": "max", "memory.events": "oom 0\noom_kill 0"},
    "io": {"io.max": ""},
}


class FakeKernel(GroupFiles):
    """Groups below `root`. What a test does to a process or a group it does with the methods of its own."""

    # ------------------------------------------------------------ what a test does
    def own(self, text: str) -> None:
        """As /proc/self/cgroup has it."""
        self._put("/proc/self/cgroup", text)

    def mounted(self, text: str) -> None:
        """As /proc/self/mountinfo has it."""
        self._put("/proc/self/mountinfo", text)

    def _put(self, path: str, text: str) -> None:
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).write_text(text)

    def start(self, folder: Path, pid: int) -> None:
        """A process begins in this group."""
        (folder / "cgroup.procs").write_text(f"{(folder / 'cgroup.procs').read_text()}{pid}\n")

    def end(self, pid: int) -> None:
        for file in self.root.rglob("cgroup.procs"):
            file.write_text("".join(f"{one}\n" for one in self.pids(file.parent) if one != pid))

    # ------------------------------------------------------------ what the kernel does
    def make(self, folder: Path) -> None:
        if folder.is_dir():
            return
        folder.mkdir()
        (folder / "cgroup.procs").write_text("")
        for name, text in self._files_in(folder).items():
            (folder / name).write_text(text)

    def remove(self, folder: Path) -> None:
        if not folder.is_dir():
            return
        if self.inner(folder) or self.pids(folder):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
        shutil.rmtree(folder)

    def write(self, path: Path, text: str) -> None:
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if path.name == "cgroup.procs":
            self._move(int(text), path.parent)
        elif path.name == "cgroup.subtree_control":
            self._hand_down(path.parent, text.removeprefix("+"))
        else:
            path.write_text(text)

    def _move(self, pid: int, folder: Path) -> None:
        self._refuse_move(folder)
        hierarchy = self._hierarchy(folder)
        holders = [file.parent for file in hierarchy.rglob("cgroup.procs") if pid in self.pids(file.parent)]
        if not holders:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        for holder in holders:
            rest = [one for one in self.pids(holder) if one != pid]
            (holder / "cgroup.procs").write_text("".join(f"{one}\n" for one in rest))
        self.start(folder, pid)

    # ------------------------------------------------------------ of each version
    def _hierarchy(self, folder: Path) -> Path:
        raise NotImplementedError

    def _files_in(self, folder: Path) -> dict[str, str]:
        raise NotImplementedError

    def _refuse_move(self, folder: Path) -> None:
        """No rule forbids it."""

    def _hand_down(self, folder: Path, name: str) -> None:
        raise NotImplementedError


class FakeV1(FakeKernel):
    """Hierarchies `cpu,cpuacct`, `memory` and `blkio`, with this process in a group of that of memory."""

    def boot(self) -> None:
        lines = []
        for number, names in enumerate(("cpu,cpuacct", "memory", "blkio")):
            point = f"/sys/fs/cgroup/{names}"
            self.at(point).mkdir(parents=True)
            (self.at(point) / "cgroup.procs").write_text("")
            lines.append(f"{number} 1 0:{number} / {point} rw - cgroup cgroup rw,{names}")
        self.mounted("\n".join(lines))
        self.make(self.at("/sys/fs/cgroup/memory/session"))
        self.own("3:cpu,cpuacct:/\n2:memory:/session\n1:blkio:/\n")

    def _hierarchy(self, folder: Path) -> Path:
        return self.at("/sys/fs/cgroup") / folder.relative_to(self.at("/sys/fs/cgroup")).parts[0]

    def _files_in(self, folder: Path) -> dict[str, str]:
        names = self._hierarchy(folder).name.split(",")
        return {file: text for name in names for file, text in V1_FILES.get(name, {}).items()}


class FakeV2(FakeKernel):
    """One hierarchy, with this process in a scope that is delegated to it, or not."""

    scope = "user.slice/swell.scope"
    is_delegated = True

    @property
    def top(self) -> Path:
        return self.at("/sys/fs/cgroup")

    @property
    def own_group(self) -> Path:
        return self.top / self.scope

    def boot(self) -> None:
        self.mounted("31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw")
        self.top.mkdir(parents=True)
        for name, text in (("controllers", "cpu memory io"), ("subtree_control", ""), ("procs", "")):
            (self.top / f"cgroup.{name}").write_text(text)
        folder = self.top
        for part in self.scope.split("/"):
            for name in ("cpu", "memory", "io"):
                self.write(folder / "cgroup.subtree_control", f"+{name}")
            folder = folder / part
            self.make(folder)
        self.own(f"0::/{self.scope}\n")

    def has_mark(self, folder: Path, name: str) -> bool:
        return self.is_delegated and folder == self.own_group and name == "user.delegate"

    def _hierarchy(self, folder: Path) -> Path:
        return self.top

    def _files_in(self, folder: Path) -> dict[str, str]:
        controllers = (folder.parent / "cgroup.subtree_control").read_text()
        own = {"controllers": controllers, "subtree_control": "", "type": "domain"}
        files = {f"cgroup.{name}": text for name, text in own.items()}
        for name in controllers.split():
            files |= V2_FILES[name]
        return files

    def _refuse_move(self, folder: Path) -> None:
        if folder != self.top and (folder / "cgroup.subtree_control").read_text():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))

    def _hand_down(self, folder: Path, name: str) -> None:
        if name not in (folder / "cgroup.controllers").read_text().split():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        if folder != self.top and self.pids(folder):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(folder))
        handed = (folder / "cgroup.subtree_control").read_text().split()
        (folder / "cgroup.subtree_control").write_text(" ".join(dict.fromkeys([*handed, name])))
        for inner in self.inner(folder):
            for file, text in self._files_in(inner).items():
                if file == "cgroup.controllers" or not (inner / file).exists():
                    (inner / file).write_text(text)
