"""A file with a .pxd file beside it is compiled, where there is a C compiler; else it runs as it is."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

SOURCE = Path("src")
#: No multiplication and addition are joined into one: results are those of plain Python, to the last bit.
FLAGS = ["-O3", "-ffp-contract=off", "-g0"]
DIRECTIVES = {
    "annotation_typing": False,  # C types are in .pxd files
    "boundscheck": False,
    "infer_types": True,
    "language_level": 3,
}

kernels = [file.with_suffix(".py") for file in sorted(SOURCE.rglob("*.pxd"))]
extensions = cythonize(
    [
        Extension(".".join(file.relative_to(SOURCE).with_suffix("").parts), [str(file)])
        for file in kernels
        if file.exists()
    ],
    build_dir="build/kernels",
    include_path=["src"],
    compiler_directives=DIRECTIVES,
)
for extension in extensions:  # cythonize takes over no such choice
    extension.extra_compile_args, extension.optional = FLAGS, True
setup(ext_modules=extensions)
