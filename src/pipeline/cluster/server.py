"""The Temporal server that `--on` names: how it is called, how it is reached, and what is wrong when it is not."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from pipeline.errors import AwfError, ExitCode

_PATIENCE = 10.0  # seconds for the server to answer
_SOON = 0.2  # seconds until one that is starting is asked again
_STARTING = "not healthy yet"  # its own words
_FORM = "write --on temporal://HOST:PORT/NAMESPACE"
_USUAL_HELP = "see that it runs, that this machine can reach it, and that TLS is as it wants it"
_WANTS_TLS = ("it hung up on a call without TLS", "where it wants TLS, say so: TEMPORAL_TLS=true")
_WANTS_US = (
    "it hung up on a call over TLS",
    "where it wants certificates, give one that it knows: TEMPORAL_TLS_CLIENT_CERT_PATH, TEMPORAL_TLS_CLIENT_KEY_PATH",
)
# By what the library's words have in them: what has happened, and what to do about it.
_SIGNS = (
    (
        "UnknownIssuer|BadSignature",
        "its certificate is signed by nobody who is trusted here",
        "name the authority that signed it: TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    ),
    (
        "NotValidForName",
        "its certificate is for another name",
        "say the name that the certificate is for: TEMPORAL_TLS_SERVER_NAME",
    ),
    (
        "InvalidContentType",
        "it does not speak TLS at this port",
        "name the port that does, or leave out TEMPORAL_TLS, its companions and TEMPORAL_API_KEY",
    ),
    (
        "NoCertificatesPresented|KeyMismatch",
        "our own certificate is none, or the key is not its key",
        "see what TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH name",
    ),
    ("code: Unauthenticated|code: PermissionDenied", "it refuses our key", "see TEMPORAL_API_KEY"),
)


class ServerUnreachable(AwfError):
    """The server does not answer, or will have nothing to do with us."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is."""

    host: str
    namespace: str = "default"

    @classmethod
    def read(cls, url: str) -> "Address":
        """The address that somebody wrote."""
        parts = urlsplit(url)
        if parts.scheme != "temporal" or not parts.hostname:
            raise AwfError(f'"{url}" is no address of a cluster', help=_FORM)
        try:
            port = parts.port or 7233
        except ValueError:
            raise AwfError(f'"{url}" has no port that could be one', help=_FORM) from None
        namespace = parts.path.strip("/") or "default"
        if "/" in namespace:
            raise AwfError(f'"{url}" names more than a namespace', help=_FORM)
        return cls(f"{parts.hostname}:{port}", namespace)

    def __str__(self) -> str:
        return f"temporal://{self.host}/{self.namespace}"


async def connect(address: Address, environ: Mapping[str, str]) -> Client:
    """A client of a cluster; TLS and keys are as Temporal's own variables and profile say."""
    said = _said(environ)
    try:
        async with asyncio.timeout(_PATIENCE):
            client = await _client(address, said)
            await _check(client, address)
    except ValueError as error:
        raise _misconfigured(error) from None
    except (RuntimeError, OSError) as error:
        what, help = _told(error, secured=bool(said.get("tls")))
        raise ServerUnreachable(f"the Temporal server at {address.host} cannot be reached: {what}", help=help) from None
    return client


async def _client(address: Address, said: ClientConnectConfig) -> Client:
    """A client of a server, which may just be about to start."""
    while True:
        try:
            return await Client.connect(
                address.host,
                namespace=address.namespace,
                data_converter=pydantic_data_converter,
                api_key=said.get("api_key"),
                tls=said.get("tls", False),
                rpc_metadata=said.get("rpc_metadata", {}),
            )
        except RuntimeError as error:
            if _STARTING not in str(error):
                raise
            await asyncio.sleep(_SOON)


def _said(environ: Mapping[str, str]) -> ClientConnectConfig:
    """What Temporal's variables and profile say; the address and the namespace are not theirs to say."""
    try:
        return ClientConfig.load_client_connect_config(override_env_vars=dict(environ))
    except (RuntimeError, OSError) as error:
        raise _misconfigured(error) from None


def _misconfigured(error: Exception) -> AwfError:
    return AwfError(
        f"what Temporal's variables or profile say of TLS and keys cannot be used: {error}",
        help="see the variables TEMPORAL_TLS_..., TEMPORAL_PROFILE and TEMPORAL_CONFIG_FILE",
    )


def _told(error: Exception, *, secured: bool) -> tuple[str, str]:
    """What has happened, and what to do about it."""
    if isinstance(error, TimeoutError):
        return f"it did not answer within {_PATIENCE:.0f} seconds", _USUAL_HELP
    words = str(error)
    for signs, what, help in _SIGNS:
        if re.search(signs, words):
            return what, help
    if "after connection" in words and "transport::Error" in words:
        return _WANTS_US if secured else _WANTS_TLS
    return words[:200], _USUAL_HELP


async def _check(client: Client, address: Address) -> None:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest  # noqa: PLC0415 - takes a while to load

    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=address.namespace))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise AwfError(
                f'the Temporal server at {address.host} has no namespace "{address.namespace}"',
                help=f"make it with: temporal operator namespace create --namespace {address.namespace}",
            ) from None
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            return  # a key for one namespace may not be good for looking at it
        help = "see TEMPORAL_API_KEY" if error.status is RPCStatusCode.UNAUTHENTICATED else _USUAL_HELP
        raise ServerUnreachable(f"the Temporal server at {address.host} refused: {error.message}", help=help) from None


def workflow_id(run_id: str) -> str:
    """What a run is called on the server."""
    return f"awf-{run_id}"


def run_id_of(workflow: str) -> str:
    """The run that is called so on the server."""
    return workflow.removeprefix("awf-")
