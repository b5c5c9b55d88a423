# SPDX-License-Identifier: Apache-2.0
"""oslo.config options: a client from a file, and values that are wrong (B105, B116)."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from reportclient import ReportClient, RetryPolicy, config, exceptions
from reportclient.testing.fake import FakePlacement

LOGIN = {
    "auth_type": "password",
    "auth_url": "http://127.0.0.1:1/v3",
    "username": "agent",
    "password": "do-not-print-me",
    "user_domain_id": "default",
    "project_name": "service",
    "project_domain_id": "default",
}


@pytest.fixture
def conf(tmp_path):
    """Options as they stand in a file: ``conf(refresh_interval=10)``."""

    def make(group="placement", login=LOGIN, **options):
        lines = "\n".join(f"{key} = {value}" for key, value in {**login, **options}.items())
        path = tmp_path / "agent.conf"
        path.write_text(f"[{group}]\n{lines}\n")
        made = cfg.ConfigOpts()
        config.register_opts(made, group)
        # Two parts of a service may both register them.
        config.register_opts(made, group)
        made([], default_config_files=[str(path)], default_config_dirs=[])
        return made

    return make


def test_adapter_of_a_file(conf):
    adapter = config.load_adapter(conf(region_name="here"))
    assert adapter.service_type == "placement"
    assert adapter.region_name == "here"
    assert adapter.interface == ["internal", "public"]
    assert adapter.session.verify is True


def test_adapter_of_another_group_and_interface(conf):
    adapter = config.load_adapter(
        conf("report", valid_interfaces="public", endpoint_override="http://p"), "report"
    )
    assert adapter.interface == ["public"]
    assert adapter.endpoint_override == "http://p"


def test_b105_tls_options_are_heeded(conf, tmp_path):
    bundle = tmp_path / "ca.pem"
    bundle.write_text("")
    adapter = config.load_adapter(conf(cafile=bundle, certfile=bundle, keyfile=bundle))
    assert adapter.session.verify == str(bundle)
    assert adapter.session.cert == (str(bundle), str(bundle))
    assert config.load_adapter(conf(insecure=True)).session.verify is False


@pytest.fixture
def settings(monkeypatch):
    """What `ReportClient` is built with."""
    seen = {}

    def build(adapter, **given):
        seen.update(given, adapter=adapter)
        return "client"

    monkeypatch.setattr(config, "ReportClient", build)
    return seen


def test_defaults_are_the_clients_own(conf, settings):
    assert config.load_client(conf()) == "client"
    assert settings["refresh_interval"] == 300
    assert settings["deep_refresh_every"] == 10
    assert settings["max_workers"] == 8
    assert settings["cache_file"] is None
    assert settings["strict"] is False
    assert settings["retry"] == RetryPolicy()
    assert "timeout" not in settings
    assert settings["adapter"].service_type == "placement"


def test_options_reach_the_client(conf, settings):
    config.load_client(
        conf(
            refresh_interval=0,
            deep_refresh_every=0,
            max_workers=1,
            cache_file="/var/lib/agent/cache.json",
            strict=True,
            timeout=7,
            retry_attempts=3,
            retry_deadline=9.5,
            retry_resend_attempts=0,
        )
    )
    assert settings["refresh_interval"] == 0
    assert settings["deep_refresh_every"] == 0
    assert settings["max_workers"] == 1
    assert settings["cache_file"] == "/var/lib/agent/cache.json"
    assert settings["strict"] is True
    assert settings["timeout"] == 7
    assert settings["retry"] == RetryPolicy(attempts=3, deadline=9.5, resend_attempts=0)


def test_what_the_caller_says_goes_first(conf, settings):
    config.load_client(conf(strict=True), strict=False, timeout=1)
    assert settings["strict"] is False
    assert settings["timeout"] == 1


def test_a_client_that_works(conf):
    placement = FakePlacement()
    login = {"auth_type": "admin_token", "endpoint": placement.url, "token": "admin"}
    made = conf(login=login)
    adapter = config.load_adapter(made)
    adapter.session.session.mount("http://", placement.session().session.get_adapter("http://"))
    with ReportClient(adapter) as client:
        tree = client.get_provider_tree_and_ensure_root(
            None, "6d1ad3b5-9d3c-4c32-8b0f-0d8a6f0c1c55", name="host"
        )
    assert tree.exists("host")
    assert placement.by_kind()["POST /resource_providers"] == 1


def test_b101_building_sends_nothing(conf):
    # Nothing listens on port 1: a request would fail.
    with config.load_client(conf()) as client:
        assert isinstance(client, ReportClient)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"refresh_interval": -1}, "refresh_interval"),
        ({"refresh_interval": "soon"}, "refresh_interval"),
        ({"refresh_interval": "nan"}, "refresh_interval"),
        ({"refresh_interval": "inf"}, "refresh_interval"),
        ({"deep_refresh_every": -1}, "deep_refresh_every"),
        ({"deep_refresh_every": 1.5}, "deep_refresh_every"),
        ({"max_workers": 0}, "max_workers"),
        ({"strict": "perhaps"}, "strict"),
        ({"retry_attempts": 0}, "retry_attempts"),
        ({"retry_deadline": -1}, "retry_deadline"),
        ({"retry_resend_attempts": -1}, "retry_resend_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "abc"}, "timeout"),
        ({"cafile": "/no/such/file"}, "cafile"),
        ({"valid_interfaces": "sideways"}, "valid_interfaces"),
        ({"auth_type": "nonsense"}, "nonsense"),
        ({"version": 2, "min_version": 1}, "min_version"),
    ],
)
def test_wrong_value_is_named(conf, options, words):
    with pytest.raises(exceptions.ConfigurationError) as caught:
        config.load_client(conf(**options))
    assert str(caught.value).startswith("[placement] ")
    assert words in str(caught.value)
    assert "LocationInfo" not in str(caught.value)
    assert "do-not-print-me" not in str(caught.value)
    assert not caught.value.retryable


def test_b116_nothing_to_log_in_with_is_said_at_once(conf):
    with pytest.raises(exceptions.ConfigurationError, match=r"\[placement\] auth_type is not set"):
        config.load_client(conf(login={}))
    with pytest.raises(exceptions.ConfigurationError, match="auth_url is not set"):
        config.load_client(conf(login={"auth_type": "password"}))


def test_a_placement_without_login(conf):
    adapter = config.load_adapter(conf(login={"auth_type": "none", "endpoint": "http://p"}))
    assert adapter.get_endpoint() == "http://p"


def test_options_for_the_generator():
    [(group, options)] = config.list_opts()
    assert group == "placement"
    names = [option.dest for option in options]
    assert len(names) == len(set(names))
    registered = cfg.ConfigOpts()
    config.register_opts(registered)
    own = ("refresh_interval", "deep_refresh_every", "max_workers", "strict", "retry_attempts")
    assert {*own, "auth_url", "password", "cafile", "region_name"} <= set(names)
    assert all(option.help for option in options if option.dest in own)
    # The generator and the service speak of the same options.
    assert {name.replace("-", "_") for name in registered["placement"]} <= set(names)
