# SPDX-License-Identifier: Apache-2.0
"""Every notebook of examples/notebooks runs from its first cell to its last, and is kept without outputs.

    notebooks_test.py FOLDER_OF_PACKAGE FOLDER_OF_NOTEBOOKS

With nbclient and ipykernel they run as in Jupyter; else their code cells run in this process.
"""
import ast
import json
import os
import pathlib
import sys
import tempfile
import time

PACKAGE, NOTEBOOKS = map(os.path.abspath, sys.argv[1:3])
os.environ["PYTHONPATH"] = PACKAGE
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # a warning of the kernel about Python's own modules
sys.path.insert(0, PACKAGE)


def show(value):
    """As a notebook shows the last value of a cell."""
    if value is None:
        return
    for method in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, method):
            assert getattr(value, method)().lstrip().startswith("<")
    repr(value)


def run_cell(source, name, names):
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), names)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), name, "eval"), names))


def run_plain(file):
    names = {}
    for number, cell in enumerate(json.loads(file.read_text(encoding="utf-8"))["cells"]):
        if cell["cell_type"] == "code":
            run_cell("".join(cell["source"]), f"{file.name}, cell {number}", names)


def run_as_jupyter_does(file):
    import nbclient
    import nbformat
    notebook = nbformat.read(file, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, startup_timeout=120, kernel_name="python3").execute()
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def check_is_clean(file):
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        assert not cell.get("outputs") and cell.get("execution_count") is None, f"{file.name} has outputs; clear them"


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
            check_is_clean(file)
            run_plain(file)
            plain = time.monotonic() - begin
            outputs = run_as_jupyter_does(file) if has_jupyter() else None
            print(f"{file.name}: {plain:.1f} s" + (f", in Jupyter {time.monotonic() - begin - plain:.1f} s, {len(outputs)} outputs"
                                                   if outputs else ", nbclient is not installed"))
            if outputs is not None:
                assert any("text/html" in output.get("data", {}) for output in outputs), f"{file.name} shows no run"


if __name__ == "__main__":
    main()
