# SPDX-License-Identifier: Apache-2.0
"""Marks what a training is doing, for ``triplepoint record``.

    import triplepoint

    for number, batch in enumerate(loader):
        with triplepoint.step(number):
            with triplepoint.region("forward"):       # regions nest, per thread
                loss = model(batch)
            with triplepoint.span("all_reduce", "dp", bytes=4 * gradients):
                reduce(gradients)
            triplepoint.value("tokens", batch.tokens)           # this rank's share

    @triplepoint.region("evaluate")
    def evaluate(model): ...

Under ``triplepoint record -- python train.py`` the marks of every rank go into the run; without it, or
where libtriplepoint_mark.so is not found, every call does nothing and costs next to nothing. No call
raises, blocks or prints. One file, which may be copied beside a program as triplepoint.py; Python 3.8 and later.

Regions show when Python *launches* work. Where a GPU works behind (CUDA, HIP), wait for it at the end of
a step if the end of a step is to mean the end of its work: ``torch.cuda.synchronize()``.
"""
import ctypes
import functools
import os
import time

__all__ = ["step", "step_begin", "step_end", "region", "region_begin", "region_end", "span", "value", "marking", "now"]

STEP_BEGIN, STEP_END, REGION_BEGIN, REGION_END, SPAN, VALUE = range(6)  # as in mark.h
LIBRARY = "libtriplepoint_mark.so"


def _places():
    """Where the library may be: as the recorder says, beside an installed or built tree, as the system finds it."""
    named = os.environ.get("TRIPLEPOINT_MARK_LIBRARY")
    if named:
        yield named
    here = os.path.dirname(os.path.abspath(__file__))
    yield os.path.join(here, LIBRARY)
    yield os.path.join(here, "lib", LIBRARY)  # of a wheel
    yield os.path.normpath(os.path.join(here, "..", "..", "lib", LIBRARY))  # of a build folder
    yield os.path.normpath(os.path.join(here, "..", "..", "..", "..", "lib", LIBRARY))  # PREFIX/share/triplepoint/python/triplepoint
    yield LIBRARY


def _load(again=False):
    """The library's functions (put, name, open), or None where nobody listens."""
    if not os.environ.get("TRIPLEPOINT_MARKS"):
        return None, None, None
    for place in _places():
        try:
            # PyDLL keeps the interpreter's lock: a marker is shorter than letting it go and taking it again.
            library = ctypes.PyDLL(place)
            put, name, is_open = library.triplepoint_mark_put, library.triplepoint_mark_name, library.triplepoint_mark_open
            if again and hasattr(library, "triplepoint_mark_again"):
                library.triplepoint_mark_again()
        except (OSError, AttributeError):
            continue
        put.restype = name.restype = None
        put.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64,
                        ctypes.c_double, ctypes.c_double]
        return put, name, is_open
    return None, None, None


_put, _name, _is_open = _load()


def _listen():
    """Looks again whether somebody listens: a recording of this process begins or has ended."""
    global _put, _name, _is_open
    _put, _name, _is_open = _load(again=True)


def marking():
    """Whether a recorder listens: worth the work of finding things out for it."""
    return _put is not None and bool(_is_open())


def now():
    """The clock of all marks, in nanoseconds."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


@functools.lru_cache(maxsize=4096)
def _bytes(text):
    return None if text is None else str(text).encode("utf-8", "replace")


def _number(number):
    return -1 if number is None else int(number)


def _amount(amount):
    return -1.0 if amount is None else float(amount)


class _Decorator:
    def __call__(self, function):
        @functools.wraps(function)
        def marked(*arguments, **named):
            with self:
                return function(*arguments, **named)
        return marked


class _Step(_Decorator):
    __slots__ = ("_number",)

    def __init__(self, number):
        self._number = number

    def __enter__(self):
        step_begin(self._number)
        return self

    def __exit__(self, *_):
        step_end(self._number)
        return False


class _Region:
    """Marks the beginning and the end of a block, or of every call of a function. Holds no state: one is enough per name. It looks
    each time whether somebody listens, because a function may be decorated long before."""
    __slots__ = ("_name",)

    def __init__(self, name):
        self._name = _bytes(name)

    def __call__(self, function):
        @functools.wraps(function)
        def marked(*arguments, **named):
            if _name is None:
                return function(*arguments, **named)
            with self:
                return function(*arguments, **named)
        return marked

    def __enter__(self):
        if _name is not None:
            _name(REGION_BEGIN, self._name)
        return self

    def __exit__(self, *_):
        if _name is not None:
            _name(REGION_END, self._name)
        return False


class _Span:
    """Says when its block is over what it was; amounts may be set inside: ``with span(...) as s: s.bytes = n``."""
    __slots__ = ("bytes", "flops", "_kind", "_group", "_begin")

    def __init__(self, kind, group, bytes, flops):
        self.bytes, self.flops, self._kind, self._group = bytes, flops, kind, group

    def __enter__(self):
        self._begin = now()
        return self

    def __exit__(self, *_):
        if _put is not None:
            _put(SPAN, _bytes(self._kind), _bytes(self._group), self._begin, now(), -1, _amount(self.bytes),
                 _amount(self.flops))
        return False


class _Nothing:
    """A block, or a function, that nobody listens to."""
    bytes = flops = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False

    def __call__(self, function):
        return function


_nothing = _Nothing()


def step(number=None):
    """One training step, as a block; its number as the program counts."""
    return _nothing if _put is None else _Step(number)


def step_begin(number=None):
    """The beginning of a step, where a block does not fit (callbacks)."""
    if _put is not None:
        _put(STEP_BEGIN, None, None, 0, 0, _number(number), -1.0, -1.0)


def step_end(number=None):
    if _put is not None:
        _put(STEP_END, None, None, 0, 0, _number(number), -1.0, -1.0)


@functools.lru_cache(maxsize=4096)
def region(name):
    """A part of a step, as a block or as a decorator of a function. Few and fixed names."""
    return _Region(name)


def region_begin(name):
    if _put is not None:
        _name(REGION_BEGIN, _bytes(name))


def region_end(name=None):
    """The end of a region; without a name, of the innermost one of this thread."""
    if _put is not None:
        _name(REGION_END, _bytes(name))


def span(kind, group=None, bytes=None, flops=None):
    """A collective ("all_reduce") of a group ("tp", "dp", "pp", "ep", ...), or a computation, as a block."""
    return _nothing if _put is None else _Span(kind, group, bytes, flops)


def value(name, number):
    """A number that belongs to this moment. "tokens" and "samples" of all ranks are added up to those of the step, so
    that a rank says its share; others ("loss") are kept as series."""
    if _put is not None:
        _put(VALUE, _bytes(name), None, 0, 0, -1, float(number), -1.0)
