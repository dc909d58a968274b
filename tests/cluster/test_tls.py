"""TLS and API keys, from Temporal's own variables and profiles, against a real server."""

import asyncio
import json
import os
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster.certificates import SERVER_NAME, Authority, Pair
from tests.cluster.conftest import Server
from tests.cluster.lab import COMMAND, Lab
from tests.cluster.relay import Relay, mutual_tls

from pipeline.cluster.server import Address, LoopThread, ServerUnreachable, connect
from pipeline.engine.state import RunStatus

TLS = "TEMPORAL_TLS"
WORKFLOW = """workflow "Secure" {
version 2
start "build"
stage "build" kind="tool" command="echo built"
stage "ok" kind="human" prompt="Good?" {
  option "yes" label="Yes" to="end" approves=true; option "no" label="No" to="build"; }
stage "end" kind="exit"
transition from="build" to="ok"
}
"""


@dataclass(frozen=True)
class Certificates:
    """The certificates of all tests."""

    ours: Authority
    server: Pair
    client: Pair
    stranger: Pair  # somebody else's
    elsewhere: Path  # the authority that signed it

    @property
    def variables(self) -> dict[str, str]:
        """The variables that name them."""
        return {
            TLS: "true",
            f"{TLS}_CLIENT_CERT_PATH": str(self.client.certificate),
            f"{TLS}_CLIENT_KEY_PATH": str(self.client.key),
            f"{TLS}_SERVER_CA_CERT_PATH": str(self.ours.own.certificate),
            f"{TLS}_SERVER_NAME": SERVER_NAME,
        }


@pytest.fixture(scope="module")
def certs(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("certs")
    ours, other = Authority(folder / "ours"), Authority(folder / "other")
    return Certificates(ours, ours.server(), ours.client(), other.client(), other.own.certificate)


@pytest.fixture(scope="module")
def relay(server: Server, loop: LoopThread, certs: Certificates) -> Iterator[Relay]:
    """The server behind TLS that requires client certificates."""
    with Relay(loop, server.port, mutual_tls(certs.server, certs.ours.own.certificate)) as made:
        yield made


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """An environment without Temporal's variables."""
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}


@pytest.fixture
def secure(
    server: Server, relay: Relay, loop: LoopThread, certs: Certificates, bare: dict[str, str], tmp_path: Path
) -> Iterator[Lab]:
    """A cluster that can be reached with TLS only."""
    made = Lab(server, loop, tmp_path, {**bare, **certs.variables})
    made.url = relay.url
    made.connect()
    yield made
    made.close()


def awf(lab: Lab, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *words, *lab.options],
        cwd=lab.folder,
        env=lab.environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_run_uses_tls_throughout(secure: Lab, relay: Relay) -> None:
    """The worker and all commands present the client certificate."""
    (secure.folder / "w.awf.kdl").write_text(WORKFLOW)
    before = len(relay.callers)
    with secure.worker_process("one"):
        started = awf(secure, "run", "w.awf.kdl", "--run-id", secure.id("r"))
        assert (started.returncode, "waiting" in started.stdout + started.stderr) == (3, True), started.stderr
        assert json.loads(awf(secure, "status", secure.id("r"), "--json").stdout)["status"] == "waiting"
        assert awf(secure, "answer", secure.id("r"), "yes").returncode == 0
        assert secure.ended("r").status is RunStatus.SUCCESS
    assert {*relay.callers} == {"client"}
    assert len(relay.callers) >= before + 4  # the worker and three commands


def test_certs_may_be_in_the_variables_themselves(
    relay: Relay, loop: LoopThread, certs: Certificates, bare: Mapping[str, str]
) -> None:
    """Instead of paths, as in a container without files."""
    given = {
        key.replace("_PATH", "_DATA"): Path(value).read_text() for key, value in certs.variables.items() if "/" in value
    }
    loop.call(connect(Address.read(relay.url), {**bare, **given, f"{TLS}_SERVER_NAME": SERVER_NAME}))


def test_a_profile_replaces_the_variables(
    relay: Relay, loop: LoopThread, certs: Certificates, bare: Mapping[str, str]
) -> None:
    """Except for the address and the namespace, which are those of `--on`."""
    file = Path(bare["HOME"], "temporal.toml")
    file.write_text(
        f"""[profile.team]
address = "nowhere.invalid:1"
namespace = "another"
[profile.team.tls]
server_name = "{SERVER_NAME}"
server_ca_cert_path = "{certs.ours.own.certificate}"
client_cert_path = "{certs.client.certificate}"
client_key_path = "{certs.client.key}"
"""
    )
    named = {"TEMPORAL_CONFIG_FILE": str(file), "TEMPORAL_PROFILE": "team"}
    client = loop.call(connect(Address.read(relay.url), {**bare, **named}))
    assert client.namespace == "default"


def without(*names: str) -> dict[str, str | None]:
    return dict.fromkeys((TLS + name for name in names), None)


NOTHING = without("", "_CLIENT_CERT_PATH", "_CLIENT_KEY_PATH", "_SERVER_CA_CERT_PATH", "_SERVER_NAME")


