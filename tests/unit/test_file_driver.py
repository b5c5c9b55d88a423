# SPDX-License-Identifier: Apache-2.0
"""The driver for desired trees in files."""

from __future__ import annotations

import json
import os

import pytest

from reportclient import ProviderTree, exceptions
from reportclient.drivers import Driver, FileDriver

ROOT = "f5d5b3c2-9a3e-4b9e-8c6a-0d3b8f1f6a11"
CHILD = "00000000-0000-4000-8000-00000000000a"
GOOD = f"""
name: $NODENAME
inventories:
  VCPU: {{total: 8, allocation_ratio: 4.0}}
traits: [CUSTOM_RACK_7]
children:
  - name: $NODENAME_gpu0
    inventories: {{VGPU: {{total: 4}}}}
    children:
      - {{name: $NODENAME_slice, traits: [CUSTOM_SLICE]}}
  - name: fixed
    uuid: {CHILD.upper()}
"""


@pytest.fixture
def tree():
    tree = ProviderTree()
    tree.new_root("host1", ROOT)
    return tree


@pytest.fixture
def write(tmp_path):
    path = tmp_path / "tree.yaml"

    def write(text, at=[1000]):  # noqa: B006 - every write is later than the last
        path.write_text(text)
        at[0] += 1
        os.utime(path, (at[0], at[0]))
        return path

    return write


def names(tree):
    return sorted(tree.data(uuid).name for uuid in tree.get_provider_uuids())


def update(path, tree, **options):
    FileDriver(path, **options).update_provider_tree(tree, "host1")


def test_a_whole_tree(write, tree):
    path = write(GOOD)
    assert isinstance(FileDriver(path), Driver)
    update(path, tree)
    assert names(tree) == ["fixed", "host1", "host1_gpu0", "host1_slice"]
    assert tree.data("host1").inventory == {"VCPU": {"total": 8, "allocation_ratio": 4.0}}
    assert tree.data("fixed").uuid == CHILD
    assert tree.data("host1_slice").parent_uuid == tree.data("host1_gpu0").uuid
    assert tree.has_traits("host1_slice", ["CUSTOM_SLICE", "CUSTOM_OWNER_FILE"])
    before = tree.snapshot()
    update(path, tree)
    assert tree.snapshot() == before


def test_json_is_yaml_too(tmp_path, tree):
    path = tmp_path / "tree.json"
    path.write_text(json.dumps({"name": "host1", "traits": ["CUSTOM_A"]}))
    update(path, tree)
    assert tree.data("host1").traits == {"CUSTOM_A"}


def test_what_is_not_mentioned_is_left_alone(write, tree):
    tree.update_inventory("host1", {"VCPU": {"total": 3}})
    tree.update_aggregates("host1", {CHILD})
    tree.new_child("foreign", ROOT)
    update(write("name: $NODENAME\ntraits: []\n"), tree)
    assert tree.data("host1").inventory == {"VCPU": {"total": 3}}
    assert tree.data("host1").aggregates == {CHILD}
    assert tree.exists("foreign")


def test_only_what_it_made_is_removed(write, tree):
    update(write(GOOD), tree)
    tree.new_child("foreign", "host1_gpu0")
    path = write("name: $NODENAME\n")
    update(path, tree)
    assert names(tree) == ["foreign", "host1", "host1_gpu0"], "a parent of foreign ones stays"
    update(path, tree, prune=True)
    assert names(tree) == ["host1"]


def test_two_owners_do_not_touch_each_other(write, tmp_path, tree):
    update(write(GOOD), tree)
    other = tmp_path / "other.yaml"
    other.write_text("name: $NODENAME\nchildren: [{name: theirs}]\n")
    update(other, tree, owner="NOVA")
    assert tree.has_traits("theirs", ["OWNER_NOVA"])
    assert "host1_gpu0" in names(tree)
    other.write_text("name: $NODENAME\n")
    update(other, tree, owner="NOVA")
    assert "theirs" not in names(tree)
    assert "host1_gpu0" in names(tree)


def test_a_file_that_changes_is_read_again_and_faults_change_nothing(write, tree):
    path = write("name: $NODENAME\ntraits: [CUSTOM_A]\n")
    driver = FileDriver(path)
    driver.update_provider_tree(tree, "host1")
    write("name: $NODENAME\ntraits: [CUSTOM_B]\n")
    driver.update_provider_tree(tree, "host1")
    assert tree.data("host1").traits == {"CUSTOM_B"}
    before = tree.snapshot()
    write("name: $NODENAME\ntraits: [CUSTOM_C, bad]\n")
    with pytest.raises(exceptions.InvalidProviderTree, match="bad"):
        driver.update_provider_tree(tree, "host1")
    assert tree.snapshot() is before
    write("name: $NODENAME\ntraits: [CUSTOM_C]\n")
    driver.update_provider_tree(tree, "host1")
    assert tree.data("host1").traits == {"CUSTOM_C"}


def test_every_fault_at_once(write, tree):
    path = write(
        """
name: $NODENAME
inventories: {VCPU: {total: -1, colour: red}, bad: {total: 1}}
traits: [custom]
children:
  - {name: a, uuid: nonsense}
  - {name: a}
"""
    )
    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        update(path, tree)
    text = str(caught.value)
    assert len(caught.value.errors) >= 6
    for word in (str(path), "total -1", "colour", "bad", "custom", "children[0].uuid", "twice"):
        assert word in text
    assert names(tree) == ["host1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", ["line 1"]),
        ("name: a\nname: b\n", ["line 2", "twice"]),
        ("\tname: a\n", ["line 1"]),
        ("", ["not of type 'object'"]),
        ("traits: []\n", ["'name' is a required property"]),
        ("name: a\ncolour: red\n", ["colour"]),
        ("name: a\nchildren: [{name: 7}]\n", ["children[0].name"]),
        ("name: somebody\n", ["somebody", "host1"]),
        ("name: $NODENAM_1\n", ["$NODENAM_", "$NODENAME"]),
        (f"name: $NODENAME\nuuid: {CHILD}\n", [CHILD, ROOT]),
    ],
)
def test_files_that_are_wrong(write, tree, text, words):
    path = write(text)
    with pytest.raises(exceptions.InvalidProviderTree) as caught:
        update(path, tree)
    for word in [*words, str(path)]:
        assert word in str(caught.value)


def test_a_file_that_is_not_there(tmp_path, tree):
    with pytest.raises(exceptions.InvalidProviderTree, match="cannot be read"):
        update(tmp_path / "missing.yaml", tree)


def test_a_byte_order_mark_is_no_fault(tmp_path, tree):
    path = tmp_path / "tree.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: $NODENAME\n")
    update(path, tree)


@pytest.mark.parametrize("owner", ["", "file", "A-B", "A" * 201])
def test_owners_that_cannot_be_a_trait(owner):
    with pytest.raises(exceptions.InvalidTrait):
        FileDriver("x", owner=owner)


def test_sharing_providers_are_never_pruned(write, tree):
    tree.new_root("pool", CHILD)
    update(write("name: $NODENAME\n"), tree, prune=True)
    assert names(tree) == ["host1", "pool"]
