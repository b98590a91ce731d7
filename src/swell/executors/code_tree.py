"""Manifests of code snapshots in a state folder."""

from __future__ import annotations

from pathlib import Path

from swell.model.code import CodeTree, decode_tree, tree_path


def read_tree(state_dir: Path, digest: str) -> CodeTree | None:
    """The manifest of a snapshot; None if it is not there."""
    try:
        return decode_tree(tree_path(state_dir, digest).read_bytes())
    except FileNotFoundError:
        return None
