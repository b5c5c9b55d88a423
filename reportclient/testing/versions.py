# SPDX-License-Identifier: Apache-2.0
"""Microversions as tests write them: ``"1.19"`` or ``(1, 19)``."""

from __future__ import annotations

__all__ = ["Version", "as_version", "version_text"]

Version = tuple[int, int]


def as_version(given: str | Version, newest: Version | None = None) -> Version:
    """A microversion as two numbers.

    :param newest: refuse those above it, and those below 1.0.
    :raises ValueError: it is no microversion, or out of range.
    """
    if isinstance(given, str):
        major, minor = given.split(".")
        version = int(major), int(minor)
    else:
        version = given
    if newest is not None and not (1, 0) <= version <= newest:
        raise ValueError(
            f"Placement has no microversion {version_text(version)}: "
            f"there are 1.0 to {version_text(newest)}"
        )
    return version


def version_text(version: Version) -> str:
    """``"1.19"``."""
    return f"{version[0]}.{version[1]}"
