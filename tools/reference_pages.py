# SPDX-License-Identifier: Apache-2.0
"""Pages of the site: the keys of input files from `triplepoint schema`, the Python package from its type stubs."""
import ast
import json
import re
import subprocess
import textwrap

from repository import ROOT

STUBS = ROOT / "python/triplepoint/__init__.pyi"
BLOCKS = ("kernels", "power", "thermal", "governor", "sensor", "variability")
HOMES = {"model": "model", "cluster": "cluster", "gpu": "gpu", "stack": "stack", "optimizer": "optimizer", "records": "records", **dict.fromkeys(BLOCKS, "calibration")}
EXAMPLES = {"job": "triplepoint simulate FILE", "study": "triplepoint characterize FILE", "model": "--model FILE", "gpu": "gpu = \"FILE\" of a cluster",
            "cluster": "--cluster FILE", "stack": "--stack FILE", "optimizer": "--optimizer FILE", "records": "--records FILE",
            "calibration": "data/calibrations/GPU/BLOCK.toml"}


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


# Files --------------------------------------------------------------------------------------------------------------------------------


def schema_of(program, kind):
    return json.loads(subprocess.run([program, "schema", kind], capture_output=True, text=True, check=True).stdout)


def kinds_of(program):
    said = subprocess.run([program, "schema", "none"], capture_output=True, text=True, check=False).stderr
    return [kind for kind in re.search(r"known are (.*)", said)[1].split(", ") if kind != "results"]


def inner(schema):
    """The table that a value is or lists; None of a plain value."""
    items = schema.get("items", {})
    return schema if "properties" in schema else items if "properties" in items else None


def type_of(schema):
    if "enum" in schema:
        return "one of " + ", ".join(f"`{word}`" for word in schema["enum"])
    if "$ref" in schema:
        return "as in a job"
    if "anyOf" in schema and any("$ref" in each for each in schema["anyOf"]):
        return "as in a job, or a list of values"
    kind = schema.get("type")
    if isinstance(kind, list):
        return "name, file or table"
    if kind == "array":
        return "tables" if inner(schema) else f"list: {type_of(schema['items'])}"
    words = {"integer": "whole number", "number": "number", "boolean": "`true` or `false`", "object": "table", None: ""}
    return words.get(kind, "number and unit, in quotes" if "pattern" in schema else "text")


def home_of(key, schema, kind):
    """The page that has this table's keys, if it is another."""
    home = HOMES.get(key)
    return home if inner(schema) and home and home != kind else None


def row(key, schema, required, kind):
    home, usual = home_of(key, schema, kind), schema.get("default")
    type_ = type_of(schema) + (f", see [{home}]({home}.md)" if home else "")
    default = "**required**" if required else "" if usual is None else f"`{json.dumps(usual)}`"
    about = "" if inner(schema) and not home else schema.get("description", "")
    return f"| `{key}` | {type_} | {default} | {cell(about)} |"


def table(path, schema, needs, kind):
    """The keys of one table, then its tables. needs: which keys a table described from scratch must have, as the schema has them below "then"."""
    required = schema.get("required", []) + needs.get("required", [])
    shown = {key: each for key, each in schema["properties"].items() if not ("$ref" in each or any("$ref" in one for one in each.get("anyOf", [])))}
    left = [key for key in schema["properties"] if key not in shown]
    lines = [f"## {path}", ""] if path else []
    if path and schema.get("description"):
        lines += [cell(schema["description"]), ""]
    if left:
        whose = "the `[plan]` of a [job](job.md)" if "model" not in left else "a [job](job.md)" + (" and of its `[plan]`" if "schedule" in left else "")
        varies = "anyOf" in schema["properties"][left[0]]
        lines += [f"Keys of {whose}" + (", each with a value or a list of values." if varies else "."), ""]
    if shown:
        lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
        lines += [row(key, each, key in required, kind) for key, each in shown.items()] + [""]
    for key, each in shown.items():
        if inner(each) and not home_of(key, each, kind):
            below = needs.get("properties", {}).get(key, {})
            listed = each.get("type") == "array"
            name = f"{path.strip('[]')}.{key}" if path else key
            lines += table(f"[[{name}]]" if listed else f"[{name}]", inner(each), below.get("items", below.get("then", below)), kind)
    return lines


