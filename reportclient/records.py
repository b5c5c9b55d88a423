# SPDX-License-Identifier: Apache-2.0
"""What is done with one provider's record, and lasting UUIDs for providers."""

from __future__ import annotations

import copy
import uuid as uuid_
from collections.abc import Mapping
from typing import Any

from reportclient import exceptions
from reportclient.types import Inventory, ProviderData, ProviderRecord
from reportclient.validation import normalise_uuid, same_number, uuid_or_text

__all__ = ["copied", "data_of", "inventory_changed", "own_uuid", "provider_uuid"]


def provider_uuid(namespace: str | uuid_.UUID, *parts: str) -> str:
    """A UUID that is the same whenever it is asked for the same parts.

    So children keep their UUIDs over restarts without anybody storing them:
    ``provider_uuid(host_uuid, "gpu", "0000:3b:00.0")``.

    :param namespace: a UUID, for instance that of the root provider.
    :param parts: texts that tell the provider from all others.
    :raises InvalidUUID: the namespace is not a UUID.
    """
    space = uuid_.UUID(normalise_uuid(namespace, field="namespace"))
    # The lengths keep ("a", "bc") and ("ab", "c") apart.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return str(uuid_.uuid5(space, text))


def data_of(record: ProviderRecord) -> ProviderData:
    """An independent copy of what a record says."""
    return ProviderData(
        record.uuid,
        record.name,
        record.generation,
        record.parent_uuid,
        {name: copied(fields) for name, fields in (record.inventory or {}).items()},
        set(record.traits or ()),
        set(record.aggregates or ()),
        copy.deepcopy(dict(record.resources or {})),
    )


def copied(fields: Any) -> Any:
    """A copy of an inventory record."""
    # What is no mapping of numbers is refused when it is flushed, with its name
    # and value; until then it is kept, and like the rest it is nobody else's.
    if not isinstance(fields, Mapping):
        return copy.deepcopy(fields)
    return {
        field: value if isinstance(value, int | float) else copy.deepcopy(value)
        for field, value in fields.items()
    }


def inventory_changed(old: Inventory, new: Inventory) -> bool:
    """Whether an inventory is another; a missing field is "no opinion".

    :raises InvalidInventory: the new one is no mapping.
    """
    if not isinstance(new, Mapping):
        raise exceptions.InvalidInventory(
            f"inventory {new!r} is not a mapping of resource classes.",
            field="inventory",
            value=new,
        )
    if old.keys() != new.keys():
        return True
    for name, fields in new.items():
        there = old[name]
        if fields is there:
            continue
        if not isinstance(fields, Mapping) or not isinstance(there, Mapping):
            if fields != there:
                return True
            continue
        for field, value in fields.items():
            if field not in there or not same_number(there[field], value):
                return True
    return False


def own_uuid(uuid: str | None) -> str:
    """The UUID given, in normal form; a random one for none."""
    return str(uuid_.uuid4()) if uuid is None else uuid_or_text(uuid)
