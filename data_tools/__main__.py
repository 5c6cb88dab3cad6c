"""`python -m data_tools fetch NAME ...` and `python -m data_tools list`."""

from __future__ import annotations

import argparse
import sys

from data_tools.errors import DataError
from data_tools.sources import SOURCES


def main(arguments: list[str] | None = None) -> int:
    """The command line; returns 0 on success, 2 and prints one sentence for an error the user can fix."""
    parsed = _parser().parse_args(arguments)
    try:
        return _fetch(parsed) if parsed.command == "fetch" else _list(parsed)
    except DataError as error:
        print(f"data_tools: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("data_tools: stopped; run the same command again to continue.", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m data_tools", description="Download and check public data sets.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="download data sets and check them")
    fetch.add_argument("names", nargs="+", metavar="NAME", help=f"one or more of {', '.join(SOURCES)}")
    fetch.add_argument("--force", action="store_true", help="download again even if a correct copy exists")
    fetch.add_argument("--quiet", action="store_true", help="show no progress bars")
    listing = commands.add_parser("list", help="list the copies found and check them")
    for command in (fetch, listing):
        command.add_argument("--data-dir", metavar="DIR", help="use this folder instead of the user's cache")
    return parser


def _fetch(parsed: argparse.Namespace) -> int:
    from data_tools.fetch import fetch, source_of

    for name in parsed.names:
        source_of(name)  # all names are checked before the first download starts
    for name in parsed.names:
        folder = fetch(name, parsed.data_dir, progress=not parsed.quiet, force=parsed.force)
        print(f"{name} is in {folder}")
    return 0


def _list(parsed: argparse.Namespace) -> int:
    from data_tools.inventory import inventory
    from data_tools.locations import search_dirs

    findings = inventory(parsed.data_dir)
    print("searched " + ", ".join(str(place) for place in search_dirs(parsed.data_dir)))
    for finding in findings:
        print(f"{finding.state:10} {finding.name:14} {finding.place}  ({finding.detail})")
    there = {finding.name for finding in findings}
    for name, source in SOURCES.items():
        if name not in there:
            print(f"{'missing':10} {name:14} (python -m data_tools fetch {name}, about {source.megabytes} MB)")
    print(f"{'embedded':10} digits, generated (need no files)")
    if any(finding.state == "WRONG" for finding in findings):
        raise DataError("at least one copy is damaged or not the official one; fetch it again with --force.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