def file_page(program, kind):
    schema = schema_of(program, kind)
    lines = [f"# {kind.capitalize()} files", "",
             f"Made from `triplepoint schema {kind}`; used as `{EXAMPLES[kind]}`. [Input files](../formats.md) has what all files share. "
             "Keys are required where a thing is described from scratch, not beside `base`.", ""]
    return "\n".join(lines + table("", schema, schema.get("then", {}), kind))


def write_files(program, folder):
    (folder / "files").mkdir(exist_ok=True)
    lines = ["# Input files by key", "", "| file | used as |", "|---|---|"]
    for kind in kinds_of(program):
        lines.append(f"| [{kind}]({kind}.md) | `{EXAMPLES[kind]}` |")
        (folder / "files" / f"{kind}.md").write_text(file_page(program, kind))
    lines += ["", "Made from `triplepoint schema KIND`, by which [editors](../formats.md#completion-and-checks-in-editors) complete and check these files.", ""]
    (folder / "files/results.md").write_text(results_page(program))
    (folder / "files/index.md").write_text("\n".join(lines))


# Results ------------------------------------------------------------------------------------------------------------------------------


def result_rows(schema, path=""):
    """A row of the table for each key; the keys below it follow."""
    for key, each in schema["properties"].items():
        place = f"{path}.{key}" if path else key
        column = f"`{each['x-column']}`" if "x-column" in each else ""
        yield f"| `{place}` | {column} | {each.get('x-unit', '')} | {cell(each.get('description', ''))} |"
        if "properties" in each:
            yield from result_rows(each, place)


def results_page(program):
    return "\n".join(["# Keys of results", "",
                      "Made from `triplepoint schema results`; [results](../results-schema.md) has what they share.", "",
                      "| key | column of results.csv | unit | meaning |", "|---|---|---|---|", *result_rows(schema_of(program, "results")), ""])


# Python -------------------------------------------------------------------------------------------------------------------------------


def text_of(node):
    """A docstring as Markdown: lists of arguments below a heading become tables, indented lines code."""
    lines = []
    for block in re.split(r"\n\s*\n", ast.get_docstring(node) or ""):
        heading, _, rest = block.partition("\n")
        if heading.endswith(":") and not heading.startswith(" ") and re.match(r" {4}\w", rest):
            entries = [entry.partition(": ") for entry in re.sub(r"\n {4,}", " ", textwrap.dedent(rest)).splitlines()]
            lines += [f"*{heading}*", "", "| argument | meaning |", "|---|---|", *(f"| `{name}` | {cell(about)} |" for name, _, about in entries), ""]
        elif block.startswith("    "):
            lines += ["```python", *textwrap.dedent(block).splitlines(), "```", ""]
        else:
            lines += [re.sub(r"``(.+?)``", r"`\1`", block).replace("<", "&lt;"), ""]
    return lines


def signature(node):
    """As called; the flags of commands, which have their own list, as an ellipsis."""
    plain = ast.parse(ast.unparse(node)).body[0]
    arguments = plain.args
    if len(arguments.kwonlyargs) > 8:
        arguments.kwonlyargs, arguments.kw_defaults = [], []
        arguments.kwarg = ast.arg("flags")
    for each in filter(None, [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs]):
        each.annotation = None
    arguments.posonlyargs = [each for each in arguments.posonlyargs if each.arg != "self"]
    arguments.args = [each for each in arguments.args if each.arg != "self"]
    returns = f" -> {ast.unparse(plain.returns)}" if plain.returns and node.name != "__init__" else ""
    return f"({ast.unparse(arguments)}){returns}"


def class_page(node):
    made = [each for each in node.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    lines = [f"## {node.name}" , "", *(["```python", f"{node.name}{signature(made[0])}", "```", ""] if made else []), *text_of(node)]
    values = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    if values:
        lines += ["| attribute | type |", "|---|---|"]
        lines += [f"| `{ast.unparse(each.target)}` | `{cell(ast.unparse(each.annotation))}` |" for each in values] + [""]
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("_"):
            lines += [f"### {node.name}.{each.name}", "", "```python", f"{each.name}{signature(each)}", "```", "", *text_of(each)]
    return lines


def write_python(folder):
    lines = ["# Python reference", "", "Made from the type stubs; [the package](python.md) is described with examples.", ""]
    for node in ast.parse(STUBS.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            lines += class_page(node)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            lines += [f"## {node.name}", "", "```python", f"{node.name}{signature(node)}", "```", "", *text_of(node)]
    (folder / "python-reference.md").write_text("\n".join(lines))
