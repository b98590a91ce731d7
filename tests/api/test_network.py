"""A platform that is used from another machine: who is let in, code that is uploaded, lines that break."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec
import pytest
from tests.api.cutting_proxy import cutting
from tests.api.stage import Stage, on_stage

import swell
from swell.api.client import Client
from swell.api.code_sender import CodeSender
from swell.api.connections import MAX_CONNECTIONS
from swell.api.errors import AccessRefused, ApiError, NoPlatform
from swell.api.login import Login, login_file, login_of, parse_url, read_login, write_login
from swell.api.remote import open_remote, seen_fingerprint
from swell.api.role import Role
from swell.api.submission import Submission
from swell.api.user_list import UserList
from swell.api.verbs import UploadedCode
from swell.live.user_rates import RateLimitExceeded, RateLimits, UserRates
from swell.model.code import CodeFile, CodeTree
from swell.model.errors import InvalidJob, InvalidOption
from swell.store.errors import StateError

MIB = 1 << 20
SCRIPT = "from swell import train\n"


@dataclass
class Site:
    """A platform, and a user on another machine."""

    stage: Stage
    laptop: Path  #: a folder with code, which is no longer there when the platform looks
    token: str
    other_token: str

    @property
    def url(self) -> str:
        return self.stage.client.endpoint.network_url

    @property
    def port(self) -> int:
        return urlsplit(self.url).port or 0

    @property
    def fingerprint(self) -> str:
        return self.stage.client.endpoint.fingerprint

    def connect(self, url: str = "", token: str = "") -> Client:
        return swell.connect(url or self.url, token or self.token, fingerprint=self.fingerprint)

    def http(self, token: str = "", host: str = "") -> httpx.Client:
        headers = {"Authorization": f"Bearer {token or self.token}", **({"Host": host} if host else {})}
        return httpx.Client(base_url=self.url, headers=headers, verify=False, trust_env=False)  # noqa: S501

    def submit(self, client: Client, **more: Any) -> str:
        fields: dict[str, Any] = {
            "script": self.laptop / "train.py",
            "workdir": self.laptop,
            "global_batch": 8,
            "steps": 9,
        }
        return str(client.submit(**(fields | more)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("network")
    laptop = root / "laptop"
    laptop.mkdir()
    (laptop / "train.py").write_text(SCRIPT)
    with on_stage(root / "state", reads_files=True) as stage:
        users = UserList(stage.folder.path)
        tokens = [users.add(name, Role.SUBMIT, name) for name in ("ana", "ben")]
        yield Site(stage, laptop, *tokens)


@pytest.fixture(autouse=True)
def no_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("SWELL_STATE", "SWELL_TOKEN"):
        monkeypatch.delenv(name, raising=False)


# ---------------------------------------------------------------- who is let in
def test_a_user_of_another_machine_has_the_usual_commands(site: Site) -> None:
    with site.connect() as client:
        assert client.cluster().num_devices == 2
        job_id = site.submit(client, name="plain")
        assert client.job(job_id).user == "ana"
        assert client.logs(job_id) == [] and client.stories(job_id)
        client.cancel(job_id)
    with pytest.raises(InvalidOption, match="is on another machine: it has no folder"):
        _ = client.folder


def test_the_owners_token_counts_on_its_machine_only(site: Site) -> None:
    with pytest.raises(AccessRefused, match="counts on the platform's machine only; `swell admin users add"):
        site.connect(token=site.stage.folder.read_token())
    with pytest.raises(AccessRefused, match="wrong or missing token"):
        site.connect(token="x" * 40)


@pytest.mark.parametrize("token", ["", "two words", "caf\u00e9", "swu_a\n"])
def test_what_can_be_no_token_is_told(token: str) -> None:
    with pytest.raises(AccessRefused, match="the token of a user has"):
        open_remote(Login(url="https://127.0.0.1:1", fingerprint="0" * 64, token=token))


def test_nothing_is_sent_to_another_certificate(site: Site) -> None:
    assert seen_fingerprint(site.url) == site.fingerprint
    with pytest.raises(AccessRefused, match="another machine may answer in its place, and nothing was sent"):
        swell.connect(site.url, site.token, fingerprint="0" * 64)
    with pytest.raises(AccessRefused, match="is not known here"):
        swell.connect(site.url, site.token)


def test_only_tls_1_3_is_spoken(site: Site) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(httpx.ConnectError):
        httpx.get(site.url, verify=old, trust_env=False)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(site.url.replace("https", "http"), trust_env=False)


@pytest.mark.parametrize(("host", "status"), [("", 200), ("served.example", 200), ("evil.example", 403)])
def test_only_names_that_are_served_are_answered(site: Site, host: str, status: int) -> None:
    with site.http(host=host) as client:
        assert client.get("/v1/health").status_code == status


def test_the_page_opens_once_and_its_cookie_stays_on_tls(site: Site) -> None:
    with site.connect() as client, site.http(token="none") as browser:
        url = client.page().url
        assert url.startswith(f"{site.url}/enter?code=")
        del browser.headers["Authorization"]
        opened = browser.get(url)
        assert opened.status_code == 303 and "Secure; " in f"{opened.headers['set-cookie']}; "
        assert browser.get("/").status_code == 200
        assert browser.get(url).status_code == 401
        foreign = browser.get("/", headers={"Origin": site.url.replace("https", "http")})
        assert foreign.status_code == 403


def test_silent_strangers_of_the_network_leave_room_for_others(site: Site) -> None:
    held = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(2 * MAX_CONNECTIONS["https"])]
    try:
        with site.connect() as client:
            assert client.cluster().num_devices == 2
        assert site.stage.client.cluster().num_devices == 2
    finally:
        for one in held:
            one.close()


# ---------------------------------------------------------------- code
def code_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_code_is_uploaded_by_content_and_only_what_is_lacking(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(1)
    (site.laptop / "data.bin").write_bytes(rng.randbytes(MIB))
    (site.laptop / "empty.py").write_bytes(b"")
    sent = list[int]()
    with site.connect() as client:
        send = client._upload_contents

        def counted(body: bytes) -> int:
            sent.append(len(body))
            return send(body)

        monkeypatch.setattr(client, "_upload_contents", counted)
        first = site.submit(client, name="first")
        assert MIB < sum(sent) < 1.01 * MIB
        sent.clear()
        again = site.submit(client, name="again")
        assert not sent
        (site.laptop / "empty.py").write_text("x = 1\n")
        site.submit(client, name="changed")
        assert 0 < sum(sent) < 200
    views = [site.stage.platform.job(job_id) for job_id in (first, again)]
    assert views[0].code == views[1].code
    manifest = msgspec.json.decode(
        (site.stage.folder.code / "trees" / f"{views[0].code}.json").read_bytes(), type=CodeTree
    )
    assert manifest.uploaded_by == "ana" and manifest.roots == (str(site.laptop),)


def test_what_one_user_has_uploaded_is_no_others(site: Site) -> None:
    with site.connect() as ana, site.connect(token=site.other_token) as ben:
        code = ana.job(site.submit(ana, name="mine")).code
        given = {"script": str(site.laptop / "train.py"), "workdir": str(site.laptop)}
        with pytest.raises(InvalidJob, match="uploaded: there is no such code any more"):
            ben._submit(msgspec.convert({**given, "uploaded": code, "global_batch": 8}, type=Submission))


@pytest.mark.parametrize(
    ("path", "why"), [("/w/../../etc/x", "no path from the root"), ("/elsewhere/x", "is not below /w")]
)
def test_a_tree_that_leads_elsewhere_is_refused(site: Site, path: str, why: str) -> None:
    file = CodeFile(hashlib.sha256(b"").hexdigest(), 0)
    with site.connect() as client, pytest.raises(InvalidJob, match=why):
        client._upload_code(UploadedCode(tree=CodeTree(roots=("/w",), files={path: file}, links={})))


def test_a_content_that_is_another_one_is_not_kept(site: Site) -> None:
    file, tree = CodeFile(hashlib.sha256(b"right").hexdigest(), 5), CodeTree
    with site.connect() as client:
        with pytest.raises(InvalidJob, match="is not what was announced"):
            client._upload_contents(msgspec.msgpack.encode([(file, 0, b"wrong")]))
        for start, part in ((0, b"ri"), (2, b"gh"), (2, b"gh"), (0, b"rig")):  # sent again
            client._upload_contents(msgspec.msgpack.encode([(file, start, part)]))
        code = UploadedCode(tree=tree(roots=("/w",), files={"/w/a": file}, links={}))
        assert client._upload_code(code).lacking == {file.digest: 3}
        with pytest.raises(InvalidJob, match="before the one before it"):
            client._upload_contents(msgspec.msgpack.encode([(file, 4, b"t")]))
        client._upload_contents(msgspec.msgpack.encode([(file, 3, b"ht")]))
        assert client._upload_code(code).digest


def test_code_beyond_the_limits_is_refused_before_it_is_sent(site: Site) -> None:
    files = {f"/w/{number}": CodeFile(f"{number:064x}", 60 * MIB) for number in range(2)}
    with site.http() as client:
        tree = msgspec.to_builtins(CodeTree(roots=("/w",), files=files, links={}))
        assert client.post("/v1/code", json={"tree": tree}).status_code == 413
    with site.connect() as client:
        huge = [(CodeFile("0" * 64, 1 << 40), 0, b"x")]
        with pytest.raises(InvalidJob, match="leave it out"):
            client._upload_contents(msgspec.msgpack.encode(huge))


def test_a_folder_that_only_the_platform_has_is_the_platforms(site: Site, tmp_path: Path) -> None:
    """Live code, and a workdir that is not on this machine, are paths of the platform's machine."""
    with site.connect() as client:
        job_id = site.submit(client, code="live", name="live")
        assert not client.job(job_id).code
        with pytest.raises(InvalidJob, match="nowhere"):
            site.submit(client, workdir="/nowhere/at/all")


