"""Snapshots of code: what goes in, what stays out, and what is removed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import fewer_if_quick

from swell.executors.local.agent.job_files import place_code
from swell.model.code import CodeFile, CodeLimits, CodeTree, decode_tree, object_path, tree_path
from swell.model.job import JobSpec
from swell.store.code_snapshot import CodeNotFound
from swell.store.code_store import GRACE_S, CodeStore

LIMITS = CodeLimits(code_file_mib=0.001, code_total_mib=1, code_num_files=20)
LARGE = b"x" * 2000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state" / "jobs").mkdir(parents=True)
    return tmp_path / "state"


@pytest.fixture
def store(state: Path) -> CodeStore:
    return CodeStore(state, LIMITS)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write(
        tmp_path / "project", {"train.py": "import net", "net/__init__.py": "", "net/layers.py": "WIDTH = 8"}
    )
    return tmp_path / "project"


def write(root: Path, contents: dict[str, str | bytes]) -> None:
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def read(state: Path, digest: str) -> CodeTree:
    return decode_tree(tree_path(state, digest).read_bytes())


def taken(state: Path, store: CodeStore, root: Path, script: Path | None = None) -> set[str]:
    """Names, relative to the root, of what a snapshot has."""
    digest = store.take_snapshot(str(root), None if script is None else str(script)).digest
    return {os.path.relpath(path, root) for path in read(state, digest).files}


def placed(state: Path, digest: str, job: str = "job-1") -> Path:
    """The job's tree."""
    folder = state / "jobs" / job
    folder.mkdir(exist_ok=True)
    place_code(state, folder, JobSpec(name="job", entry="/t.py", workdir="/", global_batch=1, code=digest))
    return folder / "code"


# ---------------------------------------------------------------- what goes in
@pytest.mark.parametrize("has_git", [False, True])
def test_small_files_go_in_and_what_is_no_code_stays_out(
    state: Path, store: CodeStore, project: Path, has_git: bool
) -> None:
    """An environment, packages, caches and data are no code, also where git does not ignore them."""
    write(project, {"data.bin": LARGE, ".hidden/cache": "", "__pycache__/net.pyc": "", ".env": "A=1"})
    write(project, {f"{env}/{name}": "" for env in (".venv", "env") for name in ("pyvenv.cfg", "lib/x.py")})
    write(project, {"node_modules/a/b.js": "", "cached/CACHEDIR.TAG": "", "cached/x.py": ""})
    write(project, {f"images/{number}.png": "" for number in range(1001)})
    os.mkfifo(project / "pipe")
    if has_git:
        git(project, "init", "-q")
    assert taken(state, store, project) == {"train.py", "net/__init__.py", "net/layers.py"}
    assert store.take_snapshot(str(project), None).left_out == (
        "not in the copy of the code: .venv (a virtual environment), data.bin (2.0 kB), env (a virtual "
        "environment), images (1,001 files), node_modules (packages) and 2 more"
    )


def test_of_a_work_tree_what_git_tracks_goes_in_and_what_it_ignores_stays_out(
    state: Path, store: CodeStore, project: Path
) -> None:
    git(project, "init", "-q")
    write(project, {".gitignore": "out/\n*.log", "kernel.bin": LARGE, "gone.py": ""})
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    (project / "gone.py").unlink()
    write(project, {"out/model.pt": "", "a.log": "", "large.npz": LARGE, "new.py": "", "train.py": "edited"})
    expected = {".gitignore", "train.py", "net/__init__.py", "net/layers.py", "kernel.bin", "new.py"}
    assert taken(state, store, project) == expected
    digest = store.take_snapshot(str(project), str(project / "train.py")).digest
    code = placed(state, digest)
    here = Path(f"{code}{project}")
    assert (here / "train.py").read_text() == "edited"
    assert (here / "out").readlink() == project / "out"
    assert (here / "large.npz").readlink() == project / "large.npz"


