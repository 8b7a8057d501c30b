# SPDX-License-Identifier: Apache-2.0
"""The recorder around code of this process."""
import inspect
import os
import sys

from . import _core, _flags, marks
from ._predict import Error, Job, read

# --strict is about the exit code of a command.
_record_flags = _flags.Flags("record", [table for table in _core.record_flags() if "--strict" not in table["names"]])


class record:
    """Records the node while a block runs: power, temperature, clocks and traffic of its GPUs and CPUs, and the marks of this process.

        with tp.record("training.run") as rec:
            train()
        rec.run.series("power_w")

    As ``triplepoint record`` does around a command. Under torchrun, mpirun or srun every rank records; one of each node writes.
    At the end a summary is printed on standard error, unless ``quiet``. job: a ``Job`` or a file, which adds model and FLOPs.
    """

    def __init__(self, file=None, /, **flags):
        flags = _record_flags.named(flags)
        job = flags.pop("job", None)
        self._quiet = bool(flags.get("quiet"))
        self._job = job._core if isinstance(job, Job) else None
        if job is not None and self._job is None:
            flags["job"] = job
        self._wanted = None if file is None else os.fspath(file)
        self._texts = _record_flags.texts(flags)
        self._core, self._run = None, None

    def __enter__(self):
        if os.environ.get("TRIPLEPOINT_MARKS"):
            raise Error("this process is already being recorded (by triplepoint record, or by another block); leave one of them out")
        self._core = _core.record(self._wanted, [sys.executable, *sys.argv], self._texts, self._job)
        os.environ["TRIPLEPOINT_MARKS"] = self._core.marks
        marks._listen()
        if marks._put is None:
            self._say(f"steps cannot be marked: {marks.LIBRARY} is not beside the package; name its file in TRIPLEPOINT_MARK_LIBRARY")
        return self

    def __exit__(self, *_):
        try:
            for line in self._core.finish():
                self._say(line.rstrip("\n"))
        finally:
            del os.environ["TRIPLEPOINT_MARKS"]
            marks._listen()
        return False

    def _say(self, line):
        if not self._quiet:
            print(line, file=sys.stderr)

    @property
    def file(self):
        """The recording; None where another rank of this node writes it."""
        return (self._core.file or None) if self._core else None

    @property
    def run(self):
        """The finished recording as a ``Run``."""
        if self._run is None:
            if not self.file:
                raise Error("this rank has no recording (another rank of the node wrote it); read that one")
            self._run = read(self.file)
        return self._run


_file = inspect.Parameter("file", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation="str | os.PathLike[str]")
_flags.describe(record, [_record_flags], _file)
