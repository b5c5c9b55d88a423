# SPDX-License-Identifier: Apache-2.0
"""The same random clouds and queries on both: the same allocation candidates.

Where the service is known to err (``test_candidates`` shows how), what it
finds is compared as far as it goes.
"""

from __future__ import annotations

import random

import pytest
from side_by_side import SideBySide, an_id, normal

QUERIES = 100
SHARES = "MISC_SHARES_VIA_AGGREGATE"
CLASSES = ["VCPU", "DISK_GB", "SRIOV_NET_VF", "CUSTOM_X"]
TRAITS = ["CUSTOM_A", "CUSTOM_B", "CUSTOM_C"]
AGGREGATES = [an_id(n + 100) for n in range(3)]
VERSIONS = [(1, 39)] * 6 + [(1, minor) for minor in range(10, 39)]
SUFFIXES = ["1", "2", "3"]


def some(rng, choices, most):
    return rng.sample(choices, rng.randrange(min(most, len(choices)) + 1))


class Cloud:
    """Trees, sharing providers and consumers, by chance.

    :ivar has_nested_sharing: the service may stumble, and answer 500.
    :ivar shared: the classes that a sharing provider has.
    """

    def __init__(self, rng):
        self.rng = rng
        self.providers = [an_id(n + 1) for n in range(rng.randrange(4, 9))]
        self.parents, self.sharing = {}, set()
        for n, own in enumerate(self.providers):
            roll = rng.random()
            self.parents[own] = rng.choice(self.providers[:n]) if n and roll < 0.5 else None
            if rng.random() < 0.25:
                self.sharing.add(own)
        self.inventories = {own: self._inventory(own) for own in self.providers}
        self.traits = {
            own: {*some(rng, TRAITS, 2), *([SHARES] if own in self.sharing else [])}
            for own in self.providers
        }
        self.aggregates = {own: set(some(rng, AGGREGATES, 2)) for own in self.providers}
        self.has_nested_sharing = any(self.parents[own] for own in self.sharing)
        self.shared = {name for own in self.sharing for name in self.inventories[own]}

    def _inventory(self, own):
        rng = self.rng
        return {
            name: {
                "total": rng.randrange(4, 13),
                "reserved": rng.randrange(3),
                "min_unit": rng.choice([1, 1, 1, 2]),
                "max_unit": rng.choice([3, 6, 100]),
                "step_size": rng.choice([1, 1, 1, 2]),
                "allocation_ratio": rng.choice([1.0, 1.0, 1.5, 4.0]),
            }
            for name in some(rng, CLASSES, 3)
        }

    def build(self, operator):
        for n, own in enumerate(self.providers):
            operator.create_provider(f"p{n}", own, self.parents[own])
            operator.set_inventory(own, self.inventories[own])
            operator.set_traits(own, self.traits[own])
            operator.set_aggregates(own, self.aggregates[own])
        for name in TRAITS:
            operator.call("PUT", f"/traits/{name}")
        operator.call("PUT", "/resource_classes/CUSTOM_X")

    def use(self, both):
        """Consumers hold this and that, where there is room."""
        for n, own in enumerate(self.providers):
            held = {name: {"resources": {name: 2}} for name in self.inventories[own]}
            for name in some(self.rng, sorted(held), 2):
                body = {
                    "allocations": {own: held[name]},
                    "project_id": "p", "user_id": "u",
                    "consumer_generation": None, "consumer_type": "INSTANCE",
                }  # fmt: skip
                both("PUT", f"/allocations/{an_id(1000 + 10 * n + CLASSES.index(name))}", body)