def test_a_repository_runs_nothing_and_leads_nowhere_else(
    state: Path, store: CodeStore, project: Path, tmp_path: Path
) -> None:
    """Its configuration names a program, its index a file elsewhere, and a link takes a folder's place."""
    (secret := tmp_path / "secret").write_text("of the owner")
    likewise = f"!{str(secret)[1:]}"
    write(project, {likewise: ""})
    git(project, "init", "-q")
    git(project, "add", ".")
    index = (project / ".git/index").read_bytes()[:-20].replace(likewise.encode(), os.fsencode(secret))
    (project / ".git/index").write_bytes(index + hashlib.sha1(index).digest())  # noqa: S324
    git(project, "config", "core.fsmonitor", f"touch {tmp_path}/ran; false")
    (project / "net").rename(tmp_path / "elsewhere")
    (project / "net").symlink_to(tmp_path / "elsewhere")
    assert taken(state, store, project) == {"train.py", likewise}
    assert not (tmp_path / "ran").exists()
    git(project, "ls-files")
    assert (tmp_path / "ran").exists(), "git alone runs it"


def test_the_script_goes_in_whatever_it_is_and_so_does_its_folder(
    state: Path, store: CodeStore, project: Path, tmp_path: Path
) -> None:
    write(tmp_path / "elsewhere", {"main": LARGE, "helper.py": "", "large": LARGE})
    found = taken(state, store, project / "net", tmp_path / "elsewhere" / "main")
    assert found == {"__init__.py", "layers.py", "../../elsewhere/main", "../../elsewhere/helper.py"}


def test_swellignore_is_written_as_a_gitignore(state: Path, store: CodeStore, project: Path) -> None:
    lines = "# not code\nnet/**\n!net/layers.py\ntrain.py/\nruns/\n*.json\n"
    write(project, {".swellignore": lines, "runs/a/b.py": "", "x.json": ""})
    assert taken(state, store, project) == {".swellignore", "train.py", "net/layers.py"}
    write(project, {".swellignore": "!\n"})
    with pytest.raises(CodeNotFound, match=r"\.swellignore cannot be read .*write it as a \.gitignore"):
        store.take_snapshot(str(project), None)
    for plant in (os.mkfifo, lambda path: path.symlink_to("train.py")):
        (project / ".swellignore").unlink()
        plant(project / ".swellignore")
        with pytest.raises(CodeNotFound, match=r"\.swellignore cannot be read .*regular file"):
            store.take_snapshot(str(project), None)


def test_a_file_that_holds_more_than_its_size_says_passes_no_limit(state: Path) -> None:
    """As one that grows while it is read: those of /proc have size 0."""
    limits = CodeLimits(code_file_mib=100 / 2**20)
    net = os.path.realpath("/proc/self/net")
    files = read(state, CodeStore(state, limits).take_snapshot(net, None).digest).files
    assert 0 < max(file.num_bytes for file in files.values()) <= 100
    with pytest.raises(CodeNotFound, match="would hold more than"):
        CodeStore(state, CodeLimits(code_total_mib=0.001)).take_snapshot(net, None)


def test_the_state_folder_is_no_code(state: Path, store: CodeStore, tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "", "state/daemon.log": "", "state/jobs/a/worker-0.log": ""})
    assert taken(state, store, tmp_path) == {"train.py"}


@pytest.mark.parametrize("way", ["number", "size"])
def test_too_much_is_refused_and_the_largest_are_named(store: CodeStore, project: Path, way: str) -> None:
    if way == "number":
        write(project, {f"images/{number}": "x" for number in range(21)})
        named = [f"most are in {project}/images ("]
    else:
        git(project, "init", "-q")
        write(project, {"weights.bin": bytes(2**21)})
        git(project, "add", ".")
        named = [f"{project}/weights.bin (2.0 MiB)", "more than 20 files or 1 MiB"]
    with pytest.raises(CodeNotFound) as error:
        store.take_snapshot(str(project), None)
    for text in (*named, ".swellignore", "code: live", "code_total_mib"):
        assert text in str(error.value)


