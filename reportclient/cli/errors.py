# SPDX-License-Identifier: Apache-2.0
"""From an exception to one line for a person, and an exit status."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

from reportclient import exceptions
from reportclient.cli.options import shown_url

__all__ = ["exit_status", "explain", "is_expected", "printable"]

EXIT_FAILED, EXIT_USAGE, EXIT_UNREACHABLE, EXIT_INTERRUPTED = 1, 2, 3, 130

#: The extra that brings a package, by the name that is imported.
_EXTRAS = {
    "rich": "cli",
    "openstack": "cli",
    "yaml": "cli",
    "jsonschema": "cli",
    "psutil": "host",
    "placement": "embedded",
}
_URL = re.compile(r"https?://[^\s'\"<>)]+")
_LIMIT = 500


def is_expected(error: Exception) -> bool:
    """Whether it is a failure to report, and not a bug of this program."""
    return isinstance(error, exceptions.ReportClientError | ImportError)


def exit_status(error: Exception) -> int:
    """The exit status that a failure ends the program with."""
    if isinstance(error, exceptions.PlacementUnavailable):
        return EXIT_UNREACHABLE
    if isinstance(error, exceptions.InvalidInput | exceptions.ConfigurationError):
        return EXIT_USAGE
    return EXIT_FAILED


def explain(error: Exception, place: str, extra: str) -> str:
    """What went wrong; one line, but for the faults of a file.

    :param place: how to call the Placement that it is about.
    :param extra: the extra that the command needs.
    """
    if isinstance(error, ImportError):
        return _missing(error, extra)
    if isinstance(error, exceptions.PlacementUnavailable):
        return _one_line(_unavailable(error, place))
    if isinstance(error, exceptions.InvalidProviderTree):
        return "\n".join(map(_one_line, str(error).splitlines()))
    return _one_line(str(error))


def printable(text: str) -> str:
    """A text that cannot play tricks on a terminal: names are anybody's."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _missing(error: ImportError, extra: str) -> str:
    text = str(error)
    if "install reportclient[" in text:
        return text
    package = (error.name or "").partition(".")[0]
    wanted = _EXTRAS.get(package, extra)
    return f"{package or text} is not installed: pip install 'reportclient[{wanted}]'"


def _unavailable(error: exceptions.PlacementUnavailable, place: str) -> str:
    """Where it failed, and why, without the layers in between."""
    if isinstance(error, exceptions.SyncUnavailable) and error.result:
        for failure in error.result.failures.values():
            if isinstance(failure, exceptions.PlacementUnavailable):
                error = failure
    at = _failing_url(error)
    known = _URL.search(place)
    where = f"{place} cannot be reached"
    if at is not None and not (known and at.startswith(known[0])):
        where += f": {at}"
    why = _system_reason(error)
    match error:
        case exceptions.TLSFailed():
            return f"{where}: the TLS connection failed: {why or _innermost(error)}"
        case exceptions.ConnectFailed() | exceptions.DiscoveryFailed() if why:
            return f"{where}: {why}"
        case exceptions.PlacementTimeout():
            return f"{place} did not answer in time (see --timeout)"
        case exceptions.EndpointMissing():
            return f"{place}: the service catalog has no such endpoint: {_innermost(error)}"
        case exceptions.Unauthorized():
            return f"{place}: not let in: {error.detail or _innermost(error)}"
        case exceptions.BadAnswer() | exceptions.ServiceUnavailable():
            return f"{place} gives no usable answer: {error}"
    return f"{where}: {_innermost(error)}"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception and all that led to it, outermost first."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        current = waiting.pop(0)
        if isinstance(current, BaseException) and id(current) not in seen:
            seen.add(id(current))
            yield current
            waiting += [current.__cause__, current.__context__, getattr(current, "reason", None)]
            waiting += current.args


def _system_reason(error: BaseException) -> str | None:
    """What the operating system said: ``connection refused``."""
    found = None
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "unknown host"
        if isinstance(cause, OSError) and cause.strerror:
            found = cause.strerror.lower()
    return found


def _failing_url(error: BaseException) -> str | None:
    """The URL that the failure is about, if it says one: Keystone's, say."""
    for cause in _causes(error):
        if match := _URL.search(str(cause)):
            return shown_url(match[0].rstrip(".,:;"))
    return None


def _innermost(error: exceptions.ReportClientError) -> str:
    """What keystoneauth said, without our own prefix."""
    return str(error.__cause__ or error)


def _one_line(text: str) -> str:
    text = printable(" ".join(text.split()))
    return text if len(text) <= _LIMIT else f"{text[:_LIMIT]}..."
