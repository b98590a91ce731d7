"""The tree and the interpreter of a commit, which are made once and kept in `.bench-guard/`."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import venv
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench-guard"


@dataclass(frozen=True, slots=True)
class Environment:
    """Where the code of one commit runs."""

    commit: str
    tree: Path
    folder: Path  #: of its virtual environment

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"


def git(*words: str, folder: Path = ROOT) -> str:
    """What the command prints. Raises CalledProcessError."""
    command = ["git", "-C", str(folder), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def of_this_tree() -> Environment:
    """The code as it lies here. A commit with changes that are not committed has a `+`."""
    commit = git("rev-parse", "--short=8", "HEAD") + "+" * bool(git("status", "--porcelain", "src", "papers"))
    return _with_python(Environment(commit, ROOT, FOLDER / "here"))


def of_commit(commit: str, tree: Path | None = None) -> Environment:
    """Args: `tree` is a working tree that goes from commit to commit, else the commit has one of its own."""
    name = git("rev-parse", "--short=8", f"{commit}^{{commit}}")
    tree = tree or FOLDER / name
    if tree.exists():
        git("checkout", "--quiet", "--detach", name, folder=tree)
    else:
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--detach", str(tree), name)
    return _with_python(Environment(name, tree, tree / ".venv"))


def _with_python(environment: Environment) -> Environment:
    """Packages are those that are installed here if the commit asks for the same, else its own."""
    tree, folder = environment.tree, environment.folder
    if environment.python.exists():
        return environment
    shares = not differing((tree / "constraints.txt").read_text(), (tree / "pyproject.toml").read_text())
    venv.create(folder, with_pip=not shares, symlinks=True)
    if shares:
        packages = [path for path in sys.path if path.endswith("-packages")]
        site = next(folder.glob("lib/python*/site-packages"))
        (site / "guard.pth").write_text("\n".join([*sources_of(tree), *packages]) + "\n")
    else:
        torch = next(
            line for line in (tree / "constraints.txt").read_text().splitlines() if "torch==" in line
        )
        papers = ["-e", str(tree / "papers")] if has_papers(tree) else []
        for wanted in ([torch], ["-e", f"{tree}[demo]", *papers]):
            install: list[str | Path] = [
                environment.python,
                "-m",
                "pip",
                "install",
                "-q",
                "-c",
                "constraints.txt",
                *wanted,
            ]
            subprocess.run(install, check=True, cwd=tree)
    return environment


def has_papers(tree: Path) -> bool:
    """Whether the evaluations of papers are a distribution of their own there; at first they were not."""
    return (tree / "papers" / "pyproject.toml").exists()


def sources_of(tree: Path) -> list[str]:
    """The folders of a tree whose packages are imported."""
    return [str(tree / "src"), *([str(tree / "papers" / "src")] if has_papers(tree) else [])]


def differing(constraints: str, project: str) -> list[str]:
    """Packages that the commit needs in another version than the one that is installed here."""
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", constraints, flags=re.MULTILINE))
    known = {plain(name): pinned for name, pinned in pins.items()}
    declared = tomllib.loads(project)["project"]
    needed = [*declared["dependencies"], *declared.get("optional-dependencies", {}).get("demo", ())]
    names = [plain(re.match(r"[\w.-]+", requirement)[0]) for requirement in needed]  # type: ignore[index]
    return [name for name in names if name in known and installed(name) != known[name]]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(name: str) -> str:
    try:
        return version(name).partition("+")[0]  # torch tells its build, too
    except PackageNotFoundError:
        return ""
