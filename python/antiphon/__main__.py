"""``python -m antiphon``, and the command ``antiphon``."""

import signal
import sys


def run() -> None:
    """Runs the command line. Ctrl-C is heard from here on, and ends the process without a word once all is done."""
    try:
        from antiphon.cli import main

        main()
    except KeyboardInterrupt:  # outside commands, such as in an import
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
