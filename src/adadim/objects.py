"""Files in object stores and on other file systems that fsspec reaches: the counterpart of `files` for a `Url`.

Credentials and addresses of servers come from where fsspec takes them: environment variables and its configuration.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

from adadim.errors import FileError
from adadim.files import Url

__all__ = ["exists", "names", "read", "remove", "write", "write_all"]

# Where an object is there when all of it has arrived, and not before. Elsewhere a file is renamed when it is complete.
ATOMIC = {"abfs", "abfss", "adl", "az", "gcs", "gs", "memory", "oci", "oss", "s3", "s3a"}


def read(url: Url, error: type[FileError] = FileError) -> bytes:
    """Content of a file."""
    with _explained(url, error):
        system, path = _system(url)
        data: bytes = system.cat_file(path)
        return data


def write(url: Url, data: bytes, error: type[FileError] = FileError) -> None:
    """Write a file, whole or not at all."""
    with _explained(url, error):
        system, path = _system(url)
        if _atomic(system):
            system.pipe_file(path, data)
            return
        system.makedirs(path.rpartition("/")[0], exist_ok=True)
        partial = f"{path}.{secrets.token_hex(4)}.tmp"
        try:
            system.pipe_file(partial, data)
            system.mv(partial, path)
        except BaseException:
            with contextlib.suppress(Exception):
                system.rm_file(partial)
            raise


def write_all(contents: Mapping[Url, bytes], error: type[FileError] = FileError) -> None:
    """Write several small files of one store, at the same time where it allows that."""
    if not contents:
        return
    url = next(iter(contents))
    with _explained(url, error):
        system, _ = _system(url)
        if _atomic(system):
            system.pipe({_system(place)[1]: data for place, data in contents.items()})
            return
    for place, data in contents.items():
        write(place, data, error)


def names(folder: Url, error: type[FileError] = FileError) -> list[str]:
    """Names of what is in a folder; none if there is no such folder."""
    with _explained(folder, error):
        system, path = _system(folder)
        system.invalidate_cache()  # others write too
        try:
            found = system.ls(path, detail=False)
        except FileNotFoundError:
            return []
        inside = (str(name).rstrip("/") for name in found)
        return [name.rpartition("/")[2] for name in inside if name.strip("/") != path.strip("/")]


def exists(url: Url, error: type[FileError] = FileError) -> bool:
    """Whether there is such a file."""
    with _explained(url, error):
        system, path = _system(url)
        system.invalidate_cache()
        return bool(system.exists(path))


def remove(url: Url, error: type[FileError] = FileError) -> None:
    """Remove a file, if it is there."""
    with _explained(url, error):
        system, path = _system(url)
        with contextlib.suppress(FileNotFoundError):
            system.rm_file(path)


def _system(url: Url) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    from fsspec.core import url_to_fs

    system, path = url_to_fs(str(url))
    return system, path


def _atomic(system: Any) -> bool:
    protocols = (system.protocol,) if isinstance(system.protocol, str) else system.protocol
    return bool(ATOMIC & set(protocols))


@contextlib.contextmanager
def _explained(url: Url, error: type[FileError]) -> Iterator[None]:
    """What a store refuses, as an error of ours: each has classes of its own."""
    try:
        yield
    except ModuleNotFoundError as failure:
        if failure.name == "fsspec":
            raise error(f"{url}: URLs need fsspec; install it with: pip install 'adadim[cluster]'") from failure
        raise error(f"{url}: {failure}") from failure
    except ImportError as failure:  # fsspec names the package that is missing
        raise error(f"{url}: {failure}") from failure
    except FileError:
        raise
    except Exception as failure:
        said = str(failure) or type(failure).__name__
        raise error(f"{url}: {said}; check the address, your rights there and the network, and run again") from failure
