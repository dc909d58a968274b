"""Certificates for tests: an authority, and what it signs."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

SERVER_NAME = "temporal.test"  # what the server's certificate is for; nobody looks such a name up
_PLAIN = "[req]\ndistinguished_name = nobody\n[nobody]\n"  # nothing of what the machine's own settings would add


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """An authority that signs certificates."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        (folder / "plain.cnf").write_text(_PLAIN)
        self.own = self._make("authority", "basicConstraints=critical,CA:TRUE")

    def server(self) -> Pair:
        """Return a certificate for the server `SERVER_NAME`."""
        return self._make("server", f"subjectAltName=DNS:{SERVER_NAME}", *self._signing)

    def client(self) -> Pair:
        """Return a client certificate."""
        return self._make("client", "extendedKeyUsage=clientAuth", *self._signing)

    @property
    def _signing(self) -> tuple[str, ...]:
        return ("-CA", str(self.own.certificate), "-CAkey", str(self.own.key))

    def _make(self, name: str, extension: str, *signing: str) -> Pair:
        pair = Pair(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        kind = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")
        files = ("-config", str(self._folder / "plain.cnf"), "-out", str(pair.certificate), "-keyout", str(pair.key))
        named = ("-subj", f"/CN={name}", "-addext", extension)
        subprocess.run(["openssl", "req", "-x509", *kind, *files, *named, *signing], check=True, capture_output=True)
        return pair
