# SPDX-License-Identifier: Apache-2.0
"""Laws that a tree obeys whatever is done to it, in any order.

A plain dict of providers is the model: slow, and too simple to be wrong.
"""

from __future__ import annotations

import copy
import json
import pickle
import uuid

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from reportclient.provider_tree import ProviderTree, TreeSnapshot, provider_uuid
from reportclient.types import ProviderRecord

UUIDS = [str(uuid.UUID(int=0xA0 + n)) for n in range(8)]
NAMES = [f"p{n}" for n in range(8)]
CLASSES = ["VCPU", "MEMORY_MB", "CUSTOM_A"]
TRAITS = ["HW_CPU_X86_AVX", "CUSTOM_A", "CUSTOM_B"]
AGGREGATES = [str(uuid.UUID(int=0xB0 + n)) for n in range(3)]

uuids = st.sampled_from(UUIDS)
names = st.sampled_from(NAMES)
who = uuids | names
# Tokens of any kind: a generation is never counted with.
generations = st.none() | st.sampled_from([0, 7, "a", "b"])
records = st.fixed_dictionaries(
    {"total": st.integers(1, 3)},
    optional={"reserved": st.integers(0, 1), "allocation_ratio": st.sampled_from([1.0, 1.5])},
)
inventories = st.dictionaries(st.sampled_from(CLASSES), records)
traits = st.lists(st.sampled_from(TRAITS))
aggregates = st.lists(st.sampled_from(AGGREGATES))

#: A slow machine is no fault.
patiently = settings(deadline=None)


class Model:
    """Providers as a dict: uuid -> name, parent, generation and aspects."""

    def __init__(self) -> None:
        self.providers: dict[str, dict] = {}

    def find(self, name_or_uuid: str) -> str | None:
        if name_or_uuid in self.providers:
            return name_or_uuid
        for own, provider in self.providers.items():
            if provider["name"] == name_or_uuid:
                return own
        return None

    def below(self, top: str | None) -> set[str]:
        """A provider and all below it."""
        found = {top}
        while True:
            more = {own for own, provider in self.providers.items() if provider["parent"] in found}
            if more <= found:
                return found
            found |= more

    def add(self, own, name, parent, generation) -> None:
        self.providers[own] = {
            "name": name,
            "parent": parent,
            "generation": generation,
            "inventory": {},
            "traits": set(),
            "aggregates": set(),
        }

    def remove(self, own) -> None:
        for gone in self.below(own):
            del self.providers[gone]


def seen(tree: ProviderTree) -> dict[str, dict]:
    """A tree as the model has it."""
    providers = {}
    for own in tree.get_provider_uuids():
        data = tree.data(own)
        providers[own] = {
            "name": data.name,
            "parent": data.parent_uuid,
            "generation": data.generation,
            "inventory": data.inventory,
            "traits": data.traits,
            "aggregates": data.aggregates,
        }
    return providers


def refused(call, *arguments) -> bool:
    try:
        call(*arguments)
    except ValueError:
        return True
    return False


def inventory_changed(old: dict, new: dict) -> bool:
    return old.keys() != new.keys() or any(
        old[name].get(field) != value
        for name, record in new.items()
        for field, value in record.items()
    )


