# SPDX-License-Identifier: Apache-2.0
"""Text from elsewhere, in messages and logs.

Names of providers and answers of servers may hold anything. None of it may
begin a new line in a log, or reach a terminal as a control sequence.
"""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["logger", "one_line"]


def one_line(text: str) -> str:
    """The text with everything that does not print escaped; spaces stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class _OneLine(logging.LoggerAdapter[logging.Logger]):
    """Escapes the texts that a message is filled in with."""

    def log(self, level: int, msg: object, *args: object, **settings: Any) -> None:
        if self.isEnabledFor(level):
            args = tuple(one_line(arg) if isinstance(arg, str) else arg for arg in args)
            super().log(level, msg, *args, **settings)


def logger(name: str) -> logging.LoggerAdapter[logging.Logger]:
    """The logger of a module; what is logged stays on one line."""
    return _OneLine(logging.getLogger(name), {})
