# SPDX-License-Identifier: Apache-2.0
"""What is peculiar to the fake, and to the real service in this process."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys
import uuid

import pytest
import requests
import requests_mock
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from reportclient.testing import EmbeddedPlacement, FakePlacement

pytest_plugins = ["pytester"]


# -- the fake --------------------------------------------------------------------------


def test_generations_are_not_guessed():
    """They begin anywhere, and go anywhere."""
    fake = FakePlacement()
    own = fake.add_provider("host1").uuid
    seen = [fake.providers[own].generation]
    for _ in range(50):
        fake.bump(own)
        seen.append(fake.providers[own].generation)
    steps = {after - before for before, after in itertools.pairwise(seen)}
    assert 0 not in seen
    assert not steps & {0, 1}
    assert min(steps) < 0 < max(steps)


def test_the_same_seed_gives_the_same_generations():
    def generations(seed):
        fake = FakePlacement(seed=seed)
        return [fake.add_provider(f"host{n}").generation for n in range(5)]

    assert generations(1) == generations(1)
    assert generations(1) != generations(2)


def test_what_the_fake_holds_can_be_seen_and_changed():
    fake = FakePlacement()
    own = fake.add_provider("host1", parent=fake.add_provider("rack").uuid).uuid
    fake.operator.set_inventory(own, {"VCPU": {"total": 8}})
    fake.operator.set_traits(own, {"CUSTOM_A"})
    there = fake.providers[own]
    assert (there.inventories["VCPU"]["total"], there.traits) == (8, {"CUSTOM_A"})
    there.aggregates.add(aggregate := str(uuid.uuid4()))
    assert fake.operator.provider(own)["aggregates"] == [aggregate]
    assert fake.operator.provider(own)["generation"] == there.generation


def test_last_modified_goes_by_the_clock_given():
    now = [1000.0]
    fake = FakePlacement(clock=lambda: now[0])
    own = fake.add_provider("host1").uuid
    fake.add_provider("host2")
    adapter = fake.adapter(default_microversion="1.39")

    def modified():
        return adapter.get("/resource_providers").headers["Last-Modified"]

    assert modified() == "Thu, 01 Jan 1970 00:16:40 GMT"
    now[0] = 2000.0
    assert modified() == "Thu, 01 Jan 1970 00:16:40 GMT"
    fake.bump(own)
    assert modified() == "Thu, 01 Jan 1970 00:33:20 GMT"


def test_a_refused_reshape_leaves_the_objects_that_a_test_holds():
    fake = FakePlacement()
    own = fake.add_provider("host1")
    fake.operator.set_inventory(own.uuid, {"VCPU": {"total": 8}})
    fake.operator.allocate(str(uuid.uuid4()), {own.uuid: {"VCPU": 1}})
    before = own.generation
    new = {"inventories": {"PCI_DEVICE": {"total": 1}}, "resource_provider_generation": before}
    body = {"inventories": {own.uuid: new}, "allocations": {}}
    assert fake.operator.try_call("POST", "/reshaper", body)[0] == 409
    assert fake.providers[own.uuid] is own
    assert (list(own.inventories), own.generation) == (["VCPU"], before)


def test_upgrading_keeps_the_data():
    fake = FakePlacement(max_microversion="1.18")
    fake.add_provider("host1")
    adapter = fake.adapter(default_microversion="1.39")
    assert adapter.get("/resource_providers", raise_exc=False).status_code == 406
    fake.upgrade("1.39")
    assert len(adapter.get("/resource_providers").json()["resource_providers"]) == 1


@pytest.mark.parametrize("url", [None, "http://elsewhere:8778/placement", "https://sub.example/"])
def test_with_requests_mock(url):
    fake = FakePlacement()
    with requests_mock.Mocker(case_sensitive=True) as mocker:
        endpoint = fake.install(mocker, url)
        session = ksa_session.Session(auth=token_endpoint.Token(endpoint, "admin"))
        adapter = ksa_adapter.Adapter(session, default_microversion="1.39")
        adapter.service_type = "placement"
        adapter.put("/traits/CUSTOM_A")
        fake.respond(("GET", "/traits"), status=503)
        assert adapter.get("/traits", raise_exc=False).status_code == 503
        # The case of a query's values is kept.
        assert adapter.get("/traits?name=in:CUSTOM_A").json() == {"traits": ["CUSTOM_A"]}
        with pytest.raises(requests_mock.NoMockAddress):
            requests.get(f"{endpoint}-not-ours/traits", timeout=1)
    assert fake.by_kind() == {"PUT /traits/{name}": 1, "GET /traits": 2}


# -- the real one ----------------------------------------------------------------------


def test_a_second_service_ends_the_first():
    with EmbeddedPlacement() as first:
        first.operator.create_provider("host1")
        with EmbeddedPlacement() as second:
            assert first.app is None
            assert second.operator.providers() == {}
            with pytest.raises(RuntimeError, match="not running"):
                first.operator.providers()
            with pytest.raises(RuntimeError, match="not running"):
                first.reset()
        # Ending what was ended already hurts nobody.
        first.stop()


def test_ending_the_first_leaves_the_second():
    first, second = EmbeddedPlacement().start(), EmbeddedPlacement().start()
    first.stop()
    assert second.operator.providers() == {}
    second.stop()


def test_starting_again_begins_with_nothing():
    service = EmbeddedPlacement()
    for _ in range(2):
        with service:
            assert service.operator.providers() == {}
            service.operator.create_provider("host1")
            assert len(service.adapter().get("/resource_providers").json()) == 1


def test_on_a_socket():
    with EmbeddedPlacement() as service:
        own = service.operator.create_provider("host1")
        with service.serve() as url:
            headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": "placement 1.39"}
            answer = requests.get(f"{url}/resource_providers/{own}", headers=headers, timeout=9)
            assert (answer.status_code, answer.reason) == (200, "OK")
            assert answer.json()["name"] == "host1"
            answer = requests.get(f"{url}/resource_providers", timeout=9)
            assert (answer.status_code, answer.reason) == (401, "Unauthorized")
        with pytest.raises(requests.ConnectionError):
            requests.get(url, timeout=9)
        assert service.requests == []


def test_the_global_configuration_is_not_touched():
    from oslo_config import cfg

    before = set(cfg.CONF)
    with EmbeddedPlacement() as service:
        service.operator.create_provider("host1")
    assert set(cfg.CONF) == before


IN_SILENCE = """
import logging, uuid, warnings
warnings.simplefilter("error")
from reportclient.testing import EmbeddedPlacement
filters = list(warnings.filters)
with EmbeddedPlacement() as service:
    operator = service.operator
    own = operator.create_provider("host1")
    operator.set_inventory(own, {"VCPU": {"total": 1}})
    body = {"allocations": {own: {"resources": {"VCPU": 5}}}, "project_id": "p", "user_id": "u"}
    # The service logs a warning about this one.
    assert operator.try_call("PUT", f"/allocations/{uuid.uuid4()}", body, "1.12")[0] == 409
    service.reset()