def test_data_that_is_no_code_does_not_hold_a_submission_up(
    store: CodeStore, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large files are not copied, however many there are; but to look at all of them may take very long."""
    for number in range(300):
        write(project, {f"data/{number}": ""})
        os.truncate(project / "data" / str(number), 2**21)
    store.take_snapshot(str(project), None)
    monkeypatch.setattr("swell.store.code_snapshot.LOOK_S", 0.0)
    with pytest.raises(
        CodeNotFound, match=f"takes longer than 0 s: 256 files .* last one in {project}/data"
    ) as error:
        store.take_snapshot(str(project), None)
    assert ".swellignore" in str(error.value) and "--code live" in str(error.value)


# ---------------------------------------------------------------- what comes out
@settings(max_examples=fewer_if_quick(30))
@given(
    contents=st.dictionaries(
        st.from_regex(r"([a-c]/){0,2}[d-f]\.py", fullmatch=True), st.binary(max_size=64), max_size=8
    )
)
def test_a_placed_tree_is_what_was_there(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("law")
    (root / "state" / "jobs").mkdir(parents=True)
    (root / "work").mkdir()
    write(root / "work", contents)  # type: ignore[arg-type]
    digest = CodeStore(root / "state").take_snapshot(str(root / "work"), None).digest
    write(root / "work", dict.fromkeys(contents, b"edited"))
    code = Path(f"{placed(root / 'state', digest)}{root / 'work'}")
    assert {name: (code / name).read_bytes() for name in contents} == contents


def test_links_lead_where_they_led(state: Path, store: CodeStore, project: Path, tmp_path: Path) -> None:
    write(tmp_path, {"outside.txt": "outside"})
    (project / "alias.py").symlink_to("net/layers.py")
    (project / "package").symlink_to(project / "net")
    (project / "out.txt").symlink_to(tmp_path / "outside.txt")
    code = Path(f"{placed(state, store.take_snapshot(str(project), None).digest)}{project}")
    (project / "net" / "layers.py").write_text("edited")
    assert (code / "alias.py").read_text() == (code / "package" / "layers.py").read_text() == "WIDTH = 8"
    assert (code / "out.txt").read_text() == "outside"
    assert (code.parent / "outside.txt").read_text() == "outside", "above the code are links"


def test_what_a_job_writes_is_its_own(state: Path, store: CodeStore, project: Path) -> None:
    digest = store.take_snapshot(str(project), None).digest
    code = [placed(state, digest, job) for job in ("a", "b", "c")]
    here = [Path(f"{each}{project}") for each in code]
    (here[0] / "train.py").write_text("spoiled")
    (here[1] / "out").mkdir()
    assert (here[2] / "train.py").read_text() == "import net"
    assert (project / "train.py").read_text() == "import net" and not (project / "out").exists()


def test_code_that_lies_there_before_the_job_is_not_run(state: Path, store: CodeStore, project: Path) -> None:
    (state / "jobs" / "job-1").mkdir()
    (state / "jobs" / "job-1" / "code").symlink_to(project)
    with pytest.raises(ValueError, match="code is no folder that Swell has made; remove it"):
        placed(state, store.take_snapshot(str(project), None).digest)


def test_a_damaged_content_is_not_run(state: Path, store: CodeStore, project: Path) -> None:
    digest = store.take_snapshot(str(project), None).digest
    kept = object_path(state, read(state, digest).files[str(project / "train.py")].digest)
    kept.chmod(0o600)
    kept.write_text("import nut")
    with pytest.raises(ValueError, match="damaged; submit it again"):
        placed(state, digest)


# ---------------------------------------------------------------- what comes through the door
def test_a_content_is_kept_under_no_digest_but_its_own(state: Path, store: CodeStore, project: Path) -> None:
    """Neither another content, nor one that is longer or shorter than announced; a door can be emptied."""
    content = b"import net"
    file = CodeFile(hashlib.sha256(content).hexdigest(), len(content))
    tree = CodeTree(roots=("/a",), files={"/a/train.py": file, "/a/b": file}, links={"/a/c": "."})
    door = store.intake()
    assert door.lacking(tree) == [file]
    for chunks in ([b"import nut"], [content, b"more"], [content[:4]], []):
        with pytest.raises(CodeNotFound, match="not what was announced"):
            door.store_file(file, chunks)
    with pytest.raises(CodeNotFound, match="has not come"):
        door.finish(tree, None)
    assert not [path for path in (state / "code").rglob("*") if path.is_file()]
    door.store_file(file, [content[:4], content[4:]])
    with pytest.raises(CodeNotFound, match="has not come"):
        door.finish(tree, "/a/other.py")
    lying = msgspec.structs.replace(tree, sources_digest="of another user's code")
    found = read(state, door.finish(lying, "/a/train.py"))
    assert found.sources_digest == tree.known_by("/a/train.py").sources_digest
    door.discard()
    assert not [path for path in (state / "code").rglob("*") if path.is_file()]
    door.store_file(file, [content])
    other = store.intake()
    assert other.lacking(tree) == []
    door.discard()
    digest = other.finish(tree, None)
    assert (placed(state, digest) / "a" / "c" / "b").read_bytes() == content


@pytest.mark.parametrize(
    ("files", "links"),
    [
        (["/a/../../etc/x"], {}),
        (["a/x"], {}),
        (["/b/x"], {}),
        (["/a/x\0"], {}),
        (["/a"], {}),
        (["/a/x", "/a/x/y"], {}),
        (["/a/x/y"], {"/a/x": "z"}),
        ([], {"/a/x": "/etc"}),
        ([], {"/a/x": "../../../../etc"}),
        ([], {"/a/x": "../b"}),
        ([f"/a/{number}" for number in range(22)], {}),
        ([], {f"/a/{number}": "." for number in range(22)}),
    ],
)
def test_a_tree_that_leads_elsewhere_or_is_too_large_is_refused(
    store: CodeStore, files: list[str], links: dict[str, str]
) -> None:
    empty = CodeFile(hashlib.sha256().hexdigest(), 0)
    with pytest.raises(CodeNotFound):
        store.intake().lacking(CodeTree(roots=("/a",), files=dict.fromkeys(files, empty), links=links))
    with pytest.raises(CodeNotFound, match="1 MiB"):
        store.intake().lacking(CodeTree(roots=("/a",), files={"/a/x": CodeFile("0" * 64, 2**21)}, links={}))


# ---------------------------------------------------------------- what is kept
def test_equal_code_is_kept_once_and_known_by_its_content(
    state: Path, store: CodeStore, project: Path, tmp_path: Path
) -> None:
    first = store.take_snapshot(str(project), str(project / "train.py")).digest
    assert store.take_snapshot(str(project), str(project / "train.py")).digest == first
    num = len(list((state / "code" / "objects").glob("*/*")))
    write(tmp_path / "copy", {"train.py": "import net", "net/__init__.py": "", "net/layers.py": "WIDTH = 8"})
    write(tmp_path / "copy", {"metrics.json": "{}"})
    second = store.take_snapshot(str(tmp_path / "copy"), str(tmp_path / "copy" / "train.py")).digest
    assert len(list((state / "code" / "objects").glob("*/*"))) == num + 1
    assert read(state, second).sources_digest == read(state, first).sources_digest
    (project / "net" / "layers.py").write_text("WIDTH = 9")
    third = store.take_snapshot(str(project), str(project / "train.py")).digest
    assert read(state, third).sources_digest != read(state, first).sources_digest


def test_what_no_job_has_is_removed_after_a_while(state: Path, store: CodeStore, project: Path) -> None:
    used = store.take_snapshot(str(project), None).digest
    store.bind("job-1", used)
    (project / "train.py").write_text("import not_net")
    unused = store.take_snapshot(str(project), None).digest
    store.collect(time.time())
    assert tree_path(state, unused).exists(), "its job may be about to begin"
    later_s = time.time() + GRACE_S + 1
    store.collect(later_s)
    assert not tree_path(state, unused).exists()
    placed(state, used)
    store.bind("job-1", used)  # again changes nothing
    (state / "jobs" / "job-1" / "code.json").unlink()
    store.collect(later_s)
    assert not list((state / "code").glob("*/*.json")) and not list((state / "code" / "objects").glob("*/*"))
    assert decode_tree(tree_path(state, store.take_snapshot(str(project), None).digest).read_bytes()).files
