# SPDX-License-Identifier: Apache-2.0
"""Ask the fake and the real service the same, and compare all that they answer."""

from __future__ import annotations

import json
import re
import uuid

from reportclient.testing.embedded import EmbeddedPlacement
from reportclient.testing.fake import FakePlacement

GENERATIONS = {"generation", "resource_provider_generation", "consumer_generation"}
#: Text of which the rest is jsonschema's, a database's, or differs by right.
OPEN_ENDED = re.compile(
    r"(JSON does not validate:|Malformed JSON:|Update conflict:|invalid version string: \S+"
    r"|Invalid query string parameters:(?! Expected| The format)|No such trait\(s\):).*"
)
HEADERS = ("content-type", "cache-control", "openstack-api-version", "location")


def an_id(number):
    """A UUID that is the same in every process."""
    return str(uuid.UUID(int=number, version=4))


class Of:
    """In a body: the generation that a provider or consumer has right now.

    Each service has its own.
    """

    def __init__(self, kind, own):
        self.kind, self.own = kind, own

    def at(self, service):
        if self.kind == "provider":
            found = service.operator.try_call("GET", f"/resource_providers/{self.own}")[1]
            return found.get("generation", 1)
        return service.operator.call("GET", f"/allocations/{self.own}").get("consumer_generation")


class SideBySide:
    """The fake and the real service, asked at the same time."""

    def __init__(self, **settings):
        self.fake, self.real = FakePlacement(seed=3, **settings), EmbeddedPlacement(**settings)
        self.services = (self.fake, self.real)

    def __enter__(self):
        for service in self.services:
            service.start()
        return self

    def __exit__(self, *exc_info):
        for service in self.services:
            service.stop()

    def each(self, function):
        """Prepare both: call a function with each one's operator."""
        for service in self.services:
            function(service.operator)

    def __call__(self, method, path, body=None, version="1.39", *, raw=None, headers=None):
        """Ask both; fail if they differ; the status and the real one's body."""
        ours, theirs = (
            self._ask(service, method, path, body, version, raw, headers)
            for service in self.services
        )
        assert ours == theirs, f"{method} {path} {body} at {version}"
        return theirs["status"], theirs["body"]

    def _ask(self, service, method, path, body, version, raw, headers):
        sent = {"Accept": "application/json", "Content-Type": "application/json"}
        if version:
            sent["OpenStack-API-Version"] = f"placement {version}"
        sent |= headers or {}
        content = raw
        if content is None and body is not None:
            content = json.dumps(filled(service, body)).encode()
        answer = service.session().session.request(
            method,
            f"{service.url}{path}",
            data=content,
            # None: requests leaves the header out.
            headers={"X-Auth-Token": "admin", **sent},
        )
        # The fake has but one endpoint; the service makes its links absolute.
        shown = {name: answer.headers.get(name) for name in HEADERS}
        if shown["location"]:
            shown["location"] = re.sub("^http://[^/]+(/placement)?", "", shown["location"])
        shown["allow"] = sorted(answer.headers.get("allow", "").split(", "))
        shown["is dated"] = "last-modified" in answer.headers
        shown["has an id"] = answer.headers.get("x-openstack-request-id", "")[:4]
        try:
            told = normal(answer.json())
        except ValueError:
            told = answer.text
        return {"status": answer.status_code, "body": told, **shown}


def filled(service, body):
    """A body with the generations that this service has."""
    if isinstance(body, dict):
        return {key: filled(service, value) for key, value in body.items()}
    return body.at(service) if isinstance(body, Of) else body


def normal(answer, key=None):
    """An answer without what differs by right."""
    if isinstance(answer, dict):
        return {k: _normal_field(k, value) for k, value in answer.items()}
    if isinstance(answer, list):
        return sorted((normal(each) for each in answer), key=_in_order)
    return text(answer) if key == "detail" else answer


def _in_order(answer):
    return json.dumps(answer, sort_keys=True)


def _normal_field(key, value):
    if key in GENERATIONS and isinstance(value, int):
        return "a generation"
    return "an id" if key == "request_id" else normal(value, key)


def text(detail):
    """What an error says, as far as both have to say the same."""
    detail = " ".join(detail.split())
    detail = OPEN_ENDED.sub(r"\1", detail)
    detail = re.sub(r"expected \d+ but", "expected a generation but", detail)
    detail = re.sub(r"actual: \d+, given: \d+", "actual, given", detail)
    # Sets have no order.
    names = re.compile(r"[\w-]+(?:, [\w-]+)+")
    return names.sub(lambda found: ", ".join(sorted(found[0].split(", "))), detail)


# -- what both hold -------------------------------------------------------------------

PARENT, CHILD, OTHER = an_id(1), an_id(2), an_id(3)
AGGREGATE, SECOND = an_id(101), an_id(102)
CONSUMER = an_id(201)
INVENTORY = {
    "VCPU": {"total": 8},
    "CUSTOM_X": {"total": 5, "allocation_ratio": 2.0},
    "DISK_GB": {
        "total": 100, "reserved": 10, "min_unit": 5, "max_unit": 50, "step_size": 5,
    },
}  # fmt: skip


def prepare(operator):
    """A tree of two and a lone root, in use by one consumer."""
    operator.create_provider("parent", PARENT)
    operator.create_provider("child", CHILD, PARENT)
    operator.create_provider("other", OTHER)
    operator.set_inventory(PARENT, INVENTORY)
    operator.set_inventory(CHILD, {"VCPU": {"total": 8}})
    operator.bump(OTHER)
    operator.set_traits(PARENT, {"CUSTOM_A", "HW_CPU_X86_AVX"})
    operator.set_aggregates(PARENT, {AGGREGATE, SECOND})
    operator.set_aggregates(OTHER, {SECOND})
    operator.allocate(CONSUMER, {PARENT: {"VCPU": 2, "CUSTOM_X": 1}})