class TreeMachine(RuleBasedStateMachine):
    """Any calls, on a tree and on the model; copies on the way."""

    @initialize(handed_out=st.booleans())
    def start(self, handed_out):
        self.model = Model()
        self.tree = ProviderTree()
        if handed_out:
            snapshot = self.tree.snapshot()
            self.tree = ProviderTree.from_snapshot(snapshot, base=snapshot)
        self.base = self.tree.base
        # What was put aside, and what it has to stay.
        self.kept: list[tuple[ProviderTree | TreeSnapshot, dict]] = []

    # -- providers

    @rule(own=uuids, name=names, generation=generations)
    def new_root(self, own, name, generation):
        taken = self.model.find(own) or self.model.find(name)
        assert refused(self.tree.new_root, name, own, generation) == bool(taken)
        if not taken:
            self.model.add(own, name, None, generation)

    @rule(own=uuids, name=names, parent=who, generation=generations)
    def new_child(self, own, name, parent, generation):
        above = self.model.find(parent)
        bad = above is None or self.model.find(own) or self.model.find(name)
        assert refused(self.tree.new_child, name, parent, own, generation) == bool(bad)
        if not bad:
            self.model.add(own, name, above, generation)

    @rule(which=who)
    def remove(self, which):
        own = self.model.find(which)
        assert refused(self.tree.remove, which) == (own is None)
        if own is not None:
            self.model.remove(own)

    @rule(which=who, name=names)
    def rename(self, which, name):
        own = self.model.find(which)
        bad = own is None or self.model.find(name) not in (None, own)
        assert refused(self.tree.rename, which, name) == bad
        if not bad:
            self.model.providers[own]["name"] = name

    @rule(which=who, parent=st.none() | who)
    def move(self, which, parent):
        own = self.model.find(which)
        above = None if parent is None else self.model.find(parent)
        bad = own is None or (parent is not None and above is None)
        bad = bad or (above is not None and above in self.model.below(own))
        assert refused(self.tree.move, which, parent) == bad
        if not bad:
            self.model.providers[own]["parent"] = above

    @rule(
        given=st.lists(st.tuples(uuids, names, st.none() | uuids, generations), max_size=5),
    )
    def populate(self, given):
        coming = {own: (own, name, parent, generation) for own, name, parent, generation in given}
        wanted = Model()
        wanted.providers = dict(self.model.providers)
        for own in coming:
            if own in wanted.providers:
                wanted.remove(own)
        for new in coming.values():
            wanted.add(*new)
        # What comes has to make a tree of what stays: no name twice, and all
        # of it below roots.
        held = [provider["name"] for provider in wanted.providers.values()]
        bad = len(set(held)) < len(held) or wanted.below(None) != {None, *wanted.providers}
        dicts = (
            {"uuid": own, "name": name, "parent_provider_uuid": parent, "generation": generation}
            for own, name, parent, generation in given
        )
        assert refused(self.tree.populate_from_iterable, dicts) == bad
        if not bad:
            self.model = wanted

    # -- aspects

    @rule(which=who, new=inventories, generation=generations)
    def update_inventory(self, which, new, generation):
        def update(provider):
            changed = inventory_changed(provider["inventory"], new)
            if changed:
                provider["inventory"] = copy.deepcopy(new)
            return changed

        self._update("inventory", which, new, new, generation, update)

    @rule(which=who, new=traits, generation=generations)
    def update_traits(self, which, new, generation):
        self._update_set("traits", which, new, generation)

    @rule(which=who, new=aggregates, generation=generations)
    def update_aggregates(self, which, new, generation):
        self._update_set("aggregates", which, new, generation)

    def _update_set(self, aspect, which, new, generation):
        def update(provider):
            changed = provider[aspect] != set(new)
            provider[aspect] = set(new)
            return changed

        self._update(aspect, which, (member for member in new), new, generation, update)

    def _update(self, aspect, which, given, again, generation, update):
        own = self.model.find(which)
        call = getattr(self.tree, f"update_{aspect}")
        if own is None:
            assert refused(call, which, given, generation)
            return
        provider = dict(self.model.providers[own])
        changed = update(provider)
        if generation is not None:
            provider["generation"] = generation
        self.model.providers[own] = provider
        assert call(which, given, generation) == changed
        # A second time it is no change, and leaves the very same tree.
        before = self.tree.snapshot()
        assert call(which, again, generation) is False
        assert self.tree.snapshot() is before

    @rule(which=who, members=traits, verb=st.sampled_from(["add", "remove"]))
    def change_traits(self, which, members, verb):
        # As in nova, nothing is looked up when there is nothing to do.
        self._change("traits", which, members, verb, looks=bool(members))

    @rule(which=who, members=aggregates, verb=st.sampled_from(["add", "remove"]))
    def change_aggregates(self, which, members, verb):
        self._change("aggregates", which, members, verb, looks=True)

    def _change(self, aspect, which, members, verb, looks):
        own = self.model.find(which)
        call = getattr(self.tree, f"{verb}_{aspect}")
        assert refused(call, which, *members) == (looks and own is None)
        if own is not None:
            provider = dict(self.model.providers[own])
            old = provider[aspect]
            provider[aspect] = old | set(members) if verb == "add" else old - set(members)
            self.model.providers[own] = provider

    # -- copies

    @precondition(lambda self: len(self.kept) < 4)
    @rule(how=st.sampled_from(["copy", "deepcopy", "pickle", "snapshot"]))
    def put_aside(self, how):
        aside = {
            "copy": lambda tree: tree.copy(),
            "deepcopy": copy.deepcopy,
            "pickle": lambda tree: pickle.loads(pickle.dumps(tree)),
            "snapshot": lambda tree: tree.snapshot(),
        }[how](self.tree)
        self.kept.append((aside, copy.deepcopy(self.model.providers)))

    @precondition(lambda self: any(isinstance(aside, ProviderTree) for aside, _ in self.kept))
    @rule(data=st.data())
    def go_on_with_a_copy(self, data):
        """The tree becomes the one aside, and the other way round."""
        trees = [n for n, (aside, _) in enumerate(self.kept) if isinstance(aside, ProviderTree)]
        chosen = data.draw(st.sampled_from(trees))
        aside, providers = self.kept[chosen]
        self.kept[chosen] = (self.tree, copy.deepcopy(self.model.providers))
        self.tree, self.model.providers = aside, providers

    # -- what always holds

    @invariant()
    def the_tree_is_what_the_model_is(self):
        assert seen(self.tree) == self.model.providers

    @invariant()
    def what_was_put_aside_has_not_changed(self):
        for aside, providers in self.kept:
            if isinstance(aside, TreeSnapshot):
                aside = ProviderTree.from_snapshot(aside)
            assert seen(aside) == providers

    @invariant()
    def the_base_has_not_changed(self):
        assert self.tree.base == self.base

    @invariant()
    def every_index_agrees(self):
        snapshot = self.tree.snapshot()
        order = snapshot.top_down()
        assert sorted(order) == sorted(snapshot.records)
        assert snapshot.by_name == {record.name: own for own, record in snapshot.records.items()}
        for own, record in snapshot.records.items():
            assert record.uuid == own
            siblings = (
                snapshot.roots
                if record.parent_uuid is None
                else snapshot.children(record.parent_uuid)
            )
            assert siblings.count(own) == 1
            if record.parent_uuid is not None:
                assert order.index(record.parent_uuid) < order.index(own)
            assert self.tree.data(record.name).uuid == own
            root = self.tree.get_provider_uuids_in_tree(own)[0]
            assert root in snapshot.roots
            assert self.tree.get_provider_uuids(own) == snapshot.top_down(own)


