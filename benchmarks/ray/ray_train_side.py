"""One side: Ray Train, which hears of everything from Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.machines.namespaces import HOME, INTERFACE
from tests.ray import cluster
from tests.ray.cluster import RayNode

from benchmarks.ray.settings import ENVIRON
from benchmarks.ray.site import Site
from benchmarks.training.sides import Case, LogFolder, SideFailed


class RayTrainSide:
    name = "ray train"

    def __init__(self, site: Site, case: Case, folder: Path) -> None:
        self._site, self._case, self.folder = site, case, folder
        self.log_folders: Sequence[LogFolder] = (LogFolder(folder),)
        self._driver: subprocess.Popen[str] | None = None

    def start(self, nodes: Sequence[RayNode]) -> None:
        words = ("-m", "benchmarks.ray.train_job", "--address", self._site.cluster.address)
        case = ("--size", self._case.size, "--optimizer", self._case.optimizer, "--folder", str(self.folder))
        with self._log.open("w") as log:
            self._driver = self._site.head.popen(
                *(sys.executable, *words, *case),
                cwd=HOME,
                env={**os.environ, **cluster.ENVIRON, **ENVIRON, "GLOO_SOCKET_IFNAME": INTERFACE},
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def joined(self, nodes: Sequence[RayNode]) -> Mapping[str, float]:
        """Ray Train has seen it, and does not say what it does about it."""
        return {}

    def check(self) -> None:
        if self._driver is not None and self._driver.poll() is not None:
            raise SideFailed(f"{self.name}: ended with status {self._driver.returncode}; see {self._log}")

    def close(self) -> None:
        if self._driver is not None:
            self._driver.kill()
            self._driver.wait()

    @property
    def _log(self) -> Path:
        return self.folder / "driver.log"
