"""What the machines of a cluster share: objects by key, in a directory or in an S3 bucket, and the files of attempts.

An object that was created is never changed, so the machine that creates it first decides what it says.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pipeline.app.history import STREAMS, AttemptArtifacts
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord
from pipeline.errors import AwfError
from pipeline.files import sync_directory

FILES = "files"  # the first part of the keys of attempts' files
_PARALLEL = 16  # objects fetched at the same time
_BUCKET_OPTIONS = {"endpoint_url": "endpoint", "region_name": "region"}  # of a URL, as the library calls them
_RETRIES = 4  # of a request, in about two seconds; a worker that can wait longer tries again
_LARGEST_PART = 4 * 1024 * 1024  # bytes


class StoreUnavailable(JournalError):
    """The store cannot be used at the moment; nothing is known to be wrong with its objects."""


class ObjectStore(ABC):
    """A store of objects. Keys are names joined by slashes. Methods raise StoreUnavailable if the store fails."""

    def __init__(self, name: str) -> None:
        self.name = name  # what messages call it

    @abstractmethod
    def create(self, key: str, body: bytes) -> bool:
        """Store a new object durably; return False, and change nothing, if the key is taken."""

    @abstractmethod
    def put(self, key: str, body: bytes) -> None:
        """Store an object durably, replacing any other with this key."""

    @abstractmethod
    def find(self, key: str) -> bytes | None:
        """Return an object, or None if there is none."""

    @abstractmethod
    def names(self, prefix: str, after: str = "") -> list[str]:
        """Return what follows a prefix in the keys, up to the next slash, sorted; `prefix` ends with a slash.

        With `after`, which needs a prefix of keys without further slashes, only later names are listed.
        """

    def get(self, key: str) -> bytes:
        """Return an object that a record refers to, or raise JournalError."""
        body = self.find(key)
        if body is None:
            raise JournalError(
                f'"{key}" is not in the store {self.name}',
                help="check that all workers and commands use the same store, and that nothing is deleted from it",
            )
        return body

    def get_many(self, keys: Sequence[str]) -> list[bytes]:
        """Return several objects, fetched at the same time, or raise JournalError."""
        with ThreadPoolExecutor(_PARALLEL) as pool:
            return list(pool.map(self.get, keys))


def open_object_store(url: str) -> ObjectStore:
    """Return the store at a URL: a directory, or a bucket such as `s3://bucket/prefix?endpoint_url=http://host:port`."""
    if "://" not in url or url.startswith("file://"):
        return DirectoryStore(Path(url.removeprefix("file://")).absolute())
    parts = urlsplit(url)
    if parts.scheme != "s3" or not parts.netloc:
        help = "use a directory, or a bucket as s3://BUCKET/PREFIX"
        raise AwfError(f'"{url}" is not a directory or a bucket', help=help)
    return BucketStore(parts.netloc, parts.path.strip("/"), dict(parse_qsl(parts.query)))


class DirectoryStore(ObjectStore):
    """A directory that every machine has mounted. Of all machines that link a name, only one succeeds."""

    # Not obstore's LocalStore: it does not sync to disk, so a power failure could take back a record.

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self._root = root
        # Directories that exist. One that disappears is not made again: the store was unmounted.
        self._made: set[Path] = set()
        self._existed = root.is_dir()

    def create(self, key: str, body: bytes) -> bool:
        with self._file_errors():
            path = self._path(key)
            draft = self._write_draft(path, body)
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
            sync_directory(path.parent)
            return True

    def put(self, key: str, body: bytes) -> None:
        with self._file_errors():
            path = self._path(key)
            self._write_draft(path, body).replace(path)
            sync_directory(path.parent)

    def find(self, key: str) -> bytes | None:
        with self._file_errors():
            try:
                return self._path(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                if self._is_unmounted():
                    raise
                return None

    def names(self, prefix: str, after: str = "") -> list[str]:
        with self._file_errors():
            try:
                found = os.listdir(self._path(prefix))  # noqa: PTH208 - names, not paths
            except (FileNotFoundError, NotADirectoryError):
                if self._is_unmounted():
                    raise
                return []
            return sorted(name for name in found if name > after and not name.startswith("."))

    def _is_unmounted(self) -> bool:
        """Whether the directory is gone that was there when the store was opened, or something else is in its place."""
        return not self._root.is_dir() and (self._existed or self._root.exists())

    def _path(self, key: str) -> Path:
        if ".." in key.split("/") or key.startswith("/"):
            raise AwfError(f'"{key}" is not a valid key: it leads out of the store')
        return self._root / key

    def _write_draft(self, path: Path, body: bytes) -> Path:
        """Write a body beside its path, under a name of its own."""
        if path.parent not in self._made:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(path.parent)
        with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        return Path(file.name)

    @contextmanager
    def _file_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreUnavailable(
                f"the store {self.name} cannot be used: {error.strerror or error}",
                help="check that the directory is mounted, writable and not full; runs then continue by themselves",
            ) from error


class BucketStore(ObjectStore):
    """A bucket on S3 or a compatible server. It must support puts that fail if the object exists."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        try:
            from obstore.exceptions import AlreadyExistsError, BaseError  # noqa: PLC0415 - an extra
            from obstore.store import S3Store  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            help = "install it with: pip install 'awf-pipeline[cluster]'"
            raise AwfError(f"a bucket needs a package that is not installed ({error.name})", help=help) from None
        super().__init__(f"s3://{bucket}/{prefix}".rstrip("/"))
        self._taken, self._errors = AlreadyExistsError, (BaseError, OSError)
        config: Any = {name: options[option] for option, name in _BUCKET_OPTIONS.items() if option in options}
        self._bucket = S3Store(
            bucket,
            prefix=prefix or None,
            config=config,
            client_options={"allow_http": True},
            retry_config={"max_retries": _RETRIES},
        )

    def create(self, key: str, body: bytes) -> bool:
        with self._request_errors():
            try:
                self._bucket.put(key, body, mode="create", use_multipart=False)
            except self._taken:
                return False
            return True

    def put(self, key: str, body: bytes) -> None:
        with self._request_errors():
            self._bucket.put(key, body)

    def find(self, key: str) -> bytes | None:
        with self._request_errors():
            try:
                return bytes(self._bucket.get(key).bytes())
            except FileNotFoundError as error:
                if "NoSuchBucket" in str(error):
                    raise
                return None

    def names(self, prefix: str, after: str = "") -> list[str]:
        with self._request_errors():
            if after:  # the bucket starts there, and does not list what comes before
                paths = [found["path"] for found in self._bucket.list(prefix, offset=prefix + after).collect()]
            else:
                listed = self._bucket.list_with_delimiter(prefix)
                paths = [*listed["common_prefixes"], *(found["path"] for found in listed["objects"])]
        return sorted(path.removeprefix(prefix) for path in paths)

    @contextmanager
    def _request_errors(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            reason = str(error).partition("\n")[0]
            raise StoreUnavailable(
                f"the store {self.name} cannot be used: {reason}",
                help="check the address of the bucket, its region and the AWS_... variables; "
                "runs then continue by themselves",
            ) from error


def send_files(store: ObjectStore, directory: Path, record: AnyRecord) -> None:
    """Store the files that a record names."""
    outcome: Outcome | None = getattr(record, "outcome", None)
    for name in _files_of(outcome) if outcome else ():
        if (directory / name).is_file():
            store.put(f"{FILES}/{name}", (directory / name).read_bytes())


def send_output(store: ObjectStore, directory: Path, name: str, sent: int) -> int:
    """Store the next part of a growing file, of which `sent` bytes are stored; return how many are stored now.

    A part is named after the number of bytes before it. So a reader knows the name of the next part, and reads no byte
    twice and skips none.
    """
    path = directory / name
    if not path.is_file():
        return sent
    with path.open("rb") as file:
        file.seek(sent)
        part = file.read(_LARGEST_PART)
    if part and not store.create(_part_key(name, sent), part):
        part = store.get(_part_key(name, sent))  # an earlier request that seemed to fail
    return sent + len(part)


def fetch_outcome_files(store: ObjectStore, directory: Path, outcome: Outcome) -> None:
    """Copy the files that an outcome names into a directory, or raise JournalError."""
    for name in _files_of(outcome):
        if not (directory / name).exists():
            _append(directory / name, store.get(f"{FILES}/{name}"))


def fetch_attempt_files(store: ObjectStore, directory: Path, attempt: AttemptArtifacts) -> None:
    """Copy what is new of an attempt's files into a directory.

    Of an attempt that is running, or was lost with its worker, that is what it has printed so far.
    """
    if attempt.outcome:
        for name in _files_of(attempt.outcome):
            body = store.find(f"{FILES}/{name}")
            if body is not None:
                _append(directory / name, body[_size(directory / name) :])
    else:
        for stream in STREAMS:
            path = attempt.directory / f"{stream}.log"
            name = str(path.relative_to(directory))
            while part := store.find(_part_key(name, _size(path))):
                _append(path, part)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(body)


def _files_of(outcome: Outcome) -> list[str]:
    """Return the files of an outcome that are in the worker's directory."""
    paths = map(Path, outcome.logs.values())
    return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]


def _part_key(name: str, sent: int) -> str:
    return f"parts/{name}/{sent:012d}"
