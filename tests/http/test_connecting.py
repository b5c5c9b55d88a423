# SPDX-License-Identifier: Apache-2.0
"""The way to Placement on real sockets: names, certificates, discovery, the catalog."""

from __future__ import annotations

import contextlib
import datetime
import functools
import http.server
import ipaddress
import json
import socket
import ssl
import threading
import uuid

import pytest
import requests
import urllib3
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import session as ksa_session
from keystoneauth1 import token_endpoint
from keystoneauth1.identity import generic
from oslo_config import cfg

from reportclient import ReportClient, RetryPolicy, config, exceptions

HOST = "127.0.0.1"
SECRET = "do-not-print-me"
ROOT = "4281512a-c1b8-4afe-b6c1-c25567f02c0a"
#: A call sends a request again so often, and no more.
RESENDS = RetryPolicy().resend_attempts


# -- certificates ------------------------------------------------------------------------


class Authority:
    """Signs certificates for tests, and writes them to files."""

    def __init__(self, directory):
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Authority of the tests")
        made = _builder(self._name, self._key, days=(-30, 30)).issuer_name(self._name)
        for extension, critical in [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (_usage(key_cert_sign=True, crl_sign=True), True),
        ]:
            made = made.add_extension(extension, critical)
        self.cafile = self._write(made.sign(self._key, hashes.SHA256()))

    def certificate(self, *names, days=(-1, 1), self_signed=False):
        """A file with a certificate for some names and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("A server of the tests")
        issuer, signer = (name, key) if self_signed else (self._name, self._key)
        made = _builder(name, key, days=days).issuer_name(issuer)
        for extension, critical in [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
            (x509.SubjectAlternativeName(list(map(_alternative, names))), False),
        ]:
            made = made.add_extension(extension, critical)
        return self._write(made.sign(signer, hashes.SHA256()), key)

    def _write(self, certificate, key=None):
        content = certificate.public_bytes(serialization.Encoding.PEM)
        if key is not None:
            content += key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        path = self._directory / f"{uuid.uuid4()}.pem"
        path.write_bytes(content)
        return str(path)


def _name(text):
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _alternative(name):
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(**given):
    names = (
        "digital_signature content_commitment key_encipherment data_encipherment "
        "key_agreement key_cert_sign crl_sign encipher_only decipher_only"
    )
    return x509.KeyUsage(**{name: given.get(name, False) for name in names.split()})


def _builder(name, key, *, days):
    now = datetime.datetime.now(datetime.UTC)
    first, last = (now + datetime.timedelta(days=number) for number in days)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


# -- servers -------------------------------------------------------------------------------


class Web(http.server.ThreadingHTTPServer):
    """A web server that has its port from the start, and refuses until it is opened.

    :param answer: ``(method, path) -> (status, headers, body)``.
    :param certificate: speak TLS with this one; it may be exchanged at any time.
    :param cafile: want certificates of clients, signed by this authority.
    :ivar asked: the requests that came through.
    """

    daemon_threads = False

    def __init__(self, answer, *, certificate=None, cafile=None):
        self.answer = answer
        self.certificate = certificate
        self.cafile = cafile
        self.asked = []
        self.handshakes = 0
        self._thread = None
        super().__init__((HOST, 0), _Handler, bind_and_activate=False)
        self.server_bind()
        self.url = f"{'https' if certificate else 'http'}://{HOST}:{self.server_port}"

    def open(self):
        """Accept connections from now on."""
        if self._thread is None:
            self.server_activate()
            self._thread = threading.Thread(target=self.serve_forever, args=(0.02,))
            self._thread.start()
        return self

    def close(self):
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
        self.server_close()

    def finish_request(self, request, client_address):
        if self.certificate is None:
            super().finish_request(request, client_address)
            return
        self.handshakes += 1
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate)
        if self.cafile is not None:
            context.load_verify_locations(self.cafile)
            context.verify_mode = ssl.CERT_REQUIRED
        with (
            contextlib.suppress(OSError),
            context.wrap_socket(request, server_side=True) as secure,
        ):
            super().finish_request(secure, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    def _answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        self.server.asked.append(f"{self.command} {path}")
        status, headers, body = self.server.answer(self.command, path)
        content = json.dumps(body).encode()
        self.send_response(status)
        headers = {"Content-Type": "application/json", "Content-Length": len(content), **headers}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = _answer  # noqa: N815

    def log_message(self, *_):
        """Say nothing."""


class Keystone(Web):
    """Lets everybody in, with the catalog as it is then.

    :ivar endpoint: where the catalog says that Placement is; ``None``: nowhere.
    """

    def __init__(self, endpoint, **settings):
        self.endpoint = endpoint
        super().__init__(self._identity, **settings)

    @property
    def tokens(self):
        """How many it has given."""
        return self.asked.count("POST /v3/auth/tokens")

    def _identity(self, method, path):
        if method == "GET":
            link = {"rel": "self", "href": f"{self.url}/v3/"}
            version = {"id": "v3.14", "status": "stable", "links": [link]}
            return (
                (200, {}, {"version": version})
                if path.strip("/")
                else (300, {}, {"versions": {"values": [version]}})
            )
        listed = {"id": "e", "interface": "public", "region_id": "r", "region": "r"}
        service = {"type": "placement", "name": "placement", "id": "s"}
        endpoints = [] if self.endpoint is None else [{**listed, "url": self.endpoint}]
        token = {
            "methods": ["password"],
            "user": {"id": "u", "name": "agent", "domain": {"id": "default"}},
            "project": {"id": "p", "name": "service", "domain": {"id": "default"}},
            "issued_at": "2026-01-01T00:00:00.000000Z",
            "expires_at": "2999-01-01T00:00:00.000000Z",
            "catalog": [{**service, "endpoints": endpoints}] if endpoints else [],
        }
        return 201, {"X-Subject-Token": SECRET}, {"token": token}


def placement(method, path):
    """A Placement that has nothing, and takes traits."""
    del method
    if not path.strip("/"):
        version = {"id": "v1.0", "min_version": "1.0", "max_version": "1.39", "status": "CURRENT"}
        return 200, {}, {"versions": [{**version, "links": [{"rel": "self", "href": ""}]}]}
    return 200, {}, {"resource_providers": []} if "providers" in path else {"traits": []}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch):
    """Nothing of the machine that the tests run on."""
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def web():
    """Build servers: ``web(Keystone, ...)``; closed until ``open`` is called."""
    with contextlib.ExitStack() as stack:

        def make(kind, *arguments, **settings):
            server = kind(*arguments, **settings)
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def make_client(clock):
    """Build clients of an adapter; ``sleep`` is called in place of waiting."""
    with contextlib.ExitStack() as stack:

        def make(adapter, sleep=clock.sleep, **settings):
            settings = {"max_workers": 1, "clock": clock, "sleep": sleep, **settings}
            client = ReportClient(adapter, **settings)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def make_adapter():
    """Build adapters for an endpoint, or through an identity service."""
    made = []

    def make(url=None, *, keystone=None, path="/v3", verify=True, cert=None, **settings):
        auth = token_endpoint.Token(url, SECRET)
        if keystone is not None:
            auth = generic.Password(
                auth_url=keystone.url + path,
                username="agent",
                password=SECRET,
                user_domain_id="default",
                project_name="service",
                project_domain_id="default",
            )
        made.append(ksa_session.Session(auth=auth, verify=verify, cert=cert))
        return ksa_adapter.Adapter(
            made[-1], service_type="placement", interface="public", **settings
        )

    yield make
    for session in made:
        session.session.close()


def read(client):
    return client.get_providers_in_tree(None, ROOT)


def write(client):
    client.ensure_traits(None, ["CUSTOM_A"])
    return []


def read_much(client):
    """The query is longer than what is shown of a failure."""
    client.ensure_traits(None, [f"CUSTOM_{number}_{'X' * 100}" for number in range(20)])
    return []


CALLS = [read, write, read_much]


# -- TLS -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("settings", "trusted", "reason"),
    [
        ({"self_signed": True}, True, "self-signed certificate"),
        ({"names": ["other.test"]}, True, "IP address mismatch"),
        ({"days": (-20, -10)}, True, "certificate has expired"),
        ({"days": (10, 20)}, True, "certificate is not yet valid"),
        ({}, False, "unable to get local issuer certificate"),
    ],
    ids=["self-signed", "other-host", "expired", "early", "unknown-authority"],
)
def test_b105_a_certificate_that_is_not_trusted(
    authority, web, make_adapter, make_client, clock, call, settings, trusted, reason
):
    names = settings.get("names", [HOST])
    settings = {name: value for name, value in settings.items() if name != "names"}
    server = web(Web, placement, certificate=authority.certificate(*names, **settings)).open()
    client = make_client(make_adapter(server.url, verify=authority.cafile if trusted else True))
    with pytest.raises(exceptions.TLSFailed) as caught:
        call(client)
    assert server.url in str(caught.value)
    assert reason in str(caught.value)
    assert not caught.value.outcome_unknown
    # It may be exchanged, so it is tried again, but not for ever; and a token
    # is not shown.
    assert server.handshakes == 1 + RESENDS == 1 + len(clock.slept)
    assert server.asked == []
    assert SECRET not in str(caught.value)


def test_b105_a_certificate_that_is_exchanged_needs_no_restart(
    authority, web, make_adapter, make_client
):
    expired = authority.certificate(HOST, days=(-20, -10))
    server = web(Web, placement, certificate=expired).open()
    client = make_client(make_adapter(server.url, verify=authority.cafile))
    with pytest.raises(exceptions.TLSFailed):
        read(client)
    server.certificate = authority.certificate(HOST)
    assert read(client) == []


@pytest.fixture
def configured(tmp_path, clock):
    """Build clients of a file with options, as a service would."""
    with contextlib.ExitStack() as stack:

        def make(keystone, **options):
            login = {
                "auth_type": "password",
                "auth_url": f"{keystone.url}/v3",
                "username": "agent",
                "password": SECRET,
                "project_name": "service",
                "user_domain_id": "default",
                "project_domain_id": "default",
            }
            lines = [f"{name} = {value}" for name, value in {**login, **options}.items()]
            (tmp_path / "agent.conf").write_text("\n".join(["[placement]", *lines]))
            conf = cfg.ConfigOpts()
            config.register_opts(conf)
            conf([], default_config_files=[str(tmp_path / "agent.conf")])
            client = config.load_client(conf, clock=clock, sleep=clock.sleep, max_workers=1)
            return stack.enter_context(client)

        yield make


@pytest.fixture
def secure(authority, web):
    """A Placement and an identity service that speak TLS."""
    certificate = authority.certificate(HOST)
    server = web(Web, placement, certificate=certificate).open()
    return server, web(Keystone, server.url, certificate=certificate).open()


@pytest.mark.parametrize("call", CALLS)
def test_b105_with_the_right_cafile(authority, secure, configured, call):
    server, keystone = secure
    assert call(configured(keystone, cafile=authority.cafile)) == []
    assert server.asked


@pytest.mark.parametrize("call", CALLS)
def test_b105_insecure_is_heeded_and_said(secure, configured, call):
    _, keystone = secure
    client = configured(keystone, insecure=True)
    with pytest.warns(urllib3.exceptions.InsecureRequestWarning):
        assert call(client) == []


def test_b105_without_a_cafile_keystone_is_not_trusted(secure, configured):
    server, keystone = secure
    with pytest.raises(exceptions.PlacementUnavailable) as caught:
        read(configured(keystone))
    assert keystone.url in str(caught.value)
    assert "unable to get local issuer certificate" in str(caught.value)
    assert (keystone.asked, server.asked) == ([], [])


def test_b105_a_host_name_that_is_that_of_the_certificate(
    authority, web, make_adapter, make_client, resolver
):
    resolver.known["placement.test"] = HOST
    certificate = authority.certificate("placement.test")
    server = web(Web, placement, certificate=certificate).open()
    url = f"https://placement.test:{server.server_port}"
    assert read(make_client(make_adapter(url, verify=authority.cafile))) == []


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_wants_a_certificate(authority, web, make_adapter, make_client, call):
    own = authority.certificate(HOST)
    server = web(Web, placement, certificate=own, cafile=authority.cafile).open()
    adapter = functools.partial(make_adapter, server.url, verify=authority.cafile)
    with pytest.raises(exceptions.PlacementUnavailable):
        call(make_client(adapter()))
    assert server.asked == []
    assert call(make_client(adapter(cert=own))) == []
    assert server.asked


@pytest.mark.parametrize(
    "reason",
    [
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "SSLV3_ALERT_CERTIFICATE_UNKNOWN",
        "TLSV1_ALERT_UNKNOWN_CA",
        "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    ],
)
def test_what_a_server_without_our_certificate_refuses_was_not_applied(
    mock, transport, url, reason
):
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    mock.put(f"{url}/x", exc=requests.exceptions.SSLError(urllib3.exceptions.SSLError(error)))
    with pytest.raises(exceptions.TLSFailed) as caught:
        transport.request("PUT", "/x", want=(1, 0), need=(1, 0))
    assert not caught.value.outcome_unknown


NO_CERTIFICATE = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "wrong", ["cafile-text", "cafile-damaged", "cert-text", "cert-only", "key-of-another"]
)
def test_b105_files_that_are_no_certificates_are_an_error_of_configuration(
    authority, web, make_adapter, make_client, clock, tmp_path, wrong, call
):
    own = authority.certificate(HOST)
    path = tmp_path / "file.pem"
    path.write_text(NO_CERTIFICATE if wrong == "cafile-damaged" else "no certificate")
    cert = {
        "cert-text": str(path),
        "cert-only": authority.cafile,
        "key-of-another": (own, authority.certificate(HOST)),
    }.get(wrong)
    server = web(Web, placement, certificate=own).open()
    verify = authority.cafile if cert else str(path)
    with pytest.raises(exceptions.ConfigurationError) as caught:
        call(make_client(make_adapter(server.url, verify=verify, cert=cert)))
    assert not caught.value.outcome_unknown
    assert (server.asked, clock.slept) == ([], [])


# -- names -------------------------------------------------------------------------------


class Resolver:
    """Knows the names that a test says; others it does not know."""

    def __init__(self):
        self.known = {}
        self.asked = []
        self.error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        self._real = socket.getaddrinfo

    def __call__(self, host, *arguments, **settings):
        self.asked.append(host)
        if host not in {HOST, *self.known}:
            raise self.error
        return self._real(self.known.get(host, host), *arguments, **settings)


@pytest.fixture
def resolver(monkeypatch):
    made = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    return made


@pytest.mark.parametrize("call", CALLS)
def test_b103_a_host_name_that_nobody_knows(make_adapter, make_client, clock, resolver, call):
    with pytest.raises(exceptions.ConnectFailed) as caught:
        call(make_client(make_adapter("http://placement.invalid:8778")))
    assert "http://placement.invalid:8778" in str(caught.value)
    assert "Name or service not known" in str(caught.value)
    assert not caught.value.outcome_unknown
    assert caught.value.retryable
    assert resolver.asked == ["placement.invalid"] * (1 + RESENDS)
    assert len(clock.slept) == RESENDS


@pytest.mark.parametrize("call", CALLS)
def test_b103_a_resolver_that_is_down_for_a_moment(web, make_adapter, make_client, resolver, call):
    resolver.error = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    server = web(Web, placement).open()

    def sleep(_):
        resolver.known["placement.test"] = HOST

    adapter = make_adapter(f"http://placement.test:{server.server_port}")
    assert call(make_client(adapter, sleep)) == []
    assert resolver.asked[:2] == ["placement.test"] * 2


# -- refused at first ------------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("path", ["", "/v3"], ids=["unversioned", "v3"])
@pytest.mark.parametrize(
    "versions",
    [{}, {"min_version": "1.0"}, {"min_version": "1.0", "max_version": "1.latest"}],
    ids=["none", "lowest", "range"],
)
@pytest.mark.parametrize("late", ["keystone", "placement", "both"])
def test_b111_what_is_refused_first_and_answers_then(
    web, make_adapter, make_client, call, path, versions, late
):
    """Discovery of the identity service, and of Placement where it is asked for."""
    server = web(Web, placement)
    keystone = web(Keystone, server.url)
    closed = {"keystone": [keystone], "placement": [server], "both": [keystone, server]}[late]
    for there in {keystone, server} - set(closed):
        there.open()
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        closed.pop(0).open()

    adapter = make_adapter(keystone=keystone, path=path, **versions)
    assert call(make_client(adapter, sleep)) == []
    assert (closed, len(waits)) == ([], 2 if late == "both" else 1)
    assert keystone.tokens == 1


@pytest.mark.parametrize("late", ["keystone", "placement"])
def test_b111_what_is_refused_for_long_is_one_failure(web, make_adapter, make_client, clock, late):
    server = web(Web, placement)
    keystone = web(Keystone, server.url)
    there, missing = (server, keystone) if late == "keystone" else (keystone, server)
    there.open()
    client = make_client(make_adapter(keystone=keystone, path=""))
    with pytest.raises(exceptions.PlacementUnavailable) as caught:
        read(client)
    assert missing.url in str(caught.value)
    assert len(clock.slept) == RESENDS
    missing.open()
    assert read(client) == []


# -- silence -------------------------------------------------------------------------------


@pytest.fixture
def silence():
    """An answer that is given when the test is over."""
    over = threading.Event()

    def answer(method, path):
        over.wait(30)
        return placement(method, path)

    yield answer
    over.set()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("path", ["", "/v3"], ids=["unversioned", "v3"])
@pytest.mark.parametrize("cached", [False, True], ids=["", "cache-file"])
def test_b104_an_identity_service_that_says_nothing(
    web, silence, make_adapter, make_client, clock, tmp_path, call, path, cached
):
    """keystoneauth1 alone would wait for ever."""
    keystone = web(Web, silence).open()
    cache_file = tmp_path / "cache" if cached else None
    adapter = make_adapter(keystone=keystone, path=path)
    client = make_client(adapter, timeout=0.05, cache_file=cache_file)
    with pytest.raises(exceptions.PlacementUnavailable) as caught:
        call(client)
    assert keystone.url in str(caught.value)
    assert "timed out" in str(caught.value)
    assert len(clock.slept) <= RESENDS


def test_a_timeout_that_a_session_has_stays(web, make_adapter, make_client):
    server = web(Web, placement).open()
    adapter = make_adapter(server.url)
    adapter.session.timeout = 7.0
    assert read(make_client(adapter, timeout=5)) == []
    assert adapter.session.timeout == 7.0


def test_a_session_without_a_timeout_gets_one(web, make_adapter, make_client):
    server = web(Web, placement).open()
    inner = make_adapter(server.url)
    client = make_client(ksa_adapter.Adapter(inner, service_type="placement"), timeout=5)
    assert inner.session.timeout is None
    assert read(client) == []
    assert inner.session.timeout == 5.0


# -- the catalog ---------------------------------------------------------------------------


class Idle:
    """A driver that changes nothing."""

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        del provider_tree, nodename, allocations


def test_b98_an_agent_that_starts_before_the_endpoint_is_made(web, make_adapter, make_client):
    server = web(Web, placement).open()
    keystone = web(Keystone, None).open()
    client = make_client(make_adapter(keystone=keystone))
    for passes in (1, 2):
        with pytest.raises(exceptions.EndpointMissing) as caught:
            client.report(None, ROOT, "host", Idle())
        assert caught.value.retryable
        # The catalog is fetched again for each pass, and once.
        assert keystone.tokens == passes
    keystone.endpoint = server.url
    assert read(client) == []
    assert keystone.tokens == 3


def refused(web, authority):
    del authority
    return web(Web, placement).url


def of_another_host(web, authority):
    other = authority.certificate("other.test")
    return web(Web, placement, certificate=other).open().url


@pytest.mark.parametrize("gone", [refused, of_another_host])
def test_b99_an_endpoint_that_moves_while_an_agent_runs(
    authority, web, make_adapter, make_client, gone
):
    """Its old address refuses, or belongs to another host now."""
    server = web(Web, placement).open()
    keystone = web(Keystone, gone(web, authority)).open()
    client = make_client(make_adapter(keystone=keystone, verify=authority.cafile))
    with pytest.raises(exceptions.PlacementUnavailable):
        read(client)
    assert keystone.tokens == 1
    keystone.endpoint = server.url
    assert read(client) == []
    assert keystone.tokens == 2
