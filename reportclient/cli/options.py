# SPDX-License-Identifier: Apache-2.0
"""Options that commands share, and what may be wrong with their values."""

from __future__ import annotations

import argparse
import os
from urllib.parse import urlsplit

from reportclient import exceptions, validation

__all__ = [
    "add_cloud",
    "add_file",
    "add_host",
    "add_identity",
    "checked_token",
    "place",
    "shown_url",
]


def add_identity(parser: argparse.ArgumentParser) -> None:
    """Options that say which provider is the root."""
    group = parser.add_argument_group("which provider")
    group.add_argument(
        "--name",
        type=_name,
        help="name of the root provider (default: the file's, else this machine's host name)",
    )
    group.add_argument(
        "--uuid",
        type=_uuid,
        help="its UUID (default: the file's, else one that is made from this machine's id "
        "and is always the same)",
    )


def add_host(parser: argparse.ArgumentParser) -> None:
    """Options of the driver that reads this machine."""
    group = parser.add_argument_group("this machine")
    # The defaults are the driver's; here it counts whether one was given.
    for option, default, what in (
        ("--reserved-host-cpus", 0, "CPUs"),
        ("--reserved-host-memory-mb", 512, "MiB of memory"),
        ("--reserved-host-disk-mb", 0, "MiB of disk"),
    ):
        group.add_argument(
            option,
            type=_whole,
            metavar="N",
            help=f"{what} that are not for guests (default: {default})",
        )


def add_file(parser: argparse.ArgumentParser) -> None:
    """Options of the driver that reads a file."""
    group = parser.add_argument_group("a file in place of this machine")
    group.add_argument("--file", metavar="TREE", help="a desired tree in YAML or JSON")
    group.add_argument(
        "--owner",
        default="FILE",
        help="who owns the providers that are made for the file (default: FILE); only those are "
        "removed when the file no longer mentions them",
    )
    group.add_argument(
        "--prune",
        action="store_true",
        help="also remove children that others made and that the file does not mention",
    )


def add_cloud(parser: argparse.ArgumentParser) -> None:
    """Options that say where Placement is."""
    group = parser.add_argument_group(
        "where Placement is",
        "By default as the OS_* variables say (OS_CLOUD, or OS_AUTH_URL and so on).",
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument("--os-cloud", metavar="NAME", help="a cloud of clouds.yaml")
    where.add_argument("--url", type=_url, help="Placement's own URL; needs a token")
    group.add_argument(
        "--token",
        type=_token,
        help="the token for --url; better as the variable OS_TOKEN, since others can see "
        "command lines",
    )
    group.add_argument("--os-region-name", metavar="REGION", help="a region of the cloud")
    group.add_argument(
        "--os-interface", metavar="KIND", help="public, internal or admin endpoint of the cloud"
    )
    group.add_argument(
        "--os-cacert", metavar="FILE", help="certificates to trust (OS_CACERT likewise)"
    )
    group.add_argument(
        "--insecure", action="store_true", help="do not verify the server's certificate"
    )
    group.add_argument(
        "--timeout",
        type=_positive,
        default=60.0,
        metavar="SECONDS",
        help="give a request up after so long (default: 60)",
    )


def place(given: argparse.Namespace) -> str:
    """How messages call the Placement that the options point to."""
    if url := getattr(given, "url", None):
        return f"Placement at {shown_url(url)}"
    cloud = getattr(given, "os_cloud", None) or os.environ.get("OS_CLOUD")
    if cloud:
        return f"Placement of cloud {cloud!r}"
    auth_url = os.environ.get("OS_AUTH_URL")
    return f"Placement of the cloud at {shown_url(auth_url)}" if auth_url else "Placement"


def shown_url(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not good or not text.isprintable() or " " in text:
        raise argparse.ArgumentTypeError("this is not an http:// or https:// URL")
    return text.rstrip("/")


def checked_token(text: str) -> str:
    """A token that can be sent; the message does not quote what is none.

    An HTTP library would quote a bad header, and so the token, in its error.

    :raises ConfigurationError: it cannot be sent.
    """
    if not text or not all("!" <= character <= "~" for character in text):
        raise exceptions.ConfigurationError("A token is printable ASCII without blanks.")
    return text


def _token(text: str) -> str:
    try:
        return checked_token(text)
    except exceptions.ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)


def _uuid(text: str) -> str:
    try:
        return validation.normalise_uuid(text)
    except exceptions.InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _name(text: str) -> str:
    try:
        return validation.check_name(text)
    except exceptions.InvalidInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error
