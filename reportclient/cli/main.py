# SPDX-License-Identifier: Apache-2.0
"""``reportclient demo | report | show``: the command line and its exit status.

Exit status: 0 done; 1 it failed; 2 what was given is wrong (options,
configuration, the file of a tree), and nothing was sent; 3 Placement, or the
identity service before it, cannot be reached or lets nobody in.

What a command needs is imported when it runs, so that ``--help`` is quick and
works without any extra.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import io
import logging
import os
import sys
from collections.abc import Sequence
from typing import TypeAlias

from reportclient.cli import errors, options

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status.

    A failure is one line on standard error; ``--debug`` adds its traceback.
    """
    _accept_any_text()
    given = _parser().parse_args(arguments)
    _log(given)
    try:
        module = importlib.import_module(given.module)
        return int(getattr(module, given.function)(given))
    except BrokenPipeError:
        # Whoever read our output has seen enough. Nothing may be flushed into
        # the closed pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return errors.EXIT_FAILED
    except KeyboardInterrupt:
        print("reportclient: interrupted", file=sys.stderr)
        return errors.EXIT_INTERRUPTED
    except Exception as error:
        if not errors.is_expected(error):
            raise
        if given.debug:
            logging.getLogger(__name__).debug("It failed:", exc_info=error)
        where = options.place(given)
        print(f"reportclient: {errors.explain(error, where, given.extra)}", file=sys.stderr)
        return errors.exit_status(error)


def _accept_any_text() -> None:
    """Names are Unicode; a terminal that is not gets escapes, not a crash."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _log(given: argparse.Namespace) -> None:
    """Send the library's log lines to standard error, as many as asked for.

    By default none: what a command has to say it prints, once.
    """
    level = logging.DEBUG if given.debug else logging.INFO if given.verbose else logging.ERROR
    logging.basicConfig(level=max(level, logging.INFO), format="%(levelname)s: %(message)s")
    logging.getLogger("reportclient").setLevel(level)
    # Its warnings repeat what the failure says.
    logging.getLogger("keystoneauth").setLevel(logging.ERROR)


def _parser() -> argparse.ArgumentParser:
    # The same switches before and after the command's name.
    common = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    _add_common(common)
    parser = argparse.ArgumentParser(
        prog="reportclient",
        description="Tell OpenStack Placement what there is, and look at what it was told.",
        epilog="Exit status: 0 done, 1 failed, 2 wrong options, configuration or file, "
        "3 Placement cannot be reached.",
    )
    _add_common(parser)
    version = importlib.metadata.version("reportclient")
    parser.add_argument("--version", action="version", version=f"reportclient {version}")
    parser.set_defaults(debug=False, verbose=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands, common)
    _add_report(commands, common)
    _add_show(commands, common)
    return parser


def _add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="say what is done and what is odd"
    )
    parser.add_argument("--debug", action="store_true", help="log every step; show tracebacks")


_Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _add_demo(commands: _Commands, common: argparse.ArgumentParser) -> None:
    demo = commands.add_parser(
        "demo",
        parents=[common],
        help="report this machine to a Placement of its own, and show what it took",
        description="Starts the real Placement service in this process, reports this machine to "
        "it, lets others write meanwhile, and shows that nothing is lost and what every pass "
        "took. Needs no cloud, no configuration and no rights, and leaves nothing behind.",
    )
    demo.add_argument("--json", action="store_true", help="the same facts, for a program")
    demo.set_defaults(module="reportclient.cli.demo", function="command", extra="demo")


def _add_report(commands: _Commands, common: argparse.ArgumentParser) -> None:
    report = commands.add_parser(
        "report",
        parents=[common],
        help="report this machine, or a file, to a cloud",
        description="Reports this machine as a provider tree, or the tree that a file describes.",
    )
    report.add_argument("--dry-run", action="store_true", help="show the plan; write nothing")
    report.add_argument("--json", action="store_true", help="the result, for a program")
    options.add_identity(report)
    options.add_host(report)
    options.add_file(report)
    options.add_cloud(report)
    report.set_defaults(module="reportclient.cli.report", function="command", extra="cli,host")


def _add_show(commands: _Commands, common: argparse.ArgumentParser) -> None:
    show = commands.add_parser(
        "show",
        parents=[common],
        help="show the tree of a provider as a cloud has it",
        description="Shows the whole tree that a provider is in, and who shares with it.",
    )
    show.add_argument(
        "provider",
        nargs="?",
        metavar="NAME_OR_UUID",
        help="any provider of the tree (default: the one with this machine's host name)",
    )
    show.add_argument("--json", action="store_true", help="the tree, for a program")
    options.add_cloud(show)
    show.set_defaults(module="reportclient.cli.show", function="command", extra="cli")