@pytest.mark.parametrize(
    ("change", "code", "variable"),
    [
        (without("_CLIENT_CERT_PATH", "_CLIENT_KEY_PATH"), 1, f"{TLS}_CLIENT_CERT_PATH"),
        ({f"{TLS}_CLIENT_CERT_PATH": "STRANGER", f"{TLS}_CLIENT_KEY_PATH": "KEY"}, 1, f"{TLS}_CLIENT_CERT_PATH"),
        (NOTHING, 1, f"{TLS}=true"),
        ({f"{TLS}_SERVER_CA_CERT_PATH": "ELSEWHERE"}, 1, f"{TLS}_SERVER_CA_CERT_PATH"),
        (without("_SERVER_CA_CERT_PATH"), 1, f"{TLS}_SERVER_CA_CERT_PATH"),
        (without("_SERVER_NAME"), 1, f"{TLS}_SERVER_NAME"),
        ({f"{TLS}_CLIENT_KEY_PATH": "KEY"}, 1, f"{TLS}_CLIENT_KEY_PATH"),
        ({**NOTHING, "TEMPORAL_API_KEY": "k"}, 1, f"{TLS}_SERVER_CA_CERT_PATH"),
        (without("_CLIENT_KEY_PATH"), 2, f"{TLS}_..."),
        ({f"{TLS}_CLIENT_CERT_PATH": "/nowhere.pem"}, 2, f"{TLS}_..."),
        ({"TEMPORAL_PROFILE": "nobody"}, 2, "TEMPORAL_PROFILE"),
    ],
    ids=[
        "no certificate",
        "a stranger's certificate",
        "no TLS",
        "another authority",
        "no authority",
        "no name",
        "another key",
        "only a key, which wants TLS",
        "no key",
        "no file",
        "no profile",
    ],
)
def test_an_error_names_the_variable_to_check(
    relay: Relay,
    certs: Certificates,
    bare: dict[str, str],
    change: dict[str, str | None],
    code: int,
    variable: str,
) -> None:
    """In its help; the exit code tells a wrong configuration from a server that rejects us."""
    files = {
        "STRANGER": certs.stranger.certificate,
        "KEY": certs.stranger.key,
        "ELSEWHERE": certs.elsewhere,
    }
    changed = {key: None if value is None else str(files.get(value, value)) for key, value in change.items()}
    environ = {key: value for key, value in (bare | certs.variables | changed).items() if value is not None}
    done = refused(relay.url, environ)
    assert done.returncode == code, done.stderr
    assert variable in done.stderr.partition("help:")[2]
    assert "Traceback" not in done.stderr


def test_a_server_without_tls_is_an_error(server: Server, certs: Certificates, bare: dict[str, str]) -> None:
    """TLS that was asked for is never silently left out."""
    done = refused(server.url, bare | certs.variables)
    assert (done.returncode, "TEMPORAL_TLS" in done.stderr.partition("help:")[2]) == (1, True)


def refused(url: str, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    place = ("--on", url, "--artifacts", environ["HOME"])
    return subprocess.run(
        [COMMAND, "runs", *place], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def one_sided(certs: Certificates) -> ssl.SSLContext:
    """TLS without client certificates, as with API keys."""
    context = mutual_tls(certs.server, certs.ours.own.certificate)
    context.verify_mode = ssl.CERT_NONE
    return context


def test_an_api_key_is_sent_with_every_call(certs: Certificates, bare: dict[str, str]) -> None:
    """In the metadata, over TLS."""
    pytest.importorskip("h2", reason="make test-cluster installs it")
    from tests.cluster.frontend import Frontend  # noqa: PLC0415 - it needs what may be missing

    frontend = Frontend()
    said = {key: certs.variables[key] for key in (f"{TLS}_SERVER_CA_CERT_PATH", f"{TLS}_SERVER_NAME")}

    async def call() -> None:
        async with frontend.listening(one_sided(certs)) as address:
            await connect(address, {**bare, **said, "TEMPORAL_API_KEY": "sesame"})

    asyncio.run(call())
    assert {*frontend.heard} == {"GetSystemInfo", "DescribeNamespace"}
    for metadata in frontend.heard.values():
        assert (metadata[":scheme"], metadata["authorization"]) == ("https", "Bearer sesame")
    assert frontend.heard["DescribeNamespace"]["temporal-namespace"] == "team"


def test_a_rejected_api_key_is_an_error(certs: Certificates, bare: dict[str, str]) -> None:
    """It names the variable, and not the key."""
    pytest.importorskip("h2", reason="make test-cluster installs it")
    from tests.cluster.frontend import Frontend  # noqa: PLC0415 - it needs what may be missing

    async def call() -> None:
        async with Frontend(status=16).listening(one_sided(certs)) as address:
            await connect(address, {**bare, **certs.variables, "TEMPORAL_API_KEY": "sesame"})

    with pytest.raises(ServerUnreachable) as raised:
        asyncio.run(call())
    assert "TEMPORAL_API_KEY" in (raised.value.help or "")
    assert "sesame" not in raised.value.message
