"""Where the machines of a cluster keep what they share: objects by key, in a directory or in a bucket.

An object that was created is never changed, so that whoever creates it first has decided what it says.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from pipeline.app.history import STREAMS, AttemptArtifacts
from pipeline.engine.outcome import Outcome
from pipeline.engine.ports import JournalError
from pipeline.engine.records import AnyRecord, AttemptFailed, BranchCompleted, StageErrored, VisitCompleted
from pipeline.errors import AwfError

_BUCKETS = ("s3",)
_EXTRA = "install it with: pip install 'awf-pipeline[cluster]'"


class StoreUnavailable(JournalError):
    """The store cannot be used now; nothing is wrong with what is in it."""


class MissingObject(JournalError):
    """Something that a record names is not in the store."""

    def __init__(self, key: str, store: str) -> None:
        super().__init__(
            f'"{key}" of run {_run(key)} is not in the store {store}',
            help="see that every worker and command names the same store, and that nothing is removed from it",
        )


def _run(key: str) -> str:
    parts = key.removeprefix("files/").split("/")
    return parts[1] if parts[0] == "runs" and len(parts) > 1 else "(none)"


class ObjectStore(Protocol):
    """A store of objects. Keys are parts with slashes between them. A store that cannot be used is StoreAway."""

    @property
    def name(self) -> str:
        """What the store is called in messages."""

    def create(self, key: str, body: bytes) -> bool:
        """Keep an object if there is none under this key; whether this one was first. It is durable on return."""

    def put(self, key: str, body: bytes) -> None:
        """Keep an object, in the place of any that is there."""

    def get(self, key: str) -> bytes:
        """An object; raises MissingArtefact when there is none."""

    def find(self, key: str) -> bytes | None:
        """An object, or None when there is none."""

    def many(self, keys: Sequence[str]) -> list[bytes]:
        """Several objects at once; raises MissingArtefact when one is not there."""

    def keys(self, prefix: str) -> list[str]:
        """The keys below a prefix that ends with a slash, in order."""

    def names(self, prefix: str, after: str = "") -> list[str]:
        """The next parts of the keys below a prefix that ends with a slash, in order; only those after a name."""


def open_object_store(url: str) -> ObjectStore:
    """The store at a URL: a directory, or a bucket as `s3://bucket/prefix?endpoint_url=http://host:port`."""
    if "://" not in url or url.startswith("file://"):
        return DirectoryStore(Path(url.removeprefix("file://")).absolute())
    parts = urlsplit(url)
    if parts.scheme not in _BUCKETS or not parts.netloc:
        raise AwfError(f'"{url}" is no store for a cluster', help="name a directory, or a bucket as s3://BUCKET/PREFIX")
    return BucketStore(f"{parts.netloc}{parts.path}".rstrip("/"), dict(parse_qsl(parts.query)))


class DirectoryStore:
    """A directory that every machine has mounted. Creating is a hard link, of which only one can get a name."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: set[Path] = set()  # directories that are known to be there

    @property
    def name(self) -> str:
        return str(self._root)

    def create(self, key: str, body: bytes) -> bool:
        path = self._placed(key)
        try:
            draft = self._draft(path, body)
            try:
                os.link(draft, path)
            except FileExistsError:
                return False
            finally:
                draft.unlink()
            _sync(path.parent)
        except OSError as error:
            raise self._trouble(error) from error
        return True

    def put(self, key: str, body: bytes) -> None:
        path = self._placed(key)
        try:
            self._draft(path, body).replace(path)
            _sync(path.parent)
        except OSError as error:
            raise self._trouble(error) from error

    def get(self, key: str) -> bytes:
        found = self.find(key)
        if found is None:
            raise MissingObject(key, self.name)
        return found

    def find(self, key: str) -> bytes | None:
        try:
            return self._path(key).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._trouble(error) from error

    def many(self, keys: Sequence[str]) -> list[bytes]:
        return [self.get(key) for key in keys]

    def keys(self, prefix: str) -> list[str]:
        below = self._path(prefix)
        try:
            found = [path for path in below.rglob("*") if path.is_file() and not path.name.startswith(".")]
        except OSError as error:
            raise self._trouble(error) from error
        return sorted(str(path.relative_to(self._root)) for path in found)

    def names(self, prefix: str, after: str = "") -> list[str]:
        try:
            found = os.listdir(self._path(prefix))  # noqa: PTH208 - names, not paths
            return sorted(name for name in found if name > after and not name.startswith("."))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise self._trouble(error) from error

    def _path(self, key: str) -> Path:
        if ".." in key.split("/") or key.startswith("/"):
            raise AwfError(f'"{key}" is no key: it leads out of the store')
        return self._root / key

    def _placed(self, key: str) -> Path:
        path = self._path(key)
        if path.parent not in self._made:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise self._trouble(error) from error
            self._made.add(path.parent)
        return path

    def _draft(self, path: Path, body: bytes) -> Path:
        with NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        return Path(file.name)

    def _trouble(self, error: OSError) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store {self._root} cannot be used: {error.strerror or error}",
            help="see that the directory is mounted, writable and has room; runs go on when it is",
        )


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BucketStore:
    """A bucket that speaks the protocol of S3, with a prefix. Creating is a put that must find nothing there."""

    def __init__(self, root: str, options: Mapping[str, str]) -> None:
        try:
            import s3fs  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra without types, which a directory does not need
        except ModuleNotFoundError as error:
            raise AwfError(f"a bucket needs a part that is not installed ({error.name})", help=_EXTRA) from None
        self._root = root
        client = {name: options[name] for name in ("endpoint_url", "region_name") if name in options}
        self._files: Any = s3fs.S3FileSystem(use_listings_cache=False, client_kwargs=client)

    @property
    def name(self) -> str:
        return f"s3://{self._root}"

    def create(self, key: str, body: bytes) -> bool:
        try:
            self._files.pipe_file(self._path(key), body, mode="create")
        except FileExistsError:
            return False
        except Exception as error:
            if _refused(error):
                return False
            raise self._trouble(error) from error
        return True

    def put(self, key: str, body: bytes) -> None:
        try:
            self._files.pipe_file(self._path(key), body)
        except Exception as error:
            raise self._trouble(error) from error

    def get(self, key: str) -> bytes:
        found = self.find(key)
        if found is None:
            raise MissingObject(key, self.name)
        return found

    def find(self, key: str) -> bytes | None:
        try:
            found: bytes = self._files.cat_file(self._path(key))
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._trouble(error) from error
        return found

    def many(self, keys: Sequence[str]) -> list[bytes]:
        paths = [self._path(key) for key in keys]
        try:
            found = self._files.cat(paths, on_error="return") if paths else {}
        except Exception as error:
            raise self._trouble(error) from error
        return [self._sound(key, found[path]) for key, path in zip(keys, paths, strict=True)]

    def keys(self, prefix: str) -> list[str]:
        return self._listed(self._files.find, prefix)

    def names(self, prefix: str, after: str = "") -> list[str]:
        found = self._listed(self._files.ls if not after else partial(self._after, after), prefix)
        return [key.removeprefix(prefix).rstrip("/") for key in found]

    def _after(self, after: str, path: str, *, detail: bool) -> list[str]:
        """The paths below one after a name: a bucket begins there, and does not list what comes before."""
        assert not detail  # noqa: S101 - it has the form of the other ways to list
        bucket, _, key = path.partition("/")
        asked: dict[str, Any] = {"BucketStore": bucket, "Prefix": key, "StartAfter": f"{key}{after}"}
        found: list[str] = []
        while True:
            told = self._files.call_s3("list_objects_v2", **asked)
            found += [f"{bucket}/{one['Key']}" for one in told.get("Contents", ())]
            if not told.get("IsTruncated"):
                return found
            asked["ContinuationToken"] = told["NextContinuationToken"]

    def _listed(self, how: Any, prefix: str) -> list[str]:
        try:
            found: Iterable[str] = how(self._path(prefix), detail=False)
        except FileNotFoundError:
            return []
        except Exception as error:
            raise self._trouble(error) from error
        below = [path.removeprefix(f"{self._root}/") for path in found]
        return sorted(key for key in below if key.startswith(prefix) and key != prefix)

    def _sound(self, key: str, found: bytes | Exception) -> bytes:
        if isinstance(found, FileNotFoundError):
            raise MissingObject(key, self.name) from found
        if isinstance(found, Exception):
            raise self._trouble(found) from found
        return found

    def _path(self, key: str) -> str:
        return f"{self._root}/{key}"

    def _trouble(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store {self.name} cannot be used: {error}",
            help="see that the bucket can be reached, and that its keys are in the environment; runs go on when it is",
        )


