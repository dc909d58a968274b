"""The cluster page: its Compose file is complete, and the variables it names are those that are read."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from temporalio.envconfig import ClientConfig
from tests.cluster.conftest import Server, temporal_program
from tests.integration.pages import DOCS, blocks

PAGE = (DOCS / "cluster.md").read_text()
TLS = PAGE[PAGE.index("## TLS and keys") : PAGE.index("## Sizing")]
VARIABLES = sorted(set(re.findall(r"TEMPORAL_[A-Z_]*[A-Z]", TLS)))
SERVICES = {"postgres", "schema", "temporal", "namespace"}
# What the server's image makes of its environment: common/config/config_template_embedded.yaml of its version.
READ_BY_THE_SERVER = {
    "BIND_ON_IP",
    "DB",
    "DB_PORT",
    "DYNAMIC_CONFIG_FILE_PATH",
    "NUM_HISTORY_SHARDS",
    "POSTGRES_PWD",
    "POSTGRES_SEEDS",
    "POSTGRES_USER",
}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The file for a server with Postgres."""
    (found,) = (block for block in blocks(PAGE) if block.language == "yaml")
    read: dict[str, Any] = yaml.safe_load(found.text)
    return read


def test_the_parts_of_the_server_fit_together(compose: dict[str, Any]) -> None:
    """Each service waits for an existing one; what is mounted is declared."""
    services = compose["services"]
    assert {*services} == SERVICES
    for name, service in services.items():
        assert re.fullmatch(r"[a-z/-]+:\d[\d.]*", service["image"]), name
        for before, how in service.get("depends_on", {}).items():
            assert how["condition"] in ("service_healthy", "service_completed_successfully")
            assert ("healthcheck" in services[before]) == (how["condition"] == "service_healthy")
    assert services["postgres"]["volumes"] == ["postgres:/var/lib/postgresql/data"]
    assert {*compose["volumes"]} == {"postgres"}
    (mounted,) = services["temporal"]["configs"]
    assert yaml.safe_load(compose["configs"][mounted["source"]]["content"]) == {}
    assert mounted["target"] == services["temporal"]["environment"]["DYNAMIC_CONFIG_FILE_PATH"]


def test_the_server_is_told_where_its_database_is(compose: dict[str, Any]) -> None:
    """User, password and host are those of its Postgres, and it reads every variable that is set."""
    services = compose["services"]
    said, database = services["temporal"]["environment"], services["postgres"]["environment"]
    assert {*said} == READ_BY_THE_SERVER
    assert (said["DB"], said["POSTGRES_SEEDS"]) == ("postgres12", "postgres")
    assert said["POSTGRES_USER"] == database["POSTGRES_USER"]
    passwords = {said["POSTGRES_PWD"], database["POSTGRES_PASSWORD"], services["schema"]["environment"]["SQL_PASSWORD"]}
    assert passwords == {"${POSTGRES_PASSWORD:?}"}


def test_the_server_is_of_the_version_that_is_tested(compose: dict[str, Any]) -> None:
    """The images have the version of the development server that these tests use."""
    told = subprocess.run([temporal_program(), "--version"], capture_output=True, text=True, check=True).stdout
    (version,) = re.findall(r"Server ([\d.]+)", told)
    images = {service["image"] for service in compose["services"].values() if "temporalio" in service["image"]}
    assert images == {f"temporalio/server:{version}", f"temporalio/admin-tools:{version}"}


def inside(service: dict[str, Any], path: Path | str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a service's command as its container would; Compose reads `$$` as `$`."""
    command = [*service["entrypoint"], *service["command"]]
    return subprocess.run(
        [word.replace("$$", "$") for word in command],
        env={"PATH": f"{path}:{os.environ['PATH']}", **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_the_namespace_is_made_once(compose: dict[str, Any], server: Server, tmp_path: Path) -> None:
    """The command of the page creates it on a real server, with its retention, and can be repeated."""
    program = Path(temporal_program())
    where = {"TEMPORAL_ADDRESS": f"127.0.0.1:{server.port}", "HOME": str(tmp_path)}
    for _ in range(2):
        done = inside(compose["services"]["namespace"], program.parent, **where)
        assert done.returncode == 0, done.stderr
    ask = [str(program), "operator", "namespace", "describe", "-n", "awf", "-o", "json"]
    told = json.loads(subprocess.run(ask, env=where, capture_output=True, text=True, check=True).stdout)
    assert told["config"]["workflowExecutionRetentionTtl"] == "2592000s"


def test_both_databases_get_their_tables(compose: dict[str, Any], tmp_path: Path) -> None:
    """The tool runs three times for each, and the service stops at the first failure."""
    tool = tmp_path / "temporal-sql-tool"
    tool.write_text('#!/bin/sh\necho "$@"\n')
    tool.chmod(0o755)
    service = compose["services"]["schema"]
    assert inside(service, tmp_path).stdout.splitlines() == [
        f"--plugin postgres12 --ep postgres -p 5432 -u temporal --db {database} {order}"
        for database, schema in (("temporal", "temporal"), ("temporal_visibility", "visibility"))
        for order in (
            "create",
            "setup-schema -v 0.0",
            f"update-schema -d /etc/temporal/schema/postgresql/v12/{schema}/versioned",
        )
    ]
    tool.write_text("#!/bin/sh\necho once\nfalse\n")
    failed = inside(service, tmp_path)
    assert (failed.returncode != 0, failed.stdout) == (True, "once\n")


def read(tmp_path: Path, **environ: str) -> object:
    """Return what Temporal's library reads from some variables, or its error."""
    try:
        return ClientConfig.load_client_connect_config(override_env_vars={"HOME": str(tmp_path), **environ})
    except RuntimeError as error:
        return str(error)


@pytest.mark.parametrize("name", VARIABLES)
def test_a_variable_of_the_page_is_read(name: str, tmp_path: Path) -> None:
    """It changes the configuration of a client; another name does not."""
    file = tmp_path / "file"
    file.write_text("[profile.default]\napi_key = 'k'\n")
    value = "true" if name == "TEMPORAL_TLS" else str(file)
    assert read(tmp_path, **{name: value}) != read(tmp_path)
    assert read(tmp_path, **{f"{name}X": value}) == read(tmp_path)


def test_every_variable_has_its_row() -> None:
    """Each variable that the text mentions is in the table."""
    rows = re.findall(r"^\| `(\w+)`", TLS, re.MULTILINE)
    assert sorted(rows) == VARIABLES
    assert {"TEMPORAL_TLS", "TEMPORAL_API_KEY"} <= {*rows}


def test_the_profile_of_the_page_is_one(tmp_path: Path) -> None:
    """Every key of it is known and takes effect."""
    (shown,) = (block.text for block in blocks(TLS) if block.language == "toml")
    for number, path in enumerate(re.findall(r'"(/etc/awf/[^"]+)"', shown)):
        here = tmp_path / str(number)
        here.write_text(path)
        shown = shown.replace(path, str(here))
    file = tmp_path / "temporal.toml"
    file.write_text(shown)
    said = ClientConfig.load_client_connect_config(
        config_file=str(file), config_file_strict=True, override_env_vars={"HOME": str(tmp_path)}
    )
    tls: Any = said["tls"]
    assert said["api_key"] == tomllib.loads(shown)["profile"]["default"]["api_key"]
    assert (tls.domain, tls.server_root_ca_cert, tls.client_cert, tls.client_private_key) == (
        "temporal.internal",
        b"/etc/awf/authority.pem",
        b"/etc/awf/client.pem",
        b"/etc/awf/client.key",
    )
