"""A module that makes a folder when it is preloaded."""

from tempfile import TemporaryDirectory

FOLDER = TemporaryDirectory(prefix="swell-preloaded-")
