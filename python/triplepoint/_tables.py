# SPDX-License-Identifier: Apache-2.0
"""Columns by name, as pandas, NumPy or plain lists have them."""
import html


def numpy_or_none():
    """NumPy, or None: it is not needed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def pandas_or_none():
    """pandas, or None."""
    try:
        import pandas
    except ImportError:
        return None
    return pandas


def as_array(values):
    """A list as an array where NumPy is there and all of it are numbers; None among them becomes not-a-number."""
    numpy = numpy_or_none()
    if numpy is None or not any(isinstance(value, (int, float)) for value in values):
        return values
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) or value is None for value in values):
        return numpy.array([numpy.nan if value is None else value for value in values])
    return values


def frame(columns):
    """Columns as a pandas.DataFrame."""
    pandas = pandas_or_none()
    if pandas is None:
        raise ImportError("pandas is not installed (it makes DataFrames); install it, or use to_dict(), which needs nothing")
    return pandas.DataFrame(columns)


def _cell(value):
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))


def html_table(columns, most=60):
    """A table for notebooks: what is unknown in all rows is left out."""
    shown = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    rows = list(zip(*shown.values()))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in shown)
    body = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row)}</tr>" for row in rows[:most])
    more = f"<p>{len(rows) - most} more rows</p>" if len(rows) > most else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
