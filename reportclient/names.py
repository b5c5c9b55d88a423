# SPDX-License-Identifier: Apache-2.0
"""Which traits and resource classes this Placement is known to have.

Custom names must exist before a provider can use them. What was ensured once
is remembered for all providers, so that a pass asks for nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from reportclient import workers as workers_
from reportclient.api import PlacementAPI

__all__ = ["KnownNames"]

#: From so many unknown names on, one listing is cheaper than a PUT for each.
_LIST_FROM = 3


class KnownNames:
    """Traits and resource classes that exist, and standard ones that do not.

    :ivar unknown: standard names that this Placement refused. An agent that
        was upgraded before Placement knows traits and classes that Placement
        does not; they are left out until `forget_unknown` (after a refresh).
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traits: set[str] = set()
        self._classes: set[str] = set()
        self.unknown: frozenset[str] = frozenset()

    def renew_lock(self) -> None:
        """Take a new lock: after a fork, another thread may have held it."""
        self._lock = threading.Lock()

    def ensure_traits(
        self, api: PlacementAPI, names: Iterable[str], workers: workers_.Workers
    ) -> None:
        """Create the custom traits among ``names`` that do not exist yet.

        Standard traits cannot be created; whether Placement has them shows
        when they are used.

        :raises TraitCreationFailed, TraitRetrievalFailed: Placement refused.
        :raises PlacementUnavailable: it could not be reached.
        """
        missing = self._unknown_of(names, self._traits)
        if len(missing) >= _LIST_FROM:
            there = api.list_traits(names=missing)
            with self._lock:
                self._traits |= there
            missing = [name for name in missing if name not in there]
        workers_.values(workers.run(api.ensure_trait, missing))
        with self._lock:
            self._traits.update(missing)

    def ensure_classes(self, api: PlacementAPI, names: Iterable[str]) -> None:
        """Create the custom resource classes that do not exist yet.

        :raises: as `make_classes`.
        """
        for _ in self.make_classes(api, names):
            pass

    def make_classes(self, api: PlacementAPI, names: Iterable[str]) -> Iterator[str]:
        """Create the custom resource classes that do not exist yet; each once it is there.

        One after the other. Placement numbers them itself, and on PostgreSQL
        takes another class that got the same number for this one: it answers
        204, and the class is not there.

        :raises ResourceClassCreationFailed, ResourceClassRetrievalFailed:
            Placement refused.
        :raises PlacementUnavailable: it could not be reached.
        """
        missing = self._unknown_of(names, self._classes)
        if len(missing) >= _LIST_FROM:
            there = api.list_resource_classes()
            with self._lock:
                self._classes |= there
            yield from (name for name in missing if name in there)
            missing = [name for name in missing if name not in there]
        for name in missing:
            api.ensure_resource_class(name)
            with self._lock:
                self._classes.add(name)
            yield name

    def unknown_classes(self, names: Iterable[str]) -> list[str]:
        """The custom classes among ``names`` that are not known to exist."""
        return self._unknown_of(names, self._classes)

    def missing_traits(self, api: PlacementAPI, names: Iterable[str]) -> frozenset[str]:
        """Ask Placement which of the traits it does not have."""
        asked = frozenset(names)
        return self._missing(asked, api.list_traits(names=sorted(asked)), self._traits)

    def missing_classes(self, api: PlacementAPI, names: Iterable[str]) -> frozenset[str]:
        """Ask Placement which of the resource classes it does not have."""
        asked = frozenset(names)
        return self._missing(asked, api.list_resource_classes(), self._classes)

    def forget_traits(self, names: Iterable[str]) -> None:
        """Have traits ensured again before they are used."""
        with self._lock:
            self._traits.difference_update(names)

    def leave_out(self, names: Iterable[str]) -> None:
        """Remember standard names that this Placement does not know."""
        with self._lock:
            self.unknown |= frozenset(names)

    def forget_unknown(self) -> None:
        """Have the names that were left out tried again."""
        with self._lock:
            self.unknown = frozenset()

    def clear(self) -> None:
        """Forget all names, known and unknown."""
        with self._lock:
            self._traits.clear()
            self._classes.clear()
            self.unknown = frozenset()

    def _unknown_of(self, names: Iterable[str], known: set[str]) -> list[str]:
        """The custom names that are not known to exist."""
        with self._lock:
            return sorted({name for name in names if name.startswith("CUSTOM_")} - known)

    def _missing(
        self, asked: frozenset[str], there: frozenset[str], known: set[str]
    ) -> frozenset[str]:
        missing = asked - there
        with self._lock:
            known |= there
            known -= missing
        return missing
