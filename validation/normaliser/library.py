# SPDX-License-Identifier: Apache-2.0
"""Facts of the library (data/) and the rules beside this package, read with tomllib."""
import copy
import functools
import pathlib
import re
import tomllib

VALIDATION = pathlib.Path(__file__).resolve().parent.parent
DATA = VALIDATION.parent / "data"


def read(path):
    with open(path, "rb") as file:
        return tomllib.load(file)


@functools.cache
def rules(name):
    return read(VALIDATION / "rules" / f"{name}.toml")


@functools.cache
def recipes(name):
    return read(VALIDATION / "recipes" / f"{name}.toml").get("recipe", [])


def merged(base, over):
    out = copy.deepcopy(base)
    for key, value in over.items():
        out[key] = merged(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def _load(kind, name, table):
    file = read(DATA / kind / f"{name}.toml")
    own = file.get(table, {})
    base = own.pop("base", None)
    return merged(_load(kind, base, table), own) if base else own


@functools.cache
def model(name):
    shape = _load("models", name, "model")
    shape.setdefault("num_query_groups", shape["num_attention_heads"])
    shape.setdefault("kv_channels", shape["hidden_size"] // shape["num_attention_heads"])
    return shape


@functools.cache
def models():
    return {path.stem for path in (DATA / "models").glob("*.toml")}


@functools.cache
def cluster(name):
    return _load("clusters", name, "cluster")


@functools.cache
def gpu(name):
    return _load("gpus", name, "gpu")


@functools.cache
def optimizer(name):
    return _load("optimizers", name, "optimizer")


BYTES = {"MiB": 1 << 20, "GiB": 1 << 30, "GB": 10**9}


def bytes_of(quantity):
    value, unit = str(quantity).split()
    return float(value) * BYTES[unit]


GENERATIONS = {"v100": "volta", "a100": "ampere", "h100": "hopper", "h200": "hopper", "h800": "hopper", "b200": "blackwell", "b300": "blackwell",
               "gb200": "blackwell", "gb300": "blackwell", "mi250": "cdna2", "mi250x": "cdna2", "mi300x": "cdna3", "mi325x": "cdna3", "mi350x": "cdna4",
               "mi355x": "cdna4"}


def generation(gpu_name):
    return GENERATIONS.get(re.split("-", gpu_name)[0], "")
