"""With compiled loops, which `make loops` builds, a wheel is for one kind of machine; without, for all."""

from pathlib import Path

from setuptools import Distribution, setup

HAS_LOOPS = Path("src/swell/_loops.abi3.so").exists()


class WithLoops(Distribution):
    """Has machine code that setuptools did not build itself."""

    def has_ext_modules(self) -> bool:
        """It is for one kind of machine."""
        return HAS_LOOPS


setup(distclass=WithLoops, options={"bdist_wheel": {"py_limited_api": "cp311"}} if HAS_LOOPS else {})
