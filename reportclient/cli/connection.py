# SPDX-License-Identifier: Apache-2.0
"""From options, ``OS_*`` variables and clouds.yaml to a `ReportClient`."""

from __future__ import annotations

import argparse
import logging
import os
import warnings
from typing import Any

from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading, token_endpoint
from keystoneauth1 import session as ksa_session

from reportclient import exceptions
from reportclient.cli import options
from reportclient.client import ReportClient
from reportclient.retry import RetryPolicy

__all__ = ["client"]

_SERVICE = "placement"
_HINT = "give --os-cloud, OS_* variables, or --url with a token"


def client(given: argparse.Namespace) -> ReportClient:
    """A client for the Placement that the options point to. No request is sent.

    :raises ConfigurationError: they do not say enough, or not well.
    :raises ImportError: openstacksdk is needed and not installed.
    """
    adapter = _url_adapter(given) if given.url else _cloud_adapter(given)
    # A person is waiting: try once more, soon.
    retry = RetryPolicy(resend_attempts=1, retry_after_cap=10.0)
    return ReportClient(adapter, timeout=given.timeout, retry=retry)


def _url_adapter(given: argparse.Namespace) -> ksa_adapter.Adapter:
    token = given.token or os.environ.get("OS_TOKEN", "").strip()
    if not token:
        raise exceptions.ConfigurationError(
            f"{options.shown_url(given.url)} needs a token: --token, or OS_TOKEN."
        )
    session = ksa_session.Session(
        auth=token_endpoint.Token(given.url, options.checked_token(token)),
        verify=_verify(given, os.environ.get("OS_CACERT")),
    )
    return ksa_adapter.Adapter(session, service_type=_SERVICE)


def _cloud_adapter(given: argparse.Namespace) -> ksa_adapter.Adapter:
    if given.token:
        raise exceptions.ConfigurationError("--token is for --url; a cloud has its own.")
    from openstack import config as os_config
    from openstack import exceptions as os_exceptions

    what = f"cloud {given.os_cloud!r}" if given.os_cloud else "the OS_* variables or clouds.yaml"
    wanted: dict[str, Any] = {
        "cloud": given.os_cloud,
        "region_name": given.os_region_name,
        "interface": given.os_interface,
    }
    skipped = _SkippedFiles()
    try:
        with warnings.catch_warnings(), skipped:
            # Of what openstacksdk wants to drop one day, nothing concerns us.
            warnings.simplefilter("ignore")
            cloud = os_config.OpenStackConfig().get_one(
                **{key: value for key, value in wanted.items() if value is not None}
            )
        _check_password(cloud)
        session = cloud.get_session()
    except ksa.MissingRequiredOptions as error:
        missing = ", ".join(option.dest for option in error.options)
        raise exceptions.ConfigurationError(
            f"{what}: no {missing} to log in with; {_HINT}."
        ) from error
    except (os_exceptions.ConfigException, ksa.ClientException, OSError) as error:
        why = "; ".join([str(error).rstrip("."), *skipped.said])
        raise exceptions.ConfigurationError(
            f"{what} does not say how to reach Placement: {why}; {_HINT}."
        ) from error
    if given.os_cacert or given.insecure:
        session.verify = _verify(given, None)
    return ksa_adapter.Adapter(
        session,
        service_type=_SERVICE,
        service_name=cloud.get_service_name(_SERVICE),
        interface=cloud.get_interface(_SERVICE),
        region_name=cloud.get_region_name(_SERVICE),
        endpoint_override=cloud.get_endpoint(_SERVICE),
    )


class _SkippedFiles(logging.Handler):
    """Notes which files openstacksdk skips, which it only logs.

    The reason is left out: it may quote the file, and so a password.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._log = logging.getLogger("openstack.config")

    def emit(self, record: logging.LogRecord) -> None:
        """Note a file."""
        if str(record.msg).startswith("Skipping") and isinstance(record.args, tuple):
            self.said.append(f"{record.args[0]} was skipped, it is not YAML")

    def __enter__(self) -> None:
        self._log.addHandler(self)

    def __exit__(self, *_: object) -> None:
        self._log.removeHandler(self)


def _check_password(cloud: Any) -> None:
    """keystoneauth finds out only when it sends it, and not with its own exceptions."""
    if "password" in cloud.config.get("auth_type", "") and not cloud.get_auth_args().get(
        "password"
    ):
        raise ksa.MissingRequiredOptions([loading.Opt("password")])


def _verify(given: argparse.Namespace, default: str | None) -> str | bool:
    if given.insecure:
        return False
    certificates = given.os_cacert or default
    if not certificates:
        return True
    if not os.path.exists(certificates):
        # requests says so too late, in the middle of the first request.
        raise exceptions.ConfigurationError(f"There is no file {certificates!r} to trust.")
    return str(certificates)
