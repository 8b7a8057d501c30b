# SPDX-License-Identifier: Apache-2.0
"""Every notebook of examples/notebooks runs from its first cell to its last, and says what it is kept with.

    notebooks_test.py FOLDER_OF_PACKAGE FOLDER_OF_NOTEBOOKS [--write]

With nbclient and ipykernel they run as in Jupyter; else their code cells run in this process.
"""
import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time

PACKAGE, NOTEBOOKS = map(os.path.abspath, sys.argv[1:3])
WRITES = "--write" in sys.argv[3:]
os.environ["PYTHONPATH"] = PACKAGE
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning of the kernel about Python's own modules
sys.path.insert(0, PACKAGE)


def shown(value):
    """As a notebook shows the last value of a cell: one output, or none."""
    if value is None:
        return []
    data = {"text/plain": lines(repr(value))}
    for kind, method in (("text/html", "_repr_html_"), ("image/svg+xml", "_repr_svg_")):
        if hasattr(value, method):
            data[kind] = lines(getattr(value, method)())
            assert data[kind][0].lstrip().startswith("<")
    return [{"output_type": "execute_result", "data": data, "metadata": {}}]


def lines(text):
    return text.splitlines(keepends=True)


def run_cell(source, name, names):
    """Outputs of a cell, as nbformat 4 has them."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), names)
        value = eval(compile(ast.Expression(last.value), name, "eval"), names) if last is not None else None
    text = printed.getvalue().split("\r")[-1]  # without progress, which slow machines show
    stream = [{"output_type": "stream", "name": "stdout", "text": lines(text)}] if text else []
    return stream + shown(value)


def run_plain(file):
    """The notebook with the outputs of this run."""
    notebook = json.loads(file.read_text(encoding="utf-8"))
    names, count = {}, 0
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        count += 1
        cell["execution_count"] = count
        cell["outputs"] = run_cell("".join(cell["source"]), f"{file.name}, cell {number}", names)
        for output in cell["outputs"]:
            if output["output_type"] == "execute_result":
                output["execution_count"] = count
    return notebook


def run_as_jupyter_does(file):
    import nbclient
    import nbformat
    notebook = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, startup_timeout=120, kernel_name="python3").execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def texts(notebook):
    """What its cells print and show as text."""
    def text(output):
        return "".join(output.get("text", output.get("data", {}).get("text/plain", [])))

    return [[shown for shown in map(text, cell.get("outputs", [])) if shown]
            for cell in notebook["cells"] if cell["cell_type"] == "code"]


def check_outputs(file, now):
    kept = json.loads(file.read_text(encoding="utf-8"))
    for number, (old, new) in enumerate(zip(texts(kept), texts(now), strict=True), 1):
        assert old == new, f"{file.name}, code cell {number} says now\n{new}\nand not\n{old}\nwrite it again with --write"


def has_jupyter():
    try:
        import ipykernel  # noqa: F401
        import nbclient  # noqa: F401
        import nbformat  # noqa: F401
    except ImportError:
        return False
    return True


def main():
    files = sorted(pathlib.Path(NOTEBOOKS).glob("*.ipynb"))
    assert len(files) >= 2, f"no notebooks in {NOTEBOOKS}"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder  # Jupyter's settings
        for file in files:
            begin = time.monotonic()
            now = run_plain(file)
            if WRITES:
                file.write_text(json.dumps(now, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            check_outputs(file, now)
            plain = time.monotonic() - begin
            outputs = run_as_jupyter_does(file) if has_jupyter() else None
            print(f"{file.name}: {plain:.1f} s" + (f", in Jupyter {time.monotonic() - begin - plain:.1f} s, {len(outputs)} outputs"
                                                   if outputs else ", nbclient is not installed"))
            if outputs is not None:
                assert any("text/html" in output.get("data", {}) for output in outputs), f"{file.name} shows no run"


if __name__ == "__main__":
    main()
