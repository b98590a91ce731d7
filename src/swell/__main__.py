"""The program `swell`, also as `python -m swell`, where its folder is not on the path of the shell."""

import sys


def main() -> None:
    """Run the program; Ctrl-C shows no traceback while it is loaded either."""
    try:
        from swell.cli.main import main as run

        run()
    except KeyboardInterrupt:
        print("swell: interrupted", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