class Query:
    """A query by chance, mostly one that its microversion knows."""

    def __init__(self, rng, cloud):
        self.rng, self.cloud = rng, cloud
        self.version = rng.choice(VERSIONS)
        self.parameters = []
        self.classes = {}
        suffixes = some(rng, SUFFIXES, 3) if self.knows(25) else []
        if not suffixes or rng.random() < 0.6:
            suffixes = ["", *suffixes]
        self.groups, without = len(suffixes), ""
        if self.knows(36) and len(suffixes) > 1 and rng.random() < 0.3:
            without = suffixes[-1]
        for suffix in suffixes:
            self._group(suffix, resources=suffix == "" or suffix != without)
        self._whole([suffix for suffix in suffixes if suffix], without)
        rng.shuffle(self.parameters)

    def knows(self, minor):
        return self.version >= (1, minor)

    def maybe(self, chance, minor):
        """Whether to add something; now and then what is not known yet."""
        roll = self.rng.random()
        return roll < (chance if self.knows(minor) else 0.01)

    def add(self, name, value):
        self.parameters.append(f"{name}={value}")

    def _group(self, suffix, resources):
        rng = self.rng
        if resources:
            names = rng.sample(CLASSES, rng.choice([1, 1, 2, 3]))
            self.classes[suffix] = set(names)
            amounts = [f"{name}:{rng.choice([1, 1, 2, 2, 3, 4])}" for name in names]
            self.add(f"resources{suffix}", ",".join(amounts))
        else:
            self.add(f"required{suffix}", rng.choice(TRAITS))
        if self.maybe(0.3, 17):
            self._traits(f"required{suffix}")
            if self.maybe(0.3, 39):
                self._traits(f"required{suffix}")
        if self.maybe(0.25, 21):
            self._aggregates(f"member_of{suffix}")
            if self.maybe(0.3, 24):
                self._aggregates(f"member_of{suffix}")
        if self.maybe(0.15, 31):
            self.add(f"in_tree{suffix}", rng.choice([*self.cloud.providers, an_id(99)]))

    def _traits(self, name):
        rng = self.rng
        if self.maybe(0.4, 39):
            self.add(name, f"in:{','.join(rng.sample(TRAITS, 2))}")
            return
        chosen = rng.sample([*TRAITS, SHARES, *(["CUSTOM_NO"] * (rng.random() < 0.05))], 1)
        chosen += some(rng, TRAITS, 1)
        self.add(name, ",".join("!" * self.maybe(0.4, 22) + each for each in chosen))

    def _aggregates(self, name):
        chosen = self.rng.sample(AGGREGATES, self.rng.choice([1, 2]))
        value = f"in:{','.join(chosen)}" if len(chosen) > 1 else chosen[0]
        self.add(name, "!" * self.maybe(0.4, 32) + value)

    def _whole(self, suffixes, without):
        rng = self.rng
        if len(suffixes) > 1 or self.twice:
            self.add("group_policy", "none" if self.twice else rng.choice(["none", "isolate"]))
        if self.maybe(0.15, 35):
            self.add("root_required", "!" * (rng.random() < 0.6) + rng.choice(TRAITS))
        if without or (suffixes and self.maybe(0.3, 36)):
            together = {*some(rng, suffixes, 3), without or suffixes[0]}
            self.add("same_subtree", ",".join(sorted(together)))

    @property
    def twice(self):
        """Whether the group without a suffix has a class in common with another."""
        bare = self.classes.get("", set())
        return any(suffix and bare & names for suffix, names in self.classes.items())

    @property
    def loses(self):
        """Whether the service may lose anchors.

        All that the group without a suffix asks for can come from sharing providers.
        """
        return self.groups > 1 and self.classes.get("", {"-"}) <= self.cloud.shared

    @property
    def path(self):
        return f"/allocation_candidates?{'&'.join(self.parameters)}"


def compare(both, query):
    """Ask both; the status, and how many candidates there are."""
    version = "{}.{}".format(*query.version)
    ask = f"{query.path} at {version}"
    (status, ours), (real_status, theirs) = (
        service.operator.try_call("GET", query.path, version=version) for service in both.services
    )
    if real_status == 500:
        assert query.cloud.has_nested_sharing, ask
        return status, 0
    assert status == real_status, ask
    if status != 200:
        both("GET", query.path, version=version)
        return status, 0
    ours, theirs = normal(ours), normal(theirs)
    if not query.loses:
        assert ours == theirs, ask
    for each in theirs["allocation_requests"]:
        assert each in ours["allocation_requests"], ask
    for own, summary in theirs["provider_summaries"].items():
        assert ours["provider_summaries"][own] == summary, ask
    return status, len(theirs["allocation_requests"])


@pytest.mark.parametrize("seed", range(3))
def test_the_same_candidates_in_random_clouds(seed):
    rng = random.Random(seed)
    statuses, counts = set(), set()
    with SideBySide() as both:
        cloud = Cloud(rng)
        both.each(cloud.build)
        cloud.use(both)
        for _ in range(QUERIES):
            status, count = compare(both, Query(rng, cloud))
            statuses.add(status)
            counts.add(count)
    assert statuses == {200, 400}
    assert {0, 1, 2} <= counts
