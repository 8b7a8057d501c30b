# SPDX-License-Identifier: Apache-2.0
"""Jobs, simulations and runs. The work is done by the compiled module _core, by the code of the command line."""
import atexit
import inspect
import json
import os
import time

try:
    from . import _core
except ImportError as problem:
    from importlib.util import find_spec
    if find_spec("triplepoint._core") is None:
        raise ModuleNotFoundError("triplepoint._core") from None
    raise ImportError(f"the compiled part of triplepoint cannot be loaded ({problem}); install the package again, with this Python") from problem
from . import _flags
from ._columns import COLUMNS, read_cells, unit_of
from ._tables import numpy_or_none, pandas_or_none

Error = _core.Error
_job_flags = _flags.Flags("Job", _core.job_flags())
_simulation_flags = _flags.Flags("simulate", _core.simulation_flags())


@atexit.register
def _let_threads_end(longest=10):
    """A call that Ctrl-C has ended may still compute; it must not outlive what it uses."""
    until = time.monotonic() + longest
    while _core.detached_threads() and time.monotonic() < until:
        time.sleep(0.01)


def version():
    """The program's version, with commit and date where they are known."""
    return _core.version()


def names(kind):
    """What the library has: names of "models", "gpus", "clusters", "stacks", "optimizers" or "records"."""
    if kind not in ("models", "gpus", "clusters", "stacks", "optimizers", "records"):
        raise Error(f'the library has no "{kind}"; try models, gpus, clusters, stacks, optimizers or records')
    return _core.names(kind)


class Job:
    """A training or serving job: a model on machines, with its layout.

    Arguments are the flags of ``triplepoint simulate`` with underscores, alone or on top of a file: a job.toml, NeMo YAML,
    Hugging Face config.json or Megatron arguments. What is left out takes the default of the command line; ``job.notes``
    says which. A job does not change; ``job.replace(tp=4)`` gives another one.
    """
    __slots__ = ("_core", "_file", "_beginning", "_flags")

    def __init__(self, file=None, /, **flags):
        self._make("" if file is None else os.fspath(file), "", _job_flags.named(flags))

    def _make(self, file, beginning, flags):
        self._file, self._beginning, self._flags = file, beginning, flags
        self._core = _core.make_job(file, beginning, _job_flags.texts(flags))

    @classmethod
    def _of(cls, core):
        """A job that no flags have told."""
        job = cls.__new__(cls)
        job._core, job._file, job._beginning, job._flags = core, "", core.beginning, {}
        return job

    def replace(self, **flags):
        """The same job with these flags said anew; None takes a flag back."""
        job = Job.__new__(Job)
        job._make(self._file, self._beginning, {**self._flags, **_job_flags.named(flags)})
        return job

    @property
    def name(self):
        """What tables call it."""
        return self._core.name

    @property
    def model(self):
        """Name of the model."""
        return self._core.model

    @property
    def cluster(self):
        """Name of the cluster."""
        return self._core.cluster

    @property
    def num_gpus(self):
        """GPUs (dies, on MI250) of all nodes."""
        return self._core.num_gpus

    @property
    def notes(self):
        """Remarks; the first one names the defaults that were taken."""
        return self._core.notes

    def to_toml(self):
        """The job as the text of a job.toml, which every command reads."""
        return self._core.toml()

    def save(self, file):
        """Writes it as a job.toml."""
        with open(file, "w", encoding="utf-8") as out:
            out.write(self.to_toml())

    def __eq__(self, other):
        return isinstance(other, Job) and self._core == other._core

    __hash__ = None

    def __reduce__(self):
        return _job_of, (self._file, self._beginning, self._flags)

    def __repr__(self):
        return f"<triplepoint.Job {self.name}: {self.model} on {self.num_gpus} GPUs of {self.cluster}>"


def _job_of(file, beginning, flags):
    job = Job.__new__(Job)
    job._make(file, beginning, flags)
    return job


_file = inspect.Parameter("file", inspect.Parameter.POSITIONAL_ONLY, default=None, annotation="str | os.PathLike[str]")
_flags.describe(Job, [_job_flags], _file)


def _array(column):
    """A column of the core without a copy: an array of NumPy, or a memoryview where it is not installed."""
    numpy = numpy_or_none()
    return memoryview(column) if numpy is None else numpy.asarray(column)


def _words(numpy, pandas, codes, words):
    """The word of each code."""
    if numpy is None:
        return [words[code] for code in codes]
    array = numpy.array(words, dtype=object)[codes] if words else numpy.array([], dtype=object)
    return pandas.Categorical(array) if pandas else array


class Series:
    """One signal of one device over time. ``values`` and ``times_ns`` look at the run's own memory (read only)."""
    __slots__ = ("signal", "device", "of_node", "times_ns", "values")

    def __init__(self, signal, device, of_node, times_ns, values):
        self.signal, self.device, self.of_node, self.times_ns, self.values = signal, device, of_node, times_ns, values

    @property
    def unit(self):
        """The unit, which is the end of the signal's name: "W" of power_w."""
        return unit_of(self.signal)

    @property
    def times_s(self):
        """Seconds since the run's beginning; each value is the mean, or the reading, at its time."""
        numpy = numpy_or_none()
        return [t * 1e-9 for t in self.times_ns] if numpy is None else self.times_ns * 1e-9

    def __array__(self, dtype=None, copy=None):
        numpy = numpy_or_none()
        return numpy.array(self.values, dtype=dtype) if copy else numpy.asarray(self.values, dtype=dtype)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]

    def __repr__(self):
        return f"<triplepoint.Series {self.signal} of {'node' if self.of_node else 'GPU'} {self.device}: {len(self)} values>"


