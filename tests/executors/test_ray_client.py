"""What is said of a Ray that cannot be used, in the words of the real one."""

from __future__ import annotations

import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed; `pip install 'swell[ray]'` installs it")


def test_a_cluster_of_another_version_is_told_with_both_versions_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray compares them when a driver connects, as the bridge does."""
    from ray._private.utils import check_version_info

    from swell.executors.ray.ray_client import NoRay, RayClient

    def connect(**_: object) -> None:
        of_cluster = {"ray_version": "2.40.0", "python_version": "3.9.1"}
        check_version_info(of_cluster, "node 10.9.0.10", python_version_match_level="patch")

    monkeypatch.setattr(ray, "init", connect)
    with pytest.raises(NoRay) as raised:
        RayClient("auto")
    told = str(raised.value)
    assert "Ray: 2.40.0 Python: 3.9.1" in told and f"Ray: {ray.__version__}" in told
    assert told.endswith("the same versions of Ray and of Python: install those of the cluster here")
