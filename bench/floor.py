# SPDX-License-Identifier: Apache-2.0
"""The floor: just the necessary requests, through keystoneauth, and nothing else.

No cache, no comparing, no checks, no retries, no driver: what to send is known
beforehand, and of the answers only the generations are looked at. Requests
that do not depend on one another are sent side by side, in as many threads as
`ReportClient` has, and in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keystoneauth1 import session

from bench.reports import Fleet, Host
from bench.sides import WORKERS, MakeAdapter

ASPECTS = ("inventories", "traits", "aggregates")


class Floor:
    """An adapter and some threads."""

    def __init__(self, adapter: MakeAdapter, *, workers: int = WORKERS) -> None:
        self._adapter = adapter(raise_exc=False)
        # Else connections beyond the tenth would be thrown away.
        http = self._adapter.session.session
        http.mount(
            "http://", session.TCPKeepAliveAdapter(pool_connections=4, pool_maxsize=workers)
        )
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def all(self, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """The function for all items, side by side."""
        if len(items) == 1 or self._workers == 1:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def send(self, method: str, path: str, json: Any = None, *, refused: bool = False) -> Any:
        """One request; the JSON of its answer.

        :param refused: a conflict is the answer that is expected.
        """
        response = self._adapter.request(
            path,
            method,
            json=json,
            headers={"OpenStack-API-Version": "placement 1.26", "Accept": "application/json"},
        )
        if response.status_code != 409 if refused else response.status_code >= 400:
            raise RuntimeError(f"{method} {path}: {response.status_code} {response.text}")
        return response.json() if response.content else None

    def get(self, path: str) -> Any:
        """Read."""
        return self.send("GET", path)

    def create(self, uuid: str, name: str, parent: str | None = None) -> Any:
        """Make a provider; its generation."""
        body = {"uuid": uuid, "name": name}
        if parent:
            body["parent_provider_uuid"] = parent
        return self.send("POST", "/resource_providers", body)["generation"]

    def put(self, uuid: str, aspect: str, value: Any, generation: Any) -> Any:
        """Write an aspect; the generation after it."""
        body = {aspect: value, "resource_provider_generation": generation}
        return self.send("PUT", f"/resource_providers/{uuid}/{aspect}", body)[
            "resource_provider_generation"
        ]

    def aspects(self, uuids: Iterable[str]) -> list[Any]:
        """Read all aspects of providers."""
        paths = [f"/resource_providers/{uuid}/{aspect}" for uuid in uuids for aspect in ASPECTS]
        return self.all(self.get, paths)


class FloorHost(Floor):
    """The passes of `bench.host_life`."""

    def __init__(self, host: Host, adapter: MakeAdapter, **settings: Any) -> None:
        super().__init__(adapter, **settings)
        self._host = host
        self._generation: Any = None

    def first(self) -> None:
        """Look, make the providers level by level, the names, then write."""
        host = self._host
        self.get(f"/resource_providers?in_tree={host.root}")
        generation = {host.root: self.create(host.root, host.name)}
        made = self.all(
            lambda child: self.create(child.uuid, child.name, host.root), host.children
        )
        generation |= dict(zip((child.uuid for child in host.children), made, strict=True))
        # One after the other: of two made at once Placement loses one (on PostgreSQL).
        for name in sorted({child.resource_class for child in host.children}):
            self.send("PUT", f"/resource_classes/{name}")

        def write(uuid: str) -> None:
            at = self.put(uuid, "inventories", host.inventory(uuid), generation[uuid])
            if uuid == host.root:
                at = self.put(uuid, "aggregates", host.aggregates, at)
                self._generation = self.put(uuid, "traits", host.traits, at)

        self.all(write, list(generation))

    def refresh(self) -> None:
        """The tree and who shares with it."""
        self.all(
            self.get,
            [
                f"/resource_providers?in_tree={self._host.root}",
                f"/resource_providers?member_of=in:{','.join(self._host.aggregates)}"
                "&required=MISC_SHARES_VIA_AGGREGATE",
            ],
        )

    def nothing(self) -> None:
        """Nothing is to be sent."""

    def change(self, disk: int) -> None:
        """Write one inventory."""
        root = self._host.root
        inventory = self._host.inventory(root, disk)
        self._generation = self.put(root, "inventories", inventory, self._generation)

    def conflict(self, disk: int, meddle: Callable[[], None]) -> None:
        """Write, be refused, read, write."""
        meddle()
        root, inventory = self._host.root, self._host.inventory(self._host.root, disk)
        body = {"inventories": inventory, "resource_provider_generation": self._generation}
        path = f"/resource_providers/{root}/inventories"
        self.send("PUT", path, body, refused=True)
        self._generation = self.get(path)["resource_provider_generation"]
        self._generation = self.put(root, "inventories", inventory, self._generation)

    def restart(self, disk: int) -> None:
        """Read everything."""
        del disk
        found = self.get(f"/resource_providers?in_tree={self._host.root}")
        self.aspects(provider["uuid"] for provider in found["resource_providers"])
        self.get(
            f"/resource_providers?member_of=in:{','.join(self._host.aggregates)}"
            "&required=MISC_SHARES_VIA_AGGREGATE"
        )


class FloorFleet(Floor):
    """The passes of `bench.fleet_life`."""

    def __init__(self, fleet: Fleet, adapter: MakeAdapter, **settings: Any) -> None:
        super().__init__(adapter, **settings)
        self._fleet = fleet

    def first(self) -> None:
        """Look, make the names, then each node."""
        fleet = self._fleet
        self.get("/resource_providers")
        self.send("PUT", f"/resource_classes/{fleet.resource_class}")
        self.send("PUT", f"/traits/{fleet.trait}")

        def node(given: tuple[str, str]) -> None:
            uuid, name = given
            at = self.create(uuid, name)
            at = self.put(uuid, "inventories", fleet.inventory(), at)
            self.put(uuid, "traits", [fleet.trait], at)

        self.all(node, fleet.nodes)

    def refresh(self) -> None:
        """One listing."""
        self.get("/resource_providers")

    def nothing(self) -> None:
        """Nothing is to be sent."""

    def restart(self) -> None:
        """Read everything."""
        self.get("/resource_providers")
        self.aspects(uuid for uuid, _ in self._fleet.nodes)
