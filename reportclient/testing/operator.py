# SPDX-License-Identifier: Apache-2.0
"""Somebody else who writes to Placement: raw HTTP, outside hooks and records."""

from __future__ import annotations

import json as json_
import uuid as uuid_
from collections.abc import Iterable, Mapping
from typing import Any

from reportclient.testing.hooks import Service
from reportclient.testing.versions import as_version

__all__ = ["Operator"]

_HEADERS = {
    "X-Auth-Token": "admin",
    "Accept": "application/json",
    "Content-Type": "application/json",
}


class Operator:
    """Writes as an operator or a scheduler would, always with fresh generations.

    :param service: answers ``(method, path, headers, body)``.
    :param version: the newest microversion that the service has.
    """

    def __init__(
        self,
        service: Service,
        version: str = "1.39",
    ) -> None:
        self._service = service
        self._version = version

    def call(self, method: str, path: str, body: Any = None, version: str | None = None) -> Any:
        """Send a request; its JSON, or ``None`` if it has none.

        :raises AssertionError: the answer is not 2xx.
        """
        status, answer = self.try_call(method, path, body, version)
        if not 200 <= status < 300:
            raise AssertionError(f"{method} {path} was answered {status}: {answer}")
        return answer

    def try_call(
        self, method: str, path: str, body: Any = None, version: str | None = None
    ) -> tuple[int, Any]:
        """Send a request; its status and JSON, whatever they are."""
        headers = {
            **_HEADERS,
            "OpenStack-API-Version": f"placement {version or self._version}",
        }
        content = b"" if body is None else json_.dumps(body).encode()
        reply = self._service(method, path, headers, content)
        try:
            return reply.status, json_.loads(reply.body)
        except ValueError:
            return reply.status, None

    def provider(self, uuid: str) -> dict[str, Any] | None:
        """All that Placement holds of a provider; ``None`` if there is none."""
        status, found = self.try_call("GET", f"/resource_providers/{uuid}")
        if status == 404:
            return None
        path = f"/resource_providers/{uuid}"
        return {
            "uuid": found["uuid"],
            "name": found["name"],
            "generation": found["generation"],
            "parent": found.get("parent_provider_uuid"),
            "root": found.get("root_provider_uuid"),
            "inventory": self.call("GET", f"{path}/inventories")["inventories"],
            "traits": sorted(self.call("GET", f"{path}/traits")["traits"]),
            "aggregates": sorted(self.call("GET", f"{path}/aggregates")["aggregates"]),
        }

    def providers(self) -> dict[str, str]:
        """The UUIDs of all providers, by name."""
        listed = self.call("GET", "/resource_providers")["resource_providers"]
        return {found["name"]: found["uuid"] for found in listed}

    def create_provider(
        self, name: str, uuid: str | None = None, parent: str | None = None
    ) -> str:
        """Create a provider; its UUID."""
        uuid = uuid or str(uuid_.uuid4())
        body: dict[str, Any] = {"name": name, "uuid": uuid}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        self.call("POST", "/resource_providers", body)
        return uuid

    def rename_provider(self, uuid: str, name: str) -> None:
        """Give a provider another name."""
        self.call("PUT", f"/resource_providers/{uuid}", {"name": name})

    def delete_provider(self, uuid: str) -> None:
        """Delete a provider."""
        self.call("DELETE", f"/resource_providers/{uuid}")

    def set_inventory(self, uuid: str, inventory: Mapping[str, Mapping[str, Any]]) -> None:
        """Write a provider's whole inventory; makes custom classes."""
        for name in inventory:
            if name.startswith("CUSTOM_"):
                self.call("PUT", f"/resource_classes/{name}")
        self._put(uuid, "inventories", {"inventories": inventory})

    def set_traits(self, uuid: str, traits: Iterable[str]) -> None:
        """Write all traits of a provider; makes custom ones."""
        traits = sorted(traits)
        for name in traits:
            if name.startswith("CUSTOM_"):
                self.call("PUT", f"/traits/{name}")
        self._put(uuid, "traits", {"traits": traits})

    def add_trait(self, uuid: str, name: str) -> None:
        """Add one trait to a provider."""
        there = self.call("GET", f"/resource_providers/{uuid}/traits")["traits"]
        self.set_traits(uuid, {*there, name})

    def set_aggregates(self, uuid: str, aggregates: Iterable[str]) -> None:
        """Write all aggregates of a provider."""
        if as_version(self._version) < (1, 19):
            self.call("PUT", f"/resource_providers/{uuid}/aggregates", sorted(aggregates))
        else:
            self._put(uuid, "aggregates", {"aggregates": sorted(aggregates)})

    def bump(self, uuid: str) -> None:
        """Move a provider's generation and change nothing else."""
        there = self.call("GET", f"/resource_providers/{uuid}/inventories")["inventories"]
        self._put(uuid, "inventories", {"inventories": there})

    def allocate(
        self,
        consumer: str,
        resources: Mapping[str, Mapping[str, int]],
        *,
        project_id: str = "project",
        user_id: str = "user",
    ) -> None:
        """Make these all the resources that a consumer holds; none: nothing.

        :param resources: provider UUID -> resource class -> amount.
        """
        there = self.call("GET", f"/allocations/{consumer}")
        body = {
            "allocations": {uuid: {"resources": dict(held)} for uuid, held in resources.items()},
            "project_id": project_id,
            "user_id": user_id,
            "consumer_generation": there.get("consumer_generation"),
        }
        if as_version(self._version) >= (1, 38):
            body["consumer_type"] = "INSTANCE"
        self.call("PUT", f"/allocations/{consumer}", body)

    def _put(self, uuid: str, aspect: str, body: Mapping[str, Any]) -> None:
        path = f"/resource_providers/{uuid}"
        generation = self.call("GET", path)["generation"]
        self.call("PUT", f"{path}/{aspect}", {**body, "resource_provider_generation": generation})
