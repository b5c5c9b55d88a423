# SPDX-License-Identifier: Apache-2.0
"""``reportclient demo | report | show``.

Exit status: 0 done, 1 it failed, 2 the command line is wrong, 3 Placement
cannot be reached.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from reportclient import exceptions

__all__ = ["main"]

EXIT_FAILED, EXIT_UNREACHABLE = 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(
        level=logging.DEBUG if options.debug else logging.WARNING,
        format="%(levelname)s %(name)s: %(message)s",
    )
    try:
        return int(options.run(options))
    except exceptions.ReportClientError as error:
        if options.debug:
            raise
        print(f"reportclient: {error}", file=sys.stderr)
        unreachable = exceptions.PlacementUnavailable | exceptions.ConfigurationError
        return EXIT_UNREACHABLE if isinstance(error, unreachable) else EXIT_FAILED
    except ImportError as error:
        if options.debug:
            raise
        print(f"reportclient: {_extra(error, options.extra)}", file=sys.stderr)
        return EXIT_FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        sys.stderr.close()
        return 0


def _extra(error: ImportError, extra: str) -> str:
    text = str(error)
    if "install reportclient[" in text:
        return text
    return f"{error.name or text} is not installed: pip install 'reportclient[{extra}]'"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="reportclient",
        description="Tell OpenStack Placement what there is, and look at what it was told.",
    )
    parser.add_argument("--debug", action="store_true", help="log every step; show tracebacks")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_report(commands)
    _add_show(commands)
    return parser


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    demo = commands.add_parser(
        "demo",
        help="report this machine to a Placement of its own, and show what it took",
        description="Starts the real Placement service in this process, reports this machine to "
        "it, and shows how races are survived. Needs no cloud and leaves nothing behind.",
    )
    demo.add_argument("--json", action="store_true", help="the same facts, for a program")
    demo.set_defaults(run=_run_demo, extra="demo")


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    report = commands.add_parser(
        "report",
        help="report this machine, or a file, to a cloud",
        description="Reports this machine as a provider tree, or the tree that a file describes.",
    )
    _add_cloud(report)
    report.add_argument(
        "--name", help="name of the root provider (default: this machine's host name)"
    )
    report.add_argument(
        "--uuid", help="its UUID (default: made from this machine's id and the name)"
    )
    report.add_argument("--file", metavar="TREE", help="a desired tree in YAML or JSON")
    report.add_argument(
        "--owner", default="FILE", help="who owns what --file makes (default: FILE)"
    )
    report.add_argument(
        "--prune", action="store_true", help="with --file: remove what it does not mention"
    )
    report.add_argument("--dry-run", action="store_true", help="show the plan; write nothing")
    report.add_argument("--json", action="store_true", help="the result, for a program")
    report.set_defaults(run=_run_report, extra="cli,host")


def _add_show(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    show = commands.add_parser(
        "show",
        help="show the tree of a provider as a cloud has it",
        description="Shows the whole tree that a provider is in, and who shares with it.",
    )
    _add_cloud(show)
    show.add_argument(
        "provider", nargs="?", help="name or UUID (default: this machine's host name)"
    )
    show.add_argument("--json", action="store_true", help="the tree, for a program")
    show.set_defaults(run=_run_show, extra="cli")


def _add_cloud(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("where Placement is (by default as OS_* variables say)")
    group.add_argument("--os-cloud", metavar="NAME", help="a cloud of clouds.yaml")
    group.add_argument("--url", help="Placement's own URL; needs --token")
    group.add_argument(
        "--token",
        help="a token for --url (better as the variable OS_TOKEN: others can see command lines)",
    )
    group.add_argument(
        "--timeout",
        type=_positive,
        default=60.0,
        metavar="SECONDS",
        help="give a request up after so long (default: 60)",
    )


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def _run_demo(options: argparse.Namespace) -> int:
    from reportclient.cli import demo

    return demo.run(as_json=options.json)


def _run_report(options: argparse.Namespace) -> int:
    from reportclient.cli import cloud

    return cloud.report(options)


def _run_show(options: argparse.Namespace) -> int:
    from reportclient.cli import cloud

    return cloud.show(options)
