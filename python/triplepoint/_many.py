# SPDX-License-Identifier: Apache-2.0
"""Many jobs: sweeps over values, and the search for plans."""
import inspect
import itertools
import json
import os
from collections.abc import Iterable

from . import _core, _flags, _tables
from ._columns import COLUMNS, read_cells
from ._predict import Error, Job, Run, _as_job, _job, _job_flags, _simulation_flags, simulate
from ._progress import Progress

_plan_flags = _flags.Flags("plan", _core.plan_flags())


class _Rows:
    """Rows with the same columns."""

    def to_dict(self):
        """The columns by name: arrays of NumPy where they are numbers and it is installed, else lists."""
        return {name: _tables.as_array(values) for name, values in self._columns().items()}

    def to_pandas(self):
        """A pandas.DataFrame."""
        return _tables.frame(self._columns())

    def __len__(self):
        return len(self._rows)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def _repr_html_(self):
        return _tables.html_table({name: values for name, values in self._columns().items() if name in self._shown})

    def _columns(self):
        names = list(dict.fromkeys(name for row in self._rows for name in row))
        return {name: [row.get(name) for row in self._rows] for name in names}


class Sweep(_Rows):
    """Every combination of the values: one row each, a dictionary of the varied flags, the numbers of ``Run`` and ``problem``.

    A job that does not fit in memory is a row with verdict "oom", one that cannot run a row with verdict "invalid" and its
    problem.
    """

    def __init__(self, base, varied, points, rows):
        self._base, self._points, self._rows = base, points, rows
        self._shown = {*varied, "verdict", "step_time_s", "tokens_per_s", "mfu", "power_mean_w", "joules_per_token",
                       "temperature_peak_c", "memory_total_gib", "problem"}

    def __getitem__(self, index):
        return self._rows[index]

    def job(self, index):
        """The job of a row."""
        return self._base.replace(**self._points[index][0])

    def run(self, index):
        """The run of a row, simulated again."""
        return simulate(self.job(index), **self._points[index][1])

    def best(self, by="step_time_s"):
        """The row with the lowest value of a column; None if no job ran. Of rates and shares use max(sweep, key=...)."""
        if self._rows and by not in self._rows[0]:
            raise Error(f"a sweep has no column {by}; sweep.to_dict() has all")
        ran = [row for row in self._rows if row["verdict"] == "ok" and row[by] is not None]
        return min(ran, key=lambda row: row[by]) if ran else None

    def __repr__(self):
        ran = sum(row["verdict"] == "ok" for row in self._rows)
        return f"<triplepoint.Sweep of {len(self)} jobs: {ran} ran>"


def _is_list(value):
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes, dict, os.PathLike))


def _values(value):
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return list(value) if _is_list(value) else [value]


def sweep(job, /, *, threads=None, progress=None, **flags):
    """Simulates every combination of the given values on all cores: a ``Sweep``.

        tp.sweep(job, tp=[2, 4, 8], power_limit=[500, 600, 700]).to_pandas()

    A list is a list of values to try; another value holds for all. threads: at most so many; progress: True or False to show
    how far it is (default: in terminals and notebooks). Arguments are those of ``Job`` and ``simulate``.
    """
    base = _as_job(job)
    for name in flags:
        if name not in _job_flags and name not in _simulation_flags:
            raise TypeError(_job_flags.unknown(name).replace("Job()", "sweep()"))
    varied = [name for name, value in flags.items() if _is_list(value)]
    points = []
    for values in itertools.product(*map(_values, flags.values())):
        point = dict(zip(flags, values))
        points.append(({name: value for name, value in point.items() if name in _job_flags},
                       {name: value for name, value in point.items() if name not in _job_flags}))
    texts = [(_job_flags.texts({**base._flags, **_job_flags.named(of_job)}), _simulation_flags.texts(of_simulation))
             for of_job, of_simulation in points]
    with Progress("Simulating", progress) as bar:
        done = _core.sweep(base._file, base._beginning, texts, threads or 0, bar)
    rows = [_row({name: {**of_job, **of_simulation}[name] for name in varied}, *one)
            for (of_job, of_simulation), one in zip(points, done)]
    return Sweep(base, varied, points, rows)


def _row(varied, cells, problem):
    numbers = read_cells(cells) if cells else {**dict.fromkeys(COLUMNS), "verdict": "invalid"}
    return {**varied, **{name: value for name, value in numbers.items() if name not in varied},
            "problem": problem or None}


_threads = inspect.Parameter("threads", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="int | None")
_progress = inspect.Parameter("progress", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="bool | None")


