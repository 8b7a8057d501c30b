# SPDX-License-Identifier: Apache-2.0
"""Speed, power and temperature of distributed LLM training: predicted, measured, compared.

    import triplepoint as tp

    job = tp.Job(model="llama3-70b", cluster="dgx-h100", nodes=16, tp=8, pp=4, gbs=512, sequence_parallel=True)
    run = tp.simulate(job)                     # run.step_time_s, run.power_mean_w, run.temperature_peak_c ...
    df = tp.sweep(job, tp=[2, 4, 8], power_limit=[500, 600, 700]).to_pandas()
    best = tp.plan(job, objective="energy", max_temperature=80, top=5)
    rec = tp.read("training.run")              # a recording: rec.series("power_w"), rec.timeline()

What a training does is marked by ``step``, ``region``, ``span`` and ``value`` (triplepoint.marks), which need nothing but
Python and are all that is loaded until another name is used. Units are in the names; what is not known is None.
docs/python.md has the rest.
"""
from .marks import (marking, now, region, region_begin, region_end, span, step, step_begin, step_end,  # noqa: F401
                    value)

_MARKS = ["marking", "now", "region", "region_begin", "region_end", "span", "step", "step_begin", "step_end", "value"]
_HOME = {"Error": "_predict", "Job": "_predict", "Run": "_predict", "Series": "_predict", "simulate": "_predict",
         "read": "_predict", "names": "_predict", "version": "_predict", "Sweep": "_many", "sweep": "_many", "Plan": "_many",
         "Plans": "_many", "plan": "_many", "Comparison": "_many", "compare": "_many", "calibrate": "_many", "record": "_record"}

__all__ = sorted(_MARKS + list(_HOME))


def __getattr__(name):
    if name == "__version__":
        return __getattr__("version")().split()[1]
    if name not in _HOME:
        raise AttributeError(f"module 'triplepoint' has no attribute '{name}'")
    import importlib
    try:
        found = getattr(importlib.import_module("." + _HOME[name], __name__), name)
    except ModuleNotFoundError as missing:
        raise ImportError(f"triplepoint.{name} needs the whole package (this installation has the marks only); in a clone of the sources: "
                          "pip install . --no-build-isolation") from missing
    globals()[name] = found
    return found


def __dir__():
    return __all__
