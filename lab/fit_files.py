# SPDX-License-Identifier: Apache-2.0
"""Numbers of TOML files of data/ by their dotted key, and the source that a fit leaves beside them."""
import re
from pathlib import Path

VECTOR = ("norm", "elementwise", "router", "embedding", "loss", "optimizer")  # classes of work that a fit tells as one


def set_number(path, key, text, item=None):
    """Writes one number: of a table, of an inline table ("power.joules_per_tflop.attention"), one item of a list, or of the item-th table of a name."""
    lines = path.read_text().splitlines(keepends=True)
    parts, table, tables = key.split("."), "", 0
    for i, line in enumerate(lines):
        if line.startswith("["):
            table = line.strip().strip("[]")
            tables += line.startswith(f"[[{parts[0]}]]")
            continue
        if tables and tables != item + 1:
            continue
        depth = len(table.split("."))
        if parts[:depth] != table.split(".") or not re.match(rf"{parts[depth]}\s*=", line):
            continue
        inner = parts[depth + 1] if len(parts) > depth + 1 else None
        for name in VECTOR if inner == "vector" else (inner,):
            line = replaced(line, name, text, None if tables else item)
        lines[i] = line
        path.write_text("".join(lines))
        return
    raise KeyError(f"{path}: no number is called {key}")


def replaced(line, inner, text, item):
    if inner:
        return re.sub(rf"(?<=[ {{]){inner} = [^,}} ]+", f"{inner} = {text}", line)
    if item is not None:
        items = re.search(r"\[(.*)\]", line)
        values = [value.strip() for value in items[1].split(",")]
        values[item] = text
        return line[:items.start()] + "[" + ", ".join(values) + "]" + line[items.end():]
    return re.sub(r"=.*", lambda _: f"= {text}", line, count=1)


def source_keys(problem):
    keys = []
    for number in problem.numbers:
        if number.file is None:
            keys += [number.key.replace("vector", name) for name in VECTOR] if number.key.endswith(".vector") else [number.key]
    return list(dict.fromkeys(keys))


def cite(problem, fit):
    bounds = "; ".join(f"{n.key.rsplit('.', 1)[-1]}{'' if n.item is None else f' {n.item}'} in {n.low:g} to {n.high:g}{' ' + n.unit if n.unit else ''}"
                       + (", on its bound" if not 0.005 < x < 0.995 else "") for n, x in zip(problem.numbers, fit["found"]) if n.file is None)
    shown = lambda label: f"median {fit[label]['median']:.2f}, p90 {fit[label]['p90']:.2f} {problem.unit}"
    held_out = f"; held out {shown('held_out')}" if fit["held_out"] else ""
    tables = ", ".join(Path(name).name for name in problem.tables)
    return f"lab/fit_tables.py {problem.what} {problem.subject}, {problem.name}: {fit['after']['rows']} rows of {tables}; {shown('after')}{held_out}; bounds: {bounds}"


def replace_source(path, keys, kind, cite_text, fit_name=None):
    """Makes this the source of the keys, in place of the one they had. The record of the former fit of that name goes."""
    source = "[[source]]\nkeys = [" + ", ".join(f'"{key}"' for key in keys) + f']\nkind = "{kind}"\ncite = "{cite_text}"\n'
    kept, written = [], False
    for block in re.split(r"\n(?=\[)", path.read_text()):
        if fit_name and block.startswith(f"[fit.{fit_name}]"):
            continue
        if block.startswith("[[source]]"):
            former = re.findall(r'"([^"]+)"', re.search(r"keys = \[(.*)\]", block)[1])
            left = [key for key in former if key not in keys]
            if not written and len(left) < len(former):
                kept.append(source)
                written = True
            if not left:
                continue
            block = re.sub(r"keys = \[.*\]", lambda _: "keys = [" + ", ".join(f'"{key}"' for key in left) + "]", block, count=1)
        kept.append(block.rstrip("\n") + "\n" if block.startswith("[") else block)
    if not written:
        kept.append(source)
    path.write_text("\n".join(kept))


def record(path, problem, fit):
    """The found numbers, their source, and the residuals in [fit]."""
    for number, x in zip(problem.numbers, fit["found"]):
        if number.file is None:
            set_number(path, number.key, number.text(number.from_unit(x)), number.item)
    replace_source(path, source_keys(problem), "fitted", cite(problem, fit), problem.name)
    residuals = "".join(f"{label} = {{ rows = {fit[label]['rows']}, median = {fit[label]['median']:.3f}, p90 = {fit[label]['p90']:.3f} }}\n"
                        for label in ("after", "held_out") if fit[label])
    path.write_text(path.read_text().rstrip() + f'\n\n[fit.{problem.name}]\nunit = "{problem.unit}"\n' + residuals)
