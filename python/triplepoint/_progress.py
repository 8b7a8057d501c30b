# SPDX-License-Identifier: Apache-2.0
"""How far a long call is: one line that is written over, in terminals and notebooks; nothing in files and pipes."""
import shutil
import sys
import time

_AFTER_S, _EVERY_S = 0.5, 0.2


def _stream():
    """Where a line may be written over: a notebook's output, or a terminal."""
    if "ipykernel" in sys.modules:
        return sys.stdout
    return sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None


class Progress:
    """Called with (done, total) now and then; as a context it wipes the line at its end."""

    def __init__(self, what, wanted=None):
        self._what = what
        self._out = None if wanted is False else _stream() or (sys.stderr if wanted else None)
        self._begin, self._drawn, self._width, self._total = time.monotonic(), None, 0, 0

    def __call__(self, done, total):
        now = time.monotonic()
        if total != self._total:  # the next part of the work has another pace
            self._total, self._begin = total, now
        if self._out is None or total == 0 or now - (self._drawn or self._begin) < (_EVERY_S if self._drawn else _AFTER_S):
            return
        self._drawn = now
        self._write(self.line(done, total, now - self._begin, shutil.get_terminal_size().columns - 1))

    def line(self, done, total, elapsed_s, width):
        """ "Simulating [=====>    ] 52/163  9.1/s  12 s left" """
        rate = done / elapsed_s if elapsed_s > 0 else 0
        rest = f"{done}/{total}" + (f"  {rate:.3g}/s  {(total - done) / rate:.0f} s left" if rate > 0 else "")
        bar = min(30, max(0, width - len(self._what) - len(rest) - 5))
        filled = round(bar * done / total)
        return f"{self._what} [{'=' * filled}{' ' * (bar - filled)}] {rest}"[:max(width, 20)]

    def _write(self, text):
        self._out.write("\r" + text.ljust(self._width))
        self._out.flush()
        self._width = len(text)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._width:
            self._write("")
            self._out.write("\r")
            self._out.flush()
        return False