class Run:
    """What happened, or what is predicted to happen: numbers of one step by name, series, a timeline.

    Numbers have the names and units of results.csv (docs/results-schema.md): step_time_s, tokens_per_s, mfu, power_mean_w,
    temperature_peak_c, energy_j, ... What the run does not know is None.
    """
    __slots__ = ("_core", "_cells", "_results")

    def __init__(self, core):
        self._core, self._cells, self._results = core, None, None

    def _number(self, name):
        if self._cells is None:
            self._cells = read_cells(self._core.cells())
        return self._cells[name]

    @property
    def results(self):
        """All numbers as nested dictionaries: what ``--format json`` prints (docs/results-schema.md)."""
        if self._results is None:
            self._results = json.loads(self._core.json())
        return self._results

    @property
    def step_time_interval_s(self):
        """(low, high): 80 of 100 measured jobs lie in it; None where it is not known."""
        low, high = self._number("step_time_low_s"), self._number("step_time_high_s")
        return None if low is None else (low, high)

    @property
    def job(self):
        """The job that it is a run of; None of a recording of another program."""
        core = self._core.job()
        return None if core is None else Job._of(core)

    @property
    def notes(self):
        """Remarks on it."""
        return self.results["notes"]

    @property
    def signals(self):
        """The series there are: (signal, device, of_node) of each."""
        return [(signal, device, of_node) for signal, device, of_node, _ in self._core.list_of_series()]

    def series(self, signal, device=0, of_node=False):
        """A signal over time, as in ``run.series("power_w", device=3)``; of_node: device is the number of a node."""
        found = self._core.series(signal, device, of_node)
        if found is None:
            known = sorted({name for name, _, node in self.signals if node == of_node})
            what = "node" if of_node else "GPU"
            raise Error(f"the run has no series {signal} of {what} {device} (of {what}s it has {', '.join(known) or 'none'}); "
                        "run.signals lists all, and of_node=True is for those of nodes")
        return Series(signal, device, of_node, *map(_array, found))

    @property
    def ranks(self):
        """The ranks that the timeline has. A simulation keeps one of ranks that do the same, such as those of a tensor group."""
        return self._core.ranks()

    def timeline(self, rank=0):
        """The spans of a rank (None: of all) in the detailed step: a DataFrame, or a dictionary of columns without pandas.

        Columns as in spans.csv: rank, begin_ns, end_ns, name, kind, stage, microbatch, layer, collective, group, wait_s, bytes,
        flops. An index of -1 does not apply.
        """
        if rank is not None and rank not in self.ranks:
            known = ", ".join(map(str, self.ranks[:20])) or "none"
            raise Error(f"the timeline has no rank {rank} (of ranks that do the same it keeps one; it has {known}); run.ranks lists all")
        columns = self._core.timeline(rank)
        types = columns.pop("types")
        codes = _array(columns.pop("type"))
        columns = {name: _array(column) for name, column in columns.items()}
        numpy, pandas = numpy_or_none(), pandas_or_none()
        for key in ("name", "kind", "collective", "group"):
            columns[key] = _words(numpy, pandas, codes, [one[key] for one in types])
        return pandas.DataFrame(columns) if pandas else columns

    def to_dict(self):
        """The numbers by name."""
        self._number("name")
        return dict(self._cells)

    def save(self, file):
        """Writes it as a .run file, which every command and ``read`` take."""
        self._core.save(os.fspath(file))

    def save_page(self, file):
        """Writes its page, one HTML file."""
        self._core.save_page(os.fspath(file))

    def save_perfetto(self, file):
        """Writes its detailed step as a trace for ui.perfetto.dev."""
        self._core.save_perfetto(os.fspath(file))

    @property
    def findings(self):
        """What stands out, in sentences: where the time goes, what limits it, who is hot."""
        return self._core.head()["findings"]

    def __str__(self):
        return self._core.text()

    def _repr_html_(self):
        from ._html import run_html
        return run_html(self)

    def __repr__(self):
        if self.step_time_s is None:
            return f"<triplepoint.Run {self.name}: {self.verdict}>"
        return f"<triplepoint.Run {self.name}: {self.step_time_s:.4g} s a step, {self.origin}>"


def _property(column):
    def number(self):
        return self._number(column)
    number.__doc__ = COLUMNS[column]
    return property(number)


for _name in COLUMNS:
    setattr(Run, _name, _property(_name))


def simulate(job, /, **flags):
    """Predicts a job: a ``Run``. Some 10 ms; other threads go on meanwhile, and Ctrl-C ends it.

    The job is a ``Job``, or the name of a file. Arguments are those flags of ``triplepoint simulate`` that are not the job's.
    """
    return Run(_core.simulate(_as_job(job)._core, _simulation_flags.texts(flags)))


def _as_job(job):
    if isinstance(job, Job):
        return job
    if isinstance(job, (str, os.PathLike)):
        return Job(job)
    raise TypeError(f"a job is a triplepoint.Job or the name of a file, not {type(job).__name__}")


_job = inspect.Parameter("job", inspect.Parameter.POSITIONAL_ONLY, annotation="Job | str | os.PathLike[str]")
_flags.describe(simulate, [_simulation_flags], _job)


def read(*files):
    """A .run file, or traces of all ranks (files, folders, tars), as a ``Run``."""
    if not files:
        raise TypeError("read() needs the name of a .run file, or of traces")
    return Run(_core.read([os.fspath(file) for file in files]))