assert logging.getLogger().handlers == []
assert logging.getLogger("placement").handlers == []
assert warnings.filters == filters
"""


def test_nothing_is_printed_and_logging_stays_as_it_was():
    done = subprocess.run(
        [sys.executable, "-c", IN_SILENCE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_its_log_reaches_who_wants_it(caplog):
    with EmbeddedPlacement() as service:
        own = service.operator.create_provider("host1")
        service.operator.set_inventory(own, {"VCPU": {"total": 1}})
        with pytest.raises(AssertionError, match="409"):
            service.operator.allocate(str(uuid.uuid4()), {own: {"VCPU": 5}})
    assert ("placement.objects.allocation", logging.WARNING) in {
        (record.name, record.levelno) for record in caplog.records
    }


def test_without_the_service_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "placement", None)
    with pytest.raises(ImportError, match=r"reportclient\[embedded\]"):
        EmbeddedPlacement().start()


# -- the pytest plugin -----------------------------------------------------------------


def test_fixtures_for_other_projects(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_light():
            assert "placement" not in sys.modules
            assert "reportclient.testing.fake" not in sys.modules
            assert "reportclient.testing.embedded" not in sys.modules

        def test_fake(fake_placement):
            assert fake_placement.operator.providers() == {}

        def test_embedded(embedded_placement):
            assert embedded_placement.operator.providers() == {}
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=3)


def test_fixtures_are_explained(pytester):
    shown = pytester.runpytest_subprocess("--fixtures", "-p", "no:cacheprovider").stdout.str()
    assert "FakePlacement" in shown.partition("fake_placement")[2][:300]
    assert "real Placement service" in shown.partition("embedded_placement")[2][:300]


def test_importing_the_package_imports_no_placement():
    code = (
        "import sys, reportclient.testing as t; "
        "assert not {'placement', 'reportclient.testing.fake'} & set(sys.modules); "
        "t.FakePlacement, t.EmbeddedPlacement; "
        "assert not hasattr(t, 'NoSuchThing')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
