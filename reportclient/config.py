# SPDX-License-Identifier: Apache-2.0
"""oslo.config options, and from them an adapter and a `ReportClient`.

For services that have oslo.config files already. The group holds keystoneauth's
own options (authentication, TLS, interface, region ...) and those of the
client::

    [placement]
    auth_type = password
    auth_url = https://cloud.example/identity
    ...
    refresh_interval = 300
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from oslo_config import cfg

from reportclient import exceptions
from reportclient.client import ReportClient
from reportclient.retry import RetryPolicy
from reportclient.types import Scope

__all__ = ["DEFAULT_GROUP", "list_opts", "load_adapter", "load_client", "register_opts"]

DEFAULT_GROUP = "placement"

#: Options of the client that have the names of its keyword arguments.
_CLIENT_OPTIONS = (
    "refresh_interval",
    "deep_refresh_every",
    "max_workers",
    "cache_file",
    "strict",
    "consumer_type",
)
#: Likewise those of `RetryPolicy`, with a prefix of their own.
_RETRY_OPTIONS = ("attempts", "deadline", "resend_attempts")


def register_opts(conf: cfg.ConfigOpts, group: str = DEFAULT_GROUP) -> None:
    """Register all options in a group. May be called more than once."""
    conf.register_opts(_client_opts(), group)
    loading.register_session_conf_options(conf, group)
    loading.register_adapter_conf_options(conf, group)
    loading.register_auth_conf_options(conf, group)
    conf.set_default("service_type", "placement", group)
    # As nova has it: agents are inside.
    conf.set_default("valid_interfaces", ["internal", "public"], group)


def load_adapter(conf: cfg.ConfigOpts, group: str = DEFAULT_GROUP) -> ksa_adapter.Adapter:
    """A keystoneauth adapter as the options say. No request is sent.

    :param conf: with the options registered, and parsed.
    :raises ConfigurationError: a value is wrong or missing; names the group
        and, where there is one, the option.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
        if auth is None:
            raise exceptions.ConfigurationError(
                f"[{group}] auth_type is not set: there is nothing to log in with. "
                "For a Placement that wants no token it is 'none'."
            )
        _check_files(conf, group)
        session = loading.load_session_from_conf_options(conf, group, auth=auth)
        return loading.load_adapter_from_conf_options(conf, group, session=session, auth=auth)
    except exceptions.ConfigurationError:
        raise
    except (
        ksa.ClientException,
        ValueError,
        TypeError,
        cfg.Error,
        cfg.ConfigFileValueError,
    ) as error:
        raise exceptions.ConfigurationError(f"[{group}] {_said(error)}") from error


def load_client(conf: cfg.ConfigOpts, group: str = DEFAULT_GROUP, **settings: Any) -> ReportClient:
    """A client as the options say. No request is sent.

    :param settings: keyword arguments for `ReportClient` that go before what
        the options say.
    :raises ConfigurationError: as `load_adapter`.
    """
    adapter = load_adapter(conf, group)
    said = {name: _value(conf, group, name) for name in _CLIENT_OPTIONS}
    retry = {name: _value(conf, group, f"retry_{name}") for name in _RETRY_OPTIONS}
    # keystoneauth's own option, which has no bounds and no default.
    timeout = _value(conf, group, "timeout")
    if timeout is not None:
        if timeout <= 0:
            raise exceptions.ConfigurationError(f"[{group}] timeout is {timeout}, not above 0.")
        said["timeout"] = timeout
    scope = Scope(
        frozenset(_value(conf, group, "scope_member_of")),
        frozenset(_value(conf, group, "scope_required")),
    )
    try:
        return ReportClient(
            adapter, **{**said, "retry": RetryPolicy(**retry), "scope": scope, **settings}
        )
    except exceptions.InvalidInput as error:
        raise exceptions.ConfigurationError(f"[{group}] {error}") from error


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """The options by group, for ``oslo-config-generator``."""
    options = [
        *_client_opts(),
        *loading.get_session_conf_options(),
        *loading.get_adapter_conf_options(),
        *loading.get_auth_common_conf_options(),
        *loading.get_auth_plugin_conf_options("password"),
    ]
    unique = {option.dest: option for option in options}
    return [(DEFAULT_GROUP, sorted(unique.values(), key=lambda option: str(option.dest)))]


def _client_opts() -> list[cfg.Opt]:
    return [
        cfg.FloatOpt(
            "refresh_interval",
            default=300.0,
            min=0,
            help="Seconds until a provider tree is listed again (up to a tenth earlier, at "
            "random). 0: a tree is read once, and then only on request.",
        ),
        cfg.IntOpt(
            "deep_refresh_every",
            default=10,
            min=0,
            help="Every so many refreshes everything is read afresh, whatever the generations "
            "say. 0: never.",
        ),
        cfg.StrOpt(
            "cache_file",
            help="Keep what was read in this file, so that a restart costs one listing a tree.",
        ),
        cfg.IntOpt(
            "max_workers",
            default=8,
            min=1,
            help="How many requests run at once. 1: no threads at all.",
        ),
        cfg.ListOpt(
            "scope_member_of",
            default=[],
            help="Aggregates, by UUID. When many trees are due, list the providers in any of "
            "these, in place of all that the cloud has.",
        ),
        cfg.ListOpt(
            "scope_required",
            default=[],
            help="Traits. Likewise: list the providers that have all of these.",
        ),
        cfg.StrOpt(
            "consumer_type",
            help="What new consumers are, where Placement wants to know (1.38): INSTANCE, say.",
        ),
        cfg.BoolOpt(
            "strict",
            default=False,
            help="A standard trait or resource class that this Placement does not know is an "
            "error. By default it is left out, with a warning.",
        ),
        cfg.IntOpt(
            "retry_attempts",
            default=RetryPolicy.attempts,
            min=1,
            help="How often a write is tried against other writers.",
        ),
        cfg.FloatOpt(
            "retry_deadline",
            default=RetryPolicy.deadline,
            min=0,
            help="Seconds that trying a write again may take.",
        ),
        cfg.IntOpt(
            "retry_resend_attempts",
            default=RetryPolicy.resend_attempts,
            min=0,
            help="How often a request is sent again after it got no usable answer.",
        ),
    ]


def _value(conf: cfg.ConfigOpts, group: str, name: str) -> Any:
    try:
        value = conf[group][name]
    except (cfg.Error, cfg.ConfigFileValueError) as error:
        raise exceptions.ConfigurationError(f"[{group}] {_said(error)}") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise exceptions.ConfigurationError(f"[{group}] {name} is {value}, which is no number.")
    return value


def _check_files(conf: cfg.ConfigOpts, group: str) -> None:
    """The HTTP library would miss them in the middle of the first request."""
    for name in ("cafile", "certfile", "keyfile"):
        path = _value(conf, group, name)
        if path and not os.path.exists(path):
            raise exceptions.ConfigurationError(f"[{group}] {name}: there is no file {path!r}.")


def _said(error: Exception) -> str:
    if isinstance(error, ksa.MissingRequiredOptions):
        return ", ".join(option.dest for option in error.options) + " is not set"
    # Where the value stands, without oslo.config's own notation.
    return re.sub(r"LocationInfo\(.*?detail='([^']*)'\)", r"\1", str(error))
