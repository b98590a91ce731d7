"""Pods of `deploy/kubernetes`, run as processes of this machine just as the manifests say.

What differs: a volume is a folder, a pod's address is one of loopback, the name of a service is the address
of its pod, and the loopback port of the API is any that is free. `swell` is that of this tree.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.cli.conftest import ROOT
from tests.eventually import PATIENCE_S

FOLDER = ROOT / "deploy" / "kubernetes"
VARIABLE = re.compile(r"\$\(([A-Z_]+)\)")
#: The machine's own: workers use it for what they share.
NOT_MAPPED = ("/dev/shm",)  # noqa: S108
#: More than a command takes on a busy machine.


def manifests() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object that is shipped, with the name of its file."""
    for file in sorted(FOLDER.glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            yield file.name, manifest


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = (one for _, one in manifests() if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return found


class Pod:
    """One pod of a workload. It has run its init containers once it is made."""

    def __init__(
        self,
        workload: Mapping[str, Any],
        name: str,
        address: str,
        folder: Path,
        services: Mapping[str, str],
        secrets: Mapping[str, Mapping[str, bytes]],
    ) -> None:
        self.name, self.address, self._services = name, address, services
        self._spec: dict[str, Any] = workload["spec"]["template"]["spec"]
        claims = [one["metadata"] for one in workload["spec"].get("volumeClaimTemplates", ())]
        self._volumes: dict[str, Path] = {
            one["name"]: folder / one["name"] for one in [*self._spec.get("volumes", ()), *claims]
        }
        for path in self._volumes.values():
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(0o2777)  # as of a volume with fsGroup
        for volume in self._spec.get("volumes", ()):
            for key, content in secrets.get(volume.get("secret", {}).get("secretName"), {}).items():
                self._write_secret(
                    self._volumes[volume["name"]] / key, content, volume["secret"]["defaultMode"]
                )
        for init in self._spec.get("initContainers", ()):
            subprocess.run(
                self._words(init, init["args"]), check=True, env=self._environ(init), timeout=PATIENCE_S
            )
        (self._container,) = self._spec["containers"]
        self._log = (folder / "log").open("ab")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        words = self._words(self._container, self._container["args"])
        environ = self._environ(self._container)
        return subprocess.Popen(
            words, env=environ, stdout=self._log, stderr=self._log, start_new_session=True
        )

    @property
    def log(self) -> str:
        return Path(self._log.name).read_text()

    def volume(self, name: str) -> Path:
        return self._volumes[name]

    def exec(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`kubectl exec`."""
        return subprocess.run(
            self._words(self._container, words),
            env=self._environ(self._container),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    def answers(self, probe: str) -> bool:
        """Whether a probe of the manifest succeeds now."""
        action = self._container[probe]
        if "exec" in action:
            return self.exec(*action["exec"]["command"]).returncode == 0
        ports = {one["name"]: one["containerPort"] for one in self._container["ports"]}
        try:
            socket.create_connection((self.address, ports[action["tcpSocket"]["port"]]), 10.0).close()
        except OSError:
            return False
        return True

    def delete(self) -> int:
        """`kubectl delete pod`: SIGTERM, and SIGKILL after the grace period. Returns the exit status."""
        assert "lifecycle" not in self._container, "a hook would have to run first"
        self.process.terminate()
        try:
            return self.process.wait(self._spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def kill(self) -> None:
        """End the pod's processes, whatever they do."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.kill()
        self.process.wait()
        self._log.close()

    def processes(self) -> Iterator[int]:
        """Processes that name one of the pod's folders: its agent has a session of its own."""
        own = str(next(iter(self._volumes.values())).parent).encode()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if own in words:
                yield int(place.name)

    def _write_secret(self, file: Path, content: bytes, mode: int) -> None:
        file.write_bytes(content)
        file.chmod(mode)

    def _environ(self, container: Mapping[str, Any]) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("SWELL_")}
        plain["OMP_NUM_THREADS"] = "1"  # pods on two cores
        return plain | self._own_environ(container)

    def _own_environ(self, container: Mapping[str, Any]) -> dict[str, str]:
        fields = {"status.podIP": self.address, "metadata.name": self.name}
        return {
            one["name"]: self._mapped(container, one["value"])
            if "value" in one
            else fields[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container.get("env", ())
        }

    def _words(self, container: Mapping[str, Any], words: Any) -> list[str]:
        environ = self._own_environ(container)
        found = [
            self._mapped(container, VARIABLE.sub(lambda match: environ[match[1]], word)) for word in words
        ]
        if "--port" in found:
            found[found.index("--port") + 1] = "0"
        return [sys.executable, "-m", "swell", *found[1:]] if found[0] == "swell" else found

    def _mapped(self, container: Mapping[str, Any], text: str) -> str:
        host, colon, port = text.partition(":")
        if host in self._services:
            return f"{self._services[host]}{colon}{port}"
        for mount in container.get("volumeMounts", ()):
            path = mount["mountPath"]
            if path not in NOT_MAPPED and (text == path or text.startswith(f"{path}/")):
                return f"{self._volumes[mount['name']]}{text.removeprefix(path)}"
        return text
