"""The Temporal server that `--on` names: its address, the connection to it, and what is wrong if there is none."""

import asyncio
import re
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError, RPCStatusCode

from pipeline.errors import AwfError, ExitCode

_TIMEOUT = 10.0  # seconds
_CLOSE_TIMEOUT = 5.0  # seconds
_RETRY_INTERVAL = 0.2  # seconds, while the server is starting
_STARTING = "not healthy yet"  # how it says so
_FORM = "write --on temporal://HOST:PORT/NAMESPACE"
_GENERAL_HELP = "check that it is running, that this machine can reach it, and whether it requires TLS"
# A pattern in the library's message, what has happened, and what to do about it.
_PROBLEMS = (
    (
        "UnknownIssuer|BadSignature",
        "its certificate is not signed by a trusted authority",
        "name the authority that signed it: TEMPORAL_TLS_SERVER_CA_CERT_PATH",
    ),
    (
        "NotValidForName",
        "its certificate is for another name",
        "set the name in the certificate: TEMPORAL_TLS_SERVER_NAME",
    ),
    (
        "InvalidContentType",
        "it does not use TLS on this port",
        "use the port that does, or unset TEMPORAL_API_KEY and the TEMPORAL_TLS variables",
    ),
    (
        "NoCertificatesPresented|KeyMismatch",
        "the client certificate is not valid, or does not match its key",
        "check TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
    ),
    ("code: Unauthenticated|code: PermissionDenied", "it rejected the API key", "check TEMPORAL_API_KEY"),
)
_CLOSED_PLAIN = ("it closed a connection without TLS", "if it requires TLS, set TEMPORAL_TLS=true")
_CLOSED_TLS = (
    "it closed the TLS connection",
    "if it requires client certificates, set TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH",
)

T = TypeVar("T")


class ServerUnreachable(AwfError):
    """The server does not respond, or rejects us."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class Address:
    """Where a cluster is."""

    host: str
    namespace: str = "default"

    @classmethod
    def read(cls, url: str) -> "Address":
        """Return the address in a URL."""
        parts = urlsplit(url)
        if parts.scheme != "temporal" or not parts.hostname:
            raise AwfError(f'"{url}" is not the address of a cluster', help=_FORM)
        try:
            port = parts.port or 7233
        except ValueError:
            raise AwfError(f'"{url}" has an invalid port', help=_FORM) from None
        namespace = parts.path.strip("/") or "default"
        if "/" in namespace:
            raise AwfError(f'"{url}" has more than a namespace in its path', help=_FORM)
        return cls(f"{parts.hostname}:{port}", namespace)

    def __str__(self) -> str:
        return f"temporal://{self.host}/{self.namespace}"


async def connect(address: Address, environ: Mapping[str, str]) -> Client:
    """Return a client of a cluster. TLS and keys come from Temporal's own variables and profile."""
    try:
        config = ClientConfig.load_client_connect_config(override_env_vars=dict(environ))
    except (RuntimeError, OSError) as error:
        raise _invalid_config(error) from None
    try:
        async with asyncio.timeout(_TIMEOUT):
            client = await _connect_when_started(address, config)
            await _check_namespace(client, address)
    except ValueError as error:
        raise _invalid_config(error) from None
    except (RuntimeError, OSError) as error:
        what, help = _explain(error, uses_tls=bool(config.get("tls")))
        raise ServerUnreachable(f"cannot reach the Temporal server at {address.host}: {what}", help=help) from None
    return client


async def _connect_when_started(address: Address, config: ClientConnectConfig) -> Client:
    while True:
        try:
            return await Client.connect(
                address.host,
                namespace=address.namespace,
                data_converter=pydantic_data_converter,
                api_key=config.get("api_key"),
                tls=config.get("tls", False),
                rpc_metadata=config.get("rpc_metadata", {}),
            )
        except RuntimeError as error:
            if _STARTING not in str(error):
                raise
            await asyncio.sleep(_RETRY_INTERVAL)


async def _check_namespace(client: Client, address: Address) -> None:
    from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest  # noqa: PLC0415 - slow to load

    try:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=address.namespace))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise AwfError(
                f'the Temporal server at {address.host} has no namespace "{address.namespace}"',
                help=f"create it with: temporal operator namespace create --namespace {address.namespace}",
            ) from None
        if error.status is RPCStatusCode.PERMISSION_DENIED:
            return  # a key that may use a namespace need not be allowed to describe it
        help = "check TEMPORAL_API_KEY" if error.status is RPCStatusCode.UNAUTHENTICATED else _GENERAL_HELP
        message = f"the Temporal server at {address.host} rejected the connection: {error.message}"
        raise ServerUnreachable(message, help=help) from None


def _invalid_config(error: Exception) -> AwfError:
    return AwfError(
        f"Temporal's variables or profile are not valid: {error}",
        help="check the variables TEMPORAL_TLS_..., TEMPORAL_PROFILE and TEMPORAL_CONFIG_FILE",
    )


def _explain(error: Exception, *, uses_tls: bool) -> tuple[str, str]:
    """Return what has happened, and what to do about it."""
    if isinstance(error, TimeoutError):
        return f"it did not respond within {_TIMEOUT:.0f} seconds", _GENERAL_HELP
    words = str(error)
    for pattern, what, help in _PROBLEMS:
        if re.search(pattern, words):
            return what, help
    if "after connection" in words and "transport::Error" in words:
        return _CLOSED_TLS if uses_tls else _CLOSED_PLAIN
    return words[:200], _GENERAL_HELP


class LoopThread:
    """An event loop in a thread of its own, which any thread may call."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Run a coroutine without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Return the result of a coroutine; it is cancelled when the caller is interrupted or out of time."""
        future = self.submit(work)
        try:
            return future.result(timeout)
        finally:
            future.cancel()

    def close(self) -> None:
        """Cancel what is running, and end the thread unless it is stuck."""

        async def cancel_all() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        with suppress(TimeoutError):
            self.call(cancel_all(), _CLOSE_TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSE_TIMEOUT)
        if not self._thread.is_alive():
            self._loop.close()