def _refused(error: Exception) -> bool:
    """Whether a bucket said that there is such an object: botocore and s3fs have several words for it."""
    told = str(error)
    return "PreconditionFailed" in told or "ConditionalRequestConflict" in told or "At least one of the pre-" in told


FILES = "files"  # what their keys begin with
_LARGEST = 4 * 1024 * 1024  # bytes of a part


def send_files(store: ObjectStore, directory: Path, record: AnyRecord) -> None:
    """Put the files that a record names into the store."""
    for name in _named(record):
        if (directory / name).is_file():
            store.put(_file_key(name), (directory / name).read_bytes())


def send_output(store: ObjectStore, directory: Path, name: str, sent: int) -> int:
    """Put what a file has beyond so many bytes into the store; the bytes that are there then."""
    path = directory / name
    if not path.is_file():
        return sent
    with path.open("rb") as file:
        file.seek(sent)
        more = file.read(_LARGEST)
    if more and not store.create(_part(name, sent), more):
        more = store.get(_part(name, sent))  # an earlier try arrived after all
    return sent + len(more)


def fetch_outcome_files(store: ObjectStore, directory: Path, outcome: Outcome) -> None:
    """Have the files that an outcome names here; one that is nowhere is an error that says which."""
    for name in _below(outcome):
        path = directory / name
        if not path.exists():
            body = store.get(_file_key(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(body)


def fetch_attempt_files(store: ObjectStore, directory: Path, found: AttemptArtifacts) -> None:
    """Have the files of an attempt here, or of one that runs, or was lost with its worker, what it printed so far."""
    names = _below(found.outcome) if found.outcome else _printed(directory, found)
    for name in names:
        path = directory / name
        have = path.stat().st_size if path.exists() else None
        more = _rest(store, name, have or 0) if found.done else _parts(store, name, have or 0)
        if more or (have is None and more is not None):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                file.write(more)


def _rest(store: ObjectStore, name: str, after: int) -> bytes | None:
    whole = store.find(_file_key(name))
    return None if whole is None else whole[after:]


def _parts(store: ObjectStore, name: str, after: int) -> bytes | None:
    """What was sent of a file beyond so many bytes; None when there is nothing."""
    more = b""
    while (part := store.find(_part(name, after + len(more)))) is not None:
        more += part
    return more or None


def _named(record: AnyRecord) -> list[str]:
    match record:
        case AttemptFailed() | StageErrored() | BranchCompleted() | VisitCompleted():
            return _below(record.outcome)
        case _:
            return []


def _below(outcome: Outcome) -> list[str]:
    """The names of those files of an outcome that are below the store's directory."""
    paths = map(Path, outcome.logs.values())
    return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]


def _printed(directory: Path, found: AttemptArtifacts) -> list[str]:
    return [str((found.directory / f"{name}.log").relative_to(directory)) for name in STREAMS]


def _file_key(name: str) -> str:
    return f"{FILES}/{name}"


def _part(name: str, before: int) -> str:
    return f"parts/{name}/{before:012d}"
