"""The Temporal server that `--on` names: how it is called, how it is reached, and what is wrong when it is not."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig
from temporalio.service import RPCError, RPCStatusCode

from pipeline.cluster.orders import QUEUE
from pipeline.errors import AwfError, ExitCode

_PATIENCE = 10.0  # seconds for the server to answer
_FORM = "write --on temporal://HOST:PORT/NAMESPACE"


class Unreachable(AwfError):
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


async def connected(address: Address, environ: Mapping[str, str]) -> Client:
    """A client of a cluster; TLS and keys are as Temporal's own variables and profile say."""
    said = ClientConfig.load_client_connect_config(override_env_vars=dict(environ))
    more: dict[str, Any] = {key: value for key, value in said.items() if key in ("api_key", "tls", "rpc_metadata")}
    try:
        async with asyncio.timeout(_PATIENCE):
            client = await Client.connect(
                address.host, namespace=address.namespace, data_converter=pydantic_data_converter, **more
            )
            await _check(client, address)
    except (RuntimeError, OSError) as error:
        raise Unreachable(
            f"the Temporal server at {address.host} cannot be reached: {str(error)[:200]}",
            help="see that it runs, that this machine can reach it, and that TLS is as it wants it",
        ) from None
    return client


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
        if error.status in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED):
            return  # a key for one namespace may not be good for looking at it
        raise Unreachable(f"the Temporal server at {address.host} refused: {error.message}") from None


def workflow_id(run_id: str) -> str:
    """What a run is called on the server."""
    return f"awf-{run_id}"


def run_of(workflow: str) -> str:
    """The run that is called so on the server."""
    return workflow.removeprefix("awf-")


__all__ = ["QUEUE", "Address", "Unreachable", "connected", "run_of", "workflow_id"]
