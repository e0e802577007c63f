"""`python -m paceline`: runs unmodified workers, and tells a credential's account."""

from __future__ import annotations

import argparse
import os
import sys

from paceline.sdk.account import FINGERPRINT_KEY_VARIABLE, fingerprint


def main(words: list[str]) -> int:
    """Does what the words say; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m paceline", description="Workers that take turns at rate-limited providers.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    runs = commands.add_parser(
        "run",
        help="run a script or module whose calls go through Paceline, without touching its code",
        usage="python -m paceline run SCRIPT [ARGS] | -m MODULE [ARGS] | -c CODE [ARGS]",
    )
    prints = commands.add_parser("fingerprint", help="the account name that a key in the environment gets when nobody names one")
    prints.add_argument(
        "--key-env",
        required=True,
        metavar="VAR",
        help="the variable with the key, for example OPENAI_API_KEY",
    )
    if words[:1] == ["run"] and words[1:] not in (["-h"], ["--help"]):
        # What comes behind is the program's own.
        program = words[2:] if words[1:2] == ["--"] else words[1:]
        if not program:
            runs.error("say what to run: a script, -m and a module, or -c and code")
        return _run(program)
    said = parser.parse_args(words)
    key = os.environ.get(said.key_env, "")
    if not key:
        prints.error(f"{said.key_env} is not set")
    print(fingerprint(key, os.environ.get(FINGERPRINT_KEY_VARIABLE)))
    return 0


def _run(program: list[str]) -> int:
    from paceline.errors import WrongSetting
    from paceline.run import CannotRun, prepared

    try:
        begin = prepared(program)
    except (CannotRun, WrongSetting) as problem:
        print(f"python -m paceline run: {problem}", file=sys.stderr)
        return 2
    begin()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
