# SPDX-License-Identifier: Apache-2.0
"""What it means when there is no answer: failures of keystoneauth1 and requests.

keystoneauth1 says "connect failure" for a connection that was refused and for
one that broke when the request was there already. For a write the difference
is whether it may have been applied, so the cause underneath is looked at.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator

import urllib3.exceptions
from keystoneauth1 import exceptions as ksa
from requests import exceptions as rq

from reportclient import exceptions
from reportclient.answers import readable, retry_after

__all__ = ["EXPECTED", "no_answer"]

#: What keystoneauth1, requests and urllib3 raise. (requests answers a missing
#: CA bundle with a bare OSError, and an odd ``Location`` of an answer with a
#: ValueError, as keystoneauth1 does odd version settings.)
EXPECTED = (
    ksa.ClientException,
    rq.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
    ValueError,
)

_Kind = type[exceptions.ReportClientError]

#: The first that fits. Those before the line are no failures of sending.
_NEVER_SENT: tuple[tuple[tuple[type[Exception], ...], _Kind], ...] = (
    (
        (
            ksa.MissingAuthPlugin,
            ksa.NoMatchingPlugin,
            ksa.OptionError,
            ksa.UnsupportedParameters,
            ksa.ImpliedVersionMismatch,
            rq.InvalidURL,
            rq.MissingSchema,
            rq.InvalidSchema,
            rq.InvalidHeader,
        ),
        exceptions.ConfigurationError,
    ),
    ((ksa.CatalogException,), exceptions.EndpointMissing),
    ((ksa.DiscoveryFailure,), exceptions.DiscoveryFailed),
    # Answers of Keystone: nothing is raised for those of Placement.
    ((ksa.TooManyRequests,), exceptions.TooManyRequests),
    ((ksa.HttpServerError,), exceptions.ServiceUnavailable),
    (
        (
            ksa.HttpError,
            ksa.AuthorizationFailure,
            ksa.AuthPluginException,
            ksa.MissingAuthMethods,
            ksa.InvalidResponse,
            ksa.ServiceProviderNotFound,
        ),
        exceptions.Unauthorized,
    ),
)
_SENDING: tuple[tuple[tuple[type[Exception], ...], _Kind], ...] = (
    ((ksa.SSLError, rq.SSLError), exceptions.TLSFailed),
    ((ksa.ConnectTimeout, rq.Timeout), exceptions.PlacementTimeout),
    ((rq.ContentDecodingError, urllib3.exceptions.DecodeError), exceptions.BadAnswer),
)
#: Why a TLS handshake failed, as OpenSSL names it.
_HANDSHAKE = (
    "CERTIFICATE_",
    "HTTP_REQUEST",
    "NO_PROTOCOLS_AVAILABLE",
    "UNSUPPORTED_PROTOCOL",
    "WRONG_VERSION_NUMBER",
    "WRONG_SSL_VERSION",
    "SSLV3_ALERT_HANDSHAKE_FAILURE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    # The server does not take our certificate, or wants one.
    "SSLV3_ALERT_BAD_CERTIFICATE",
    "SSLV3_ALERT_CERTIFICATE_",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE",
    "TLSV1_ALERT_UNKNOWN_CA",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED",
    "TLSV1_UNRECOGNIZED_NAME",
)
#: What OpenSSL says of files that hold no certificate, or not the key of it.
_FILES = ("NO_CERTIFICATE_OR_CRL_FOUND", "KEY_VALUES_MISMATCH")
_HINT = (
    " (Is there an auth_type, and what it needs, in the section of the configuration "
    "that is about Placement?)"
)


def no_answer(error: Exception, *, method: str, url: str) -> exceptions.ReportClientError:
    """The exception that a failure of keystoneauth1 or requests stands for."""
    kind, sent = _classify(error)
    hint = _HINT if isinstance(error, ksa.MissingAuthPlugin) else ""
    # They tell the URL twice, and the reason after it: a long query would
    # leave no room for that.
    query = url.partition("?")[2]
    said = str(error).replace(query, "...") if query else str(error)
    failure = kind(
        f"{method} {url}: {readable(said) or type(error).__name__}{hint}",
        method=method,
        url=url,
    )
    if isinstance(error, ksa.HttpError):
        failure.status = error.http_status
        failure.request_id = error.request_id
        headers = getattr(error.response, "headers", None)
        if headers is not None and isinstance(failure, exceptions.PlacementUnavailable):
            failure.retry_after = retry_after(headers)
    failure.outcome_unknown = sent and method not in ("GET", "HEAD")
    return failure


def _classify(error: Exception) -> tuple[_Kind, bool]:
    """The kind of failure, and whether Placement may have got the request."""
    original = error.original if isinstance(error, ksa.UnknownConnectionError) else error
    if any(map(_of_our_files, _causes(error))):
        return exceptions.ConfigurationError, False
    for types, kind in _NEVER_SENT:
        if isinstance(original, types):
            return kind, False
    for types, kind in _SENDING:
        if isinstance(original, types):
            return kind, not _before_sending(error)
    if isinstance(original, OSError) and not isinstance(original, rq.RequestException):
        return _bare_os_error(original)
    if isinstance(error, ValueError) and not isinstance(error, rq.RequestException):
        return exceptions.BadAnswer, True
    if any(isinstance(cause, urllib3.exceptions.ReadTimeoutError) for cause in _causes(error)):
        # In the middle of the body it is a ConnectionError to requests.
        return exceptions.PlacementTimeout, True
    return exceptions.ConnectFailed, not _before_sending(error)


def _bare_os_error(error: OSError) -> tuple[_Kind, bool]:
    """requests checks the files of certificates and keys itself."""
    if error.errno is None or isinstance(error, FileNotFoundError | PermissionError):
        return exceptions.ConfigurationError, False
    return exceptions.ConnectFailed, True


def _before_sending(error: BaseException) -> bool:
    """Whether the connection failed before a byte of the request was sent."""
    return any(
        # Unknown host, refused and no route are kinds of NewConnectionError.
        isinstance(
            cause, urllib3.exceptions.NewConnectionError | urllib3.exceptions.ConnectTimeoutError
        )
        or (isinstance(cause, ssl.SSLError) and _of_handshake(cause))
        for cause in _causes(error)
    )


def _of_our_files(error: BaseException) -> bool:
    """Whether the files of certificates and keys are there, but are none."""
    return isinstance(error, ssl.SSLError) and (
        getattr(error, "reason", None) in _FILES or "PEM lib" in str(error)
    )


def _of_handshake(error: ssl.SSLError) -> bool:
    if isinstance(error, ssl.SSLCertVerificationError):
        return True
    reason = getattr(error, "reason", None) or ""
    return reason.startswith(_HANDSHAKE)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """A failure and all that it came from: each layer has its own way to say."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop()
        if id(current) in seen or not isinstance(current, BaseException):
            continue
        seen.add(id(current))
        yield current
        waiting += [current.__cause__, current.__context__, getattr(current, "reason", None)]
        waiting += current.args
