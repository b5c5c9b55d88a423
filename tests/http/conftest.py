# SPDX-License-Identifier: Apache-2.0
"""A transport over a real keystoneauth1 session, and answers that are made up."""

from __future__ import annotations

import random

import pytest
import requests_mock
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint

from reportclient.api import PlacementAPI
from reportclient.retry import RetryPolicy
from reportclient.transport import Transport

URL = "http://placement.test/placement"
#: A token as Keystone makes them: nowhere may it be seen.
TOKEN = "gAAAAABsecretsecretsecret"


@pytest.fixture
def url():
    return URL


@pytest.fixture
def token():
    return TOKEN


@pytest.fixture
def mock():
    with requests_mock.Mocker(case_sensitive=True) as mocker:
        yield mocker


@pytest.fixture
def make_transport(clock):
    """Build transports; an endpoint or an adapter, and the policy's fields."""
    made = []

    def make(endpoint=URL, *, adapter=None, timeout=5, max_workers=8, **policy):
        if adapter is None:
            session = ksa_session.Session(auth=token_endpoint.Token(endpoint, TOKEN))
            adapter = ksa_adapter.Adapter(session, service_type="placement")
        made.append(
            Transport(
                adapter,
                timeout=timeout,
                max_workers=max_workers,
                retry=RetryPolicy(**policy),
                clock=clock,
                sleep=clock.sleep,
                random=random.Random(3).random,
            )
        )
        return made[-1]

    yield make
    for transport in made:
        transport.close()


@pytest.fixture
def transport(make_transport):
    """One that sends nothing again."""
    return make_transport(resend_attempts=0)


@pytest.fixture
def api(transport):
    return PlacementAPI(transport)


@pytest.fixture
def get(transport):
    """GET at any microversion."""

    def get(path="/x", **settings):
        return transport.request("GET", path, **{"want": (1, 0), "need": (1, 0), **settings})

    return get
