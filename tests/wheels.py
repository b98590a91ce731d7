"""Wheels made here, for tests of what installs packages and may have no network."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_wheel(
    folder: Path, name: str, version: str, needs: Sequence[str] = (), more: Mapping[str, str] = {}
) -> None:
    """A package with one module of its name, which has the version."""
    about = f"{name}-{version}.dist-info"
    requires = "".join(f"Requires-Dist: {need}\n" for need in needs)
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **more,
    }
    files[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)


def uv_environ(folder: Path) -> dict[str, str]:
    """Variables by which uv finds the wheels of a folder, and nothing else."""
    return {"UV_OFFLINE": "1", "UV_FIND_LINKS": str(folder), "UV_CACHE_DIR": str(folder / "cache")}