class Plan:
    """One plan of a search: its numbers by name (step_time_s, energy_j, power_limit_w, ...) and its job."""

    def __init__(self, numbers, job):
        self._numbers, self._job = numbers, job

    @property
    def job(self):
        """The job that runs so; ``job.save("job.toml")`` keeps it."""
        return self._job

    def to_dict(self):
        """All that the search says of it (docs/results-schema.md, plans)."""
        return dict(self._numbers)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._numbers[name]
        except KeyError:
            raise AttributeError(f"a plan has no {name!r}; to_dict() has what there is") from None

    def __dir__(self):
        return [*super().__dir__(), *self._numbers]

    def __repr__(self):
        return f"<triplepoint.Plan {self._numbers['plan']}: {self._numbers['step_time_s']:.4g} s a step>"


class Plans(_Rows):
    """The best plans, best first. ``results`` is all that ``triplepoint plan --format json`` prints."""
    _shown = frozenset(("plan", "step_time_s", "probability_slower", "tokens_per_second", "mfu", "energy_j", "power_mean_w",
                        "power_peak_w", "temperature_peak_c", "power_limit_w"))

    def __init__(self, results, jobs, top):
        self.results = results
        self._rows = results["plans"][:top]
        self._plans = [Plan(numbers, job) for numbers, job in zip(self._rows, jobs)]

    @property
    def best(self):
        """The first."""
        return self._plans[0]

    def __getitem__(self, index):
        return self._plans[index]

    def __repr__(self):
        return f"<triplepoint.Plans: {len(self)}, the first {self._rows[0]['plan']}>"


def plan(job, /, *, progress=None, **flags):
    """Finds the best layouts of a job: ``Plans``, best first. What the job says of its layout is free unless ``fix`` holds it.

        best = tp.plan(job, objective="energy", max_temperature=80, top=5)

    progress: as in ``sweep``. Arguments are the flags of ``triplepoint plan``; a dictionary stands for NAME=VALUE lists, as in
    fix={"tp": 8, "mbs": [1, 2]} or max_power={"gpu": "600 W"}.
    """
    base = _as_job(job)
    texts = _plan_flags.texts(flags)
    with Progress("Searching", progress) as bar:
        said, jobs = _core.plan(base._core, texts, bar)
    return Plans(json.loads(said), [Job._of(core) for core in jobs], flags.get("top") or 5)


_flags.describe(sweep, [_job_flags, _simulation_flags], _job, _threads, _progress)
_flags.describe(plan, [_plan_flags], _job, _progress)


class Comparison:
    """Runs beside each other; the first is the baseline. ``print`` shows what changed, as ``triplepoint compare`` does."""

    def __init__(self, core):
        self._core = core

    @property
    def sentences(self):
        """What changed, most important first."""
        return self._core.sentences()

    def to_dict(self):
        """All numbers side by side (docs/report.md has the keys)."""
        return json.loads(self._core.json())

    def save_page(self, file):
        """Writes the page of the comparison."""
        import os
        self._core.save_page(os.fspath(file))

    def __str__(self):
        return self._core.text(False)

    def __repr__(self):
        return f"<triplepoint.Comparison: {self.sentences[0] if self.sentences else 'no difference'}>"

    def _repr_html_(self):
        import html
        return (f"<ul>{''.join(f'<li>{html.escape(sentence)}</li>' for sentence in self.sentences)}</ul>"
                f"<pre>{html.escape(str(self))}</pre>")


def compare(*runs, names=None):
    """Puts runs, or files that ``read`` takes, side by side; the first is the baseline. names: what to call them."""
    from ._predict import read
    if len(runs) < 2:
        raise Error("only one run was given (there is nothing to compare it with); give two or more")
    runs = [run if isinstance(run, Run) else read(run) for run in runs]
    called = list(names) if names is not None else _names_of(runs)
    if len(called) != len(runs):
        raise Error(f"names has {len(called)} names for {len(runs)} runs; give one for each")
    return Comparison(_core.compare([run._core for run in runs], called))


def _names_of(runs):
    called = [run.name or "run" for run in runs]
    return called if len(set(called)) == len(called) else [f"{name} ({i})" for i, name in enumerate(called, 1)]


def calibrate(*files, output, job=None, threads=None):
    """Learns from measured runs: tables, recordings, logs, traces, temperatures; writes the folder `output` for ``with_``.

    job: a file that says what inputs ran that do not say so themselves; of one input, a pair does: ``(file, job)``. Returns what was learned as
    a dict, its sentence under "verdict".
    """
    pairs = [file if isinstance(file, tuple) else (file, job) for file in files]
    return json.loads(_core.calibrate([(os.fspath(file), None if ran is None else os.fspath(ran)) for file, ran in pairs], os.fspath(output),
                                      threads or 0))
