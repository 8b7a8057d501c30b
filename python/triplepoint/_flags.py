# SPDX-License-Identifier: Apache-2.0
"""Keyword arguments as the flags of the command line: names, texts, types and help come from the same table."""
import difflib
import inspect
import keyword
import numbers
import os
import textwrap

# The unit of a plain number, by the placeholder of a flag's value.
UNITS = {"POWER": "W", "TEMP": "C", "TIME": "s"}
_TYPES = {"N": "int", "POWER": "float | str", "TEMP": "float | str", "TIME": "float | str", "LIST": "str | Sequence[int | str]",
          "RATIO": "float | str", "SHARE": "float | str", "FACTOR": "float", "MONEY": "float", "GRAMS": "float", "": "bool"}


def python_name(flag):
    """ "tensor_model_parallel_size" of "--tensor-model-parallel-size"; "with_" of "--with", which Python has for itself."""
    name = flag.lstrip("-").replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


class Flag:
    """One flag as a keyword argument."""

    def __init__(self, table):
        long_names = [name for name in table["names"] if name.startswith("--")]
        self.flag = long_names[0]
        self.name, *self.aliases = map(python_name, long_names)
        self.value, self.help, self.group = table["value"], table["help"], table["group"]
        self.choices, self.repeats = table["choices"], table["repeats"]

    @property
    def type(self):
        """As annotations spell it."""
        if self.choices:
            one = f"Literal[{', '.join(repr(choice) for choice in self.choices)}]"
        elif self.value == "N" and "as in" in self.help:  # 15T
            one = "float | str"
        else:
            one = _TYPES.get(self.value, "str")
        return f"str | Sequence[str]" if self.repeats else one

    @property
    def text(self):
        """The help, with the unit of a plain number."""
        unit = UNITS.get(self.value)
        return self.help + (f"; a plain number is in {'°C' if unit == 'C' else unit}" if unit else "")

    def texts(self, value):
        """What the command line would be given: a list of (flag, text)."""
        if value is None or (not self.value and value is False):
            return []
        if not self.value:
            if value is not True:
                raise TypeError(f"{self.name} is a switch; give True or False, not {value!r}")
            return [(self.flag, "")]
        if self.repeats and isinstance(value, (list, tuple)):
            return [(self.flag, self._text(one)) for one in value]
        return [(self.flag, self._text(value))]

    def _text(self, value):
        if isinstance(value, bool):
            raise TypeError(f"{self.name} takes {self.type}, not {value!r}")
        if isinstance(value, numbers.Number):
            unit = UNITS.get(self.value)
            return _number(value) + (f" {unit}" if unit else "")
        if isinstance(value, dict):
            return ",".join(f"{key}={_joined(one, '|')}" for key, one in value.items())
        return _joined(value, ",")


def _number(value):
    return str(int(value)) if isinstance(value, numbers.Integral) else repr(float(value))


def _joined(value, separator):
    if isinstance(value, numbers.Number):
        return _number(value)
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    return separator.join(_joined(one, separator) for one in value)


class Flags:
    """The flags of one call, by every name that they have."""

    def __init__(self, call, tables):
        self.call = call
        self.all = [Flag(table) for table in tables]
        self._by_name = {name: flag for flag in self.all for name in [flag.name, *flag.aliases]}

    def __contains__(self, name):
        return name in self._by_name

    def named(self, arguments):
        """The arguments by the first name of each flag; a name that no flag has is a TypeError."""
        by_name = {}
        for name, value in arguments.items():
            if name not in self._by_name:
                raise TypeError(self.unknown(name))
            first = self._by_name[name].name
            if first in by_name:
                raise TypeError(f"{self.call}() got {first} and {name}, which are the same; keep one of them")
            by_name[first] = value
        return by_name

    def unknown(self, name):
        close = difflib.get_close_matches(name, self._by_name, 1)
        return f"{self.call}() has no argument {name!r}" + (f"; did you mean {close[0]}?" if close else f"; help(triplepoint."
                                                                                                       f"{self.call}) lists them")

    def texts(self, arguments):
        """(flag, text) of all arguments."""
        return [pair for name, value in self.named(arguments).items() for pair in self._by_name[name].texts(value)]

    def parameters(self):
        """For the signature that help() and notebooks show."""
        return [inspect.Parameter(flag.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=flag.type)
                for flag in self.all]

    def document(self):
        """All arguments with their help, by group."""
        lines, group = [], None
        for flag in self.all:
            if flag.group != group:
                group = flag.group
                lines += ["", f"{group}:"]
            names = flag.name + (f" (or {', '.join(flag.aliases)})" if flag.aliases else "")
            lines += textwrap.wrap(f"{names}: {flag.text}", 100, initial_indent="    ", subsequent_indent="        ")
        return "\n".join(lines)


def describe(function, flags, *first):
    """Gives a function (or a class) the signature and the help of its flags, behind its own parameters `first`."""
    function.__signature__ = inspect.Signature([*first, *(parameter for each in flags for parameter in each.parameters())])
    function.__doc__ = inspect.cleandoc(function.__doc__) + "\n" + "".join("\n" + each.document().lstrip("\n") + "\n"
                                                                         for each in flags)
    return function
