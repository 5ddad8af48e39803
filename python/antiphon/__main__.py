"""``python -m antiphon``, and the command ``antiphon``."""

import _thread
import os
import signal
import sys
import threading
from types import FrameType

LATER_S = 0.02
"""When an interrupt that came within an import is tried again."""


def _interrupt(_number: int, frame: FrameType | None) -> None:
    """Raises KeyboardInterrupt; within an import later, as some compiled modules lose it there, and others crash."""
    while frame is not None and frame.f_code is not run.__code__:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            later = threading.Timer(LATER_S, _thread.interrupt_main)
            later.daemon = True
            later.start()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def run() -> None:
    """Runs the command line. Ctrl-C is heard from here on, and ends the process without a word once all is done."""
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, _interrupt)
        # Threads of numpy's linear algebra, of which only calibrate has any, take longer to start than a short command.
        tells = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
        if "calibrate" not in sys.argv and not any(name in os.environ for name in tells):
            os.environ["OPENBLAS_NUM_THREADS"] = "1"
        from antiphon.cli import main

        main()
    except KeyboardInterrupt:  # outside commands, such as in an import
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    run()