TestAnyCallsInAnyOrder = TreeMachine.TestCase
TestAnyCallsInAnyOrder.settings = settings(deadline=None, max_examples=60, stateful_step_count=30)


# -- whole trees ---------------------------------------------------------------------


@st.composite
def trees(draw) -> ProviderTree:
    """A tree with all its aspects, said or not said."""
    given: list[ProviderRecord] = []
    for n in range(draw(st.integers(0, 6))):
        parent = draw(st.none() | st.sampled_from(given)) if given else None
        given.append(
            ProviderRecord(
                UUIDS[n],
                NAMES[n],
                None if parent is None else parent.uuid,
                draw(generations),
                draw(st.none() | inventories),
                draw(st.none() | traits.map(frozenset)),
                draw(st.none() | aggregates.map(frozenset)),
                sharing=parent is None and draw(st.booleans()),
            )
        )
    return ProviderTree.from_snapshot(TreeSnapshot.build(given))


@patiently
@given(trees())
def test_plain_data_gives_the_same_tree_back(tree):
    plain = json.loads(json.dumps(tree.to_dict()))
    again = ProviderTree.from_dict(plain)
    assert again.snapshot() == tree.snapshot()
    assert again.get_provider_uuids() == tree.get_provider_uuids()


@patiently
@given(trees(), st.randoms(use_true_random=False))
def test_records_and_plain_data_may_come_in_any_order(tree, random):
    records = list(tree.snapshot().records.values())
    random.shuffle(records)
    assert TreeSnapshot.build(records) == tree.snapshot()
    plain = tree.to_dict()
    random.shuffle(plain["providers"])
    assert ProviderTree.from_dict(plain).snapshot() == tree.snapshot()


@patiently
@given(trees())
def test_subtrees_are_the_parts_of_a_tree(tree):
    tree.rebase(tree.snapshot())
    found = []
    for root in tree.roots:
        part = tree.subtree(root.uuid)
        assert part.base is part.snapshot()
        assert [own.uuid for own in part.roots] == [root.uuid]
        for own, record in part.snapshot().records.items():
            assert record is tree.snapshot().records[own]
        found += part.get_provider_uuids()
    assert found == tree.get_provider_uuids()


@patiently
@given(trees())
def test_every_provider_is_on_one_line_of_the_text(tree):
    lines = tree.render().splitlines()
    found = [[line for line in lines if f"({own})" in line] for own in tree.get_provider_uuids()]
    assert all(len(of_one) == 1 for of_one in found)
    # In the order in which they are listed.
    assert [lines.index(of_one[0]) for of_one in found] == sorted(
        lines.index(of_one[0]) for of_one in found
    )


@patiently
@given(trees())
def test_every_provider_s_own_values_are_no_change(tree):
    before = tree.snapshot()
    for own in tree.get_provider_uuids():
        data = tree.data(own)
        assert not tree.has_inventory_changed(own, data.inventory)
        assert not tree.have_traits_changed(own, data.traits)
        assert not tree.have_aggregates_changed(own, data.aggregates)
        assert tree.has_traits(own, data.traits)
        assert tree.in_aggregates(own, data.aggregates)
        assert tree.has_inventory(own) == bool(data.inventory)
    assert tree.snapshot() is before


texts = st.lists(st.text(max_size=4), max_size=4)


@patiently
@given(texts, texts)
def test_other_parts_make_another_uuid(some, others):
    same = provider_uuid(UUIDS[0], *some) == provider_uuid(UUIDS[0], *others)
    assert same == (some == others)
