# SPDX-License-Identifier: Apache-2.0
"""Keeping the cache in a file, so that a restart costs one listing.

What is read back is only ever a guess: every tree is listed before it is used,
and an aspect counts only if its generation is the one listed. So an old file
costs requests, and never truth.
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from oslo_concurrency import lockutils

from reportclient import text
from reportclient.cache import Cache, CachedProvider, CachedTreeState
from reportclient.notices import Notices
from reportclient.types import ASPECTS, ProviderRecord

__all__ = ["CacheFile"]

LOG = text.logger(__name__)

_FORMAT, _VERSION = "reportclient cache", 1
#: Seconds between two writes of a file that keeps changing.
_EVERY = 60.0


class CacheFile:
    """A file that follows a cache. Nothing that goes wrong with it is fatal.

    :param path: the file; it and its lock are readable by the owner only.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        cache: Cache,
        notices: Notices,
        clock: Callable[[], float],
    ) -> None:
        self._path = Path(path)
        self._cache = cache
        self._notices = notices
        self._clock = clock
        self._loaded = False
        self._saved: int | None = None
        self._next = clock() + _EVERY
        self._endpoint: str | None = None

    def load(self, endpoint: Callable[[], str]) -> None:
        """Fill the cache from the file, the first time that it is called.

        A file that is damaged, of another kind or version, or written for
        another endpoint is ignored, with a warning.

        :raises ReportClientError: the endpoint cannot be found out.
        """
        if self._loaded:
            return
        self._endpoint = endpoint()
        self._loaded = True
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            states = _parsed(content, self._endpoint)
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            LOG.warning("The cache file %s is ignored: %s", str(self._path), _reason(error))
            return
        for state in states:
            self._cache.restore(state)
        self._saved = self._cache.changes
        LOG.debug("Read %d trees from the cache file %s.", len(states), str(self._path))

    def follow(self) -> None:
        """Write the file if the cache has changed and it is time again."""
        if self._clock() >= self._next:
            self.save()

    def save(self) -> None:
        """Write the file if the cache has changed; whole, or not at all."""
        self._next = self._clock() + _EVERY
        changes = self._cache.changes
        if not self._loaded or changes == self._saved:
            return
        key = f"cache file {self._path}"
        try:
            self._write(_content(self._cache.states(), str(self._endpoint)))
        except OSError as error:
            self._notices.warn(
                key, f"The cache file {self._path} cannot be written: {_reason(error)}"
            )
            return
        self._saved = changes
        self._notices.recovered(key, f"The cache file {self._path} can be written again.")

    def _write(self, content: Mapping[str, Any]) -> None:
        folder = self._path.parent
        if not folder.is_dir():
            # The lock would make it, and a mistyped path would go unnoticed.
            raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(folder))
        lock = lockutils.external_lock(f"{self._path.name}.lock", lock_path=str(folder))
        with lock:
            # mkstemp makes it for the owner only.
            handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{self._path.name}.")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as stream:
                    json.dump(content, stream)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(temporary, self._path)
            except BaseException:
                os.unlink(temporary)
                raise


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, _Foreign) else f"it is damaged ({error!r})"


class _Foreign(ValueError):
    """The file is not for us."""


def _content(states: list[CachedTreeState], endpoint: str) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "endpoint": endpoint,
        "trees": [
            {
                "root": state.root,
                "last_modified": state.last_modified,
                "wrote": state.wrote,
                "listings": state.listings,
                "own": [_provider(provider) for provider in state.own],
                "sharing": [_provider(provider) for provider in state.sharing],
            }
            for state in states
        ],
    }


def _provider(provider: CachedProvider) -> dict[str, Any]:
    record = provider.record
    return {
        "uuid": record.uuid,
        "name": record.name,
        "parent": record.parent_uuid,
        "generation": record.generation,
        "inventory": record.inventory,
        "traits": None if record.traits is None else sorted(record.traits),
        "aggregates": None if record.aggregates is None else sorted(record.aggregates),
        "read_at": {str(aspect): provider.generation_of(aspect) for aspect in ASPECTS},
    }


def _parsed(content: Any, endpoint: str) -> list[CachedTreeState]:
    if content["format"] != _FORMAT or content["version"] != _VERSION:
        raise _Foreign("it is of another kind or version")
    if content["endpoint"] != endpoint:
        raise _Foreign(f"it was written for {content['endpoint']}, not {endpoint}")
    return [
        CachedTreeState(
            tree["root"],
            tuple(_parsed_provider(given) for given in tree["own"]),
            tuple(_parsed_provider(given, sharing=True) for given in tree["sharing"]),
            tree["last_modified"],
            bool(tree["wrote"]),
            int(tree["listings"]),
        )
        for tree in content["trees"]
    ]


def _parsed_provider(given: Mapping[str, Any], *, sharing: bool = False) -> CachedProvider:
    inventory, read_at = given["inventory"], given["read_at"]
    record = ProviderRecord(
        _text(given["uuid"]),
        _text(given["name"]),
        None if given["parent"] is None else _text(given["parent"]),
        given["generation"],
        None if inventory is None else {n: dict(r) for n, r in inventory.items()},
        _members(given["traits"]),
        _members(given["aggregates"]),
        sharing=sharing,
    )
    return CachedProvider(record, read_at["inventory"], read_at["aggregates"], read_at["traits"])


def _members(given: Any) -> frozenset[str] | None:
    return None if given is None else frozenset(map(_text, given))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
