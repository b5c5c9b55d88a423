# SPDX-License-Identifier: Apache-2.0
"""Reading a desired tree from YAML or JSON, with every fault at once."""

from __future__ import annotations

import dataclasses
import re
import uuid as uuid_
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reportclient import exceptions, validation

__all__ = ["NODENAME", "DesiredProvider", "load"]

#: Stands for the name of the node in names of providers.
NODENAME = "$NODENAME"

#: What looks as if it were to be filled in, and is not.
_UNKNOWN = re.compile(r"\$(?!NODENAME)[A-Z_]{3,}")

_PROVIDER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name"],
    "properties": {
        "name": {"type": "string"},
        "uuid": {"type": "string"},
        "inventories": {"type": "object", "additionalProperties": {"type": "object"}},
        "traits": {"type": "array", "items": {"type": "string"}},
        "aggregates": {"type": "array", "items": {"type": "string"}},
        "children": {"type": "array", "items": {"$ref": "#/$defs/provider"}},
    },
}
_SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"provider": _PROVIDER},
    "$ref": "#/$defs/provider",
}


@dataclasses.dataclass(frozen=True)
class DesiredProvider:
    """A provider as a file wants it.

    :ivar inventory: ``None``, like the next two, where the file says nothing.
    """

    name: str
    uuid: str | None = None
    inventory: Mapping[str, Mapping[str, int | float]] | None = None
    traits: frozenset[str] | None = None
    aggregates: frozenset[str] | None = None
    children: tuple[DesiredProvider, ...] = ()

    def walk(self) -> Iterator[DesiredProvider]:
        """This provider and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def load(path: str | Path) -> DesiredProvider:
    """Read the desired tree in a file.

    The file holds one provider: ``name`` (``$NODENAME`` in it stands for the
    node's name) and, as far as there is an opinion, ``uuid``,
    ``inventories``, ``traits``, ``aggregates`` and ``children``, which are
    providers again.

    :raises InvalidProviderTree: it cannot be read, or is not like that;
        ``errors`` has every fault, each with the file and the place in it.
    :raises ImportError: PyYAML or jsonschema is not installed.
    """
    document = _parse(Path(path))
    faults = _Faults(str(path))
    _check_schema(document, faults)
    faults.raise_any()
    desired = _provider(document, "", faults)
    _check_unique(desired, faults)
    faults.raise_any()
    return desired


class _Faults:
    def __init__(self, path: str) -> None:
        self._path = path
        self._errors: list[exceptions.InvalidInput] = []

    def add(self, where: str, what: str, **facts: Any) -> None:
        text = f"{self._path}: {where or 'the document'}: {what}"
        self._errors.append(exceptions.InvalidProviderTree(text, **facts))

    def adopt(self, where: str, error: exceptions.InvalidInput) -> None:
        """Note the faults of a value, with the place where it stands."""
        for one in getattr(error, "errors", None) or (error,):
            self.add(
                where,
                str(one),
                provider=one.provider,
                resource_class=one.resource_class,
                field=one.field,
                value=one.value,
            )

    def raise_any(self) -> None:
        if self._errors:
            raise exceptions.InvalidProviderTree(
                "; ".join(map(str, self._errors)), errors=self._errors
            )


def _parse(path: Path) -> Any:
    faults = _Faults(str(path))
    try:
        import yaml
    except ImportError as error:
        raise ImportError("Reading a tree needs PyYAML: install reportclient[cli]") from error

    class Loader(yaml.SafeLoader):
        """Refuses what YAML would silently drop: a key given twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if key in seen:
                    line = key_node.start_mark.line + 1
                    faults.add(f"line {line}", f"the key {key!r} is there twice", field=str(key))
                seen.add(key)
            return super().construct_mapping(node, deep)

    try:
        # A byte order mark is no fault of the author's.
        text = path.read_text(encoding="utf-8-sig")
        document = yaml.load(text, Loader)  # noqa: S506 - a SafeLoader
    except OSError as error:
        raise exceptions.InvalidProviderTree(
            f"{path} cannot be read: {error.strerror}", field="path", value=str(path)
        ) from error
    except (yaml.YAMLError, UnicodeDecodeError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        faults.add(where, str(getattr(error, "problem", None) or error))
    faults.raise_any()
    return document


def _check_schema(document: Any, faults: _Faults) -> None:
    try:
        import jsonschema
    except ImportError as error:
        raise ImportError("Checking a tree needs jsonschema: install reportclient[cli]") from error
    for fault in sorted(
        jsonschema.Draft202012Validator(_SCHEMA).iter_errors(document),
        key=lambda e: [str(part) for part in e.absolute_path],
    ):
        where = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in fault.absolute_path
        ).lstrip(".")
        faults.add(where, fault.message, field=where, value=fault.instance)


def _provider(given: Mapping[str, Any], where: str, faults: _Faults) -> DesiredProvider:
    def checked(key: str, check: Any) -> Any:
        if key not in given:
            return None
        try:
            return check(given[key], provider=given["name"])
        except exceptions.InvalidInput as error:
            faults.adopt(f"{where}{key}", error)
            return None

    checked("name", validation.check_name)
    if wrong := _UNKNOWN.search(given["name"]):
        what = f"{wrong[0]} is not known; {NODENAME} is the only word of this kind"
        faults.add(f"{where}name", what, field="name", value=given["name"])
    return DesiredProvider(
        given["name"],
        checked("uuid", validation.normalise_uuid),
        checked("inventories", validation.normalise_inventory),
        checked("traits", validation.normalise_traits),
        checked("aggregates", validation.normalise_aggregates),
        tuple(
            _provider(child, f"{where}children[{n}].", faults)
            for n, child in enumerate(given.get("children", ()))
        ),
    )


def _check_unique(desired: DesiredProvider, faults: _Faults) -> None:
    for field in ("name", "uuid"):
        seen: set[str | uuid_.UUID] = set()
        for provider in desired.walk():
            value = getattr(provider, field)
            if value is not None and value in seen:
                faults.add(
                    provider.name,
                    f"the {field} {value!r} is there twice",
                    field=field,
                    value=value,
                )
            seen.add(value)