# ---------------------------------------------------------------- lines that break
@pytest.mark.parametrize("seed", range(6))
def test_a_job_is_submitted_once_whichever_bytes_the_line_breaks_at(site: Site, seed: int) -> None:
    rng = random.Random(seed)
    (site.laptop / "data.bin").write_bytes(rng.randbytes(MIB))
    before = {view.id for view in site.stage.client.jobs()}
    cuts = [rng.choice([rng.randrange(1, 6000), rng.randrange(1, 2 * MIB)]) for _ in range(8)]
    with cutting(site.port, [1 << 40, *cuts]) as proxy, site.connect(proxy.url) as client:
        job_id = site.submit(client, name=f"cut-{seed}")
        assert client.job(job_id).name == f"cut-{seed}"
        assert proxy.num_cut >= 1 or not any(cut < 6000 for cut in cuts)
    new = [view.id for view in site.stage.client.jobs() if view.id not in before]
    assert new == [job_id]


def test_an_upload_goes_on_where_its_line_broke(site: Site) -> None:
    """Pieces that have come are not sent again, so that no line is too bad for a large file."""
    size = 4 * MIB
    content = random.Random(9).randbytes(size)
    tree = CodeTree(
        roots=("/w",), files={"/w/big": CodeFile(hashlib.sha256(content).hexdigest(), size)}, links={}
    )
    with cutting(site.port, [1 << 40] + [3 * MIB // 2] * 4) as proxy, site.connect(proxy.url) as client:
        digest = CodeSender(client)._send(
            UploadedCode(tree=tree), {hashlib.sha256(content).hexdigest(): content}
        )
        assert digest and proxy.num_cut <= 3


def test_code_arrives_on_a_line_that_never_lasts_for_a_first_request(site: Site) -> None:
    content = random.Random(11).randbytes(MIB // 2)
    digest = hashlib.sha256(content).hexdigest()
    tree = CodeTree(roots=("/w",), files={"/w/data": CodeFile(digest, len(content))}, links={})
    with cutting(site.port, [1 << 40] + [MIB // 8] * 200) as proxy, site.connect(proxy.url) as client:
        assert CodeSender(client)._send(UploadedCode(tree=tree), {digest: content}) and proxy.num_cut > 1


# ---------------------------------------------------------------- files of jobs
def test_files_are_downloaded_and_go_on_where_they_were(site: Site, tmp_path: Path) -> None:
    with site.connect() as client:
        job_id = site.submit(client, name="left")
        output = site.stage.platform.log_dir(job_id) / "output"
        output.mkdir(parents=True)
        content = random.Random(3).randbytes(5 * MIB)
        (output / "model.bin").write_bytes(content)
        (output / "secret").symlink_to("/etc/passwd")
        os.mkfifo(output / "pipe")
        assert [(one.name, one.num_bytes) for one in client.job_files(job_id)] == [
            ("output/model.bin", 5 * MIB)
        ]
        changed_ns = client.job_files(job_id)[0].changed_ns
        (tmp_path / "output").mkdir()
        part = tmp_path / "output" / f".model.bin.{changed_ns}.part"
        part.write_bytes(b"\0" * (4 * MIB))  # what is there is not fetched again
        (path,) = client.download(job_id, tmp_path)
        assert path.read_bytes() == b"\0" * (4 * MIB) + content[4 * MIB :] and not part.exists()
        for name in ("output/secret", "output/../journal.db", "code.json", "/etc/passwd", "output/pipe"):
            with pytest.raises(swell.UnknownJob):
                client._job_file(job_id, name)
    with site.connect(token=site.other_token) as other, pytest.raises(AccessRefused, match="tenant 'ana'"):
        other.job_files(job_id)


# ---------------------------------------------------------------- rates
def test_a_user_waits_who_asks_too_much_and_others_do_not() -> None:
    now_s = [0.0]
    rates = UserRates(RateLimits(user_requests_per_min=60, user_transfer_mib_per_h=3600), lambda: now_s[0])
    for _ in range(60):
        rates.ask("ana")
    with pytest.raises(RateLimitExceeded, match="60 requests a minute") as refused:
        rates.ask("ana")
    assert refused.value.retry_s == 1
    rates.ask("ben")
    now_s[0] += refused.value.retry_s
    rates.ask("ana")
    rates.transfer("ana", 5000 * MIB)  # a content may be larger than all that a user may have
    with pytest.raises(RateLimitExceeded, match="MiB of code and files an hour"):
        rates.transfer("ana", 1)
    for _ in range(100_000):
        rates.ask("")  # the owner


def test_a_client_waits_as_long_as_it_is_told_and_then_goes_on(tmp_path: Path) -> None:
    limits = RateLimits(user_requests_per_min=60)
    with on_stage(tmp_path / "state", reads_files=True, limits=limits) as stage:
        token = UserList(stage.folder.path).add("ana", Role.VIEW)
        endpoint = stage.client.endpoint
        headers, refused = {"Authorization": f"Bearer {token}"}, list[httpx.Response]()
        with httpx.Client(base_url=endpoint.network_url, verify=False, trust_env=False) as plain:  # noqa: S501
            while not refused:
                answer = plain.get("/v1/health", headers=headers)
                refused += [answer] if answer.status_code == 429 else []
        assert int(refused[0].headers["Retry-After"]) >= 1
        assert "may have; go on after" in refused[0].json()["error"]
        with swell.connect(endpoint.network_url, token, fingerprint=endpoint.fingerprint) as client:
            assert client.cluster().num_devices == 2  # once it may


def test_a_wait_that_is_longer_is_told(tmp_path: Path) -> None:
    limits = RateLimits(user_transfer_mib_per_h=1)
    with on_stage(tmp_path / "state", reads_files=True, limits=limits) as stage:
        token, endpoint = UserList(stage.folder.path).add("ana", Role.SUBMIT, "ana"), stage.client.endpoint
        with swell.connect(endpoint.network_url, token, fingerprint=endpoint.fingerprint) as client:
            for _ in range(2):
                with pytest.raises(ApiError) as refused:
                    client._upload_contents(bytes(MIB))
        assert "may have; go on after 1 h" in str(refused.value)


# ---------------------------------------------------------------- the login of a user
def test_a_login_is_of_its_user_and_gives_way_to_a_state_folder(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read_login() is None and login_of(None) is None
    login = Login(url=site.url, fingerprint=site.fingerprint, token=site.token)
    write_login(login)
    assert login_file().stat().st_mode & 0o777 == 0o600
    with swell.connect() as client:
        assert client.cluster().num_devices == 2
    with swell.connect(site.url) as client:  # its token and fingerprint are known
        assert client.jobs() is not None
    assert login_of("/some/folder") is None
    monkeypatch.setenv("SWELL_STATE", str(site.stage.folder.path))
    with swell.connect() as client:
        assert client.endpoint.network_url == site.url
    monkeypatch.delenv("SWELL_STATE")
    login_file().chmod(0o644)
    with pytest.raises(StateError, match="others can read"):
        swell.connect()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://gpu.lab", "https://gpu.lab:8443"),
        ("gpu.lab:9000", "https://gpu.lab:9000"),
        ("https://[fd00::1]:8443/", "https://[fd00::1]:8443"),
    ],
)
def test_an_address_is_read(text: str, url: str) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text", ["http://gpu.lab", "https://", "https://a/b", "https://u:p@a", "https://a:b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidOption, match="write https://HOST:8443"):
        parse_url(text)


def test_who_answers_nothing_is_told() -> None:
    with pytest.raises(NoPlatform, match="no platform answers at https://127"):
        swell.connect("https://127.0.0.1:1", "t", fingerprint="0" * 64)
