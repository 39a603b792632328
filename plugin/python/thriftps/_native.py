# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The C client through ctypes: the declarations of plugin/python/native/native.h.

ctypes cuts integers to the size of their C type, and C ends a string at its first NUL. Therefore
each argument of a call and each member of a struct has a Kind, which refuses values that C cannot
represent. Converters in `argtypes` would not do: they do not know the name of the argument, and
ctypes replaces their exceptions, even KeyboardInterrupt.
"""

import ctypes
import functools
import math
import operator
import os
import reprlib
import weakref
from ctypes import (
    POINTER,
    Structure,
    c_char_p,
    c_double,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, Iterable, List, NamedTuple
from typing import Optional, Tuple

from thriftps._methods import MEMBERS, METHODS
from thriftps.errors import InvalidArgument

MAX_DIMS = 8


# ---- values ----


class Kind(NamedTuple):
    """A C type, and the conversion of a value, given its name; None: values are passed as is."""

    type: Any
    convert: Optional[Callable[[str, Any], Any]] = None


Members = Tuple[Tuple[str, Kind], ...]

_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = _repr.maxlong = 100


def refuse(name: str, value: Any, expected: str, kind: Any = InvalidArgument) -> Exception:
    is_huge = isinstance(value, int) and value.bit_length() > 256  # Python may refuse to print it
    got = "an integer of %d bits" % value.bit_length() if is_huge else _repr.repr(value)
    return kind("%s is %s, expected %s" % (name, got, expected))


def _is_a(value: Any, *types: str) -> bool:
    """Returns True for scalars of Python, NumPy and PyTorch whose type has one of these names."""
    its_type = str(getattr(value, "dtype", type(value).__name__))
    return any(each in its_type for each in types)


def _to_integer(low: int, high: int, name: str, value: Any) -> int:
    if type(value) is not int:
        try:
            value = operator.index("" if _is_a(value, "bool") else value)
        except TypeError:
            raise refuse(name, value, "an integer", TypeError) from None
    if not low <= value <= high:
        raise refuse(name, value, "an integer in [%d, %d]" % (low, high))
    return value


def to_number(name: str, value: Any) -> float:
    """Returns a finite number."""
    if type(value) is float and math.isfinite(value):
        return value
    try:
        if math.isfinite("" if _is_a(value, "bool", "complex") else value):
            return float(value)
    except TypeError:
        raise refuse(name, value, "a number", TypeError) from None
    except OverflowError:  # an integer
        pass
    raise refuse(name, value, "a finite number")


def to_flag(name: str, value: Any) -> bool:
    if not _is_a(value, "bool"):
        raise refuse(name, value, "True or False", TypeError)
    return bool(value)


def to_ns(name: str, value: Any) -> int:
    """Converts a timeout from seconds to nanoseconds."""
    if not 0 < to_number(name, value) < 1e9:
        raise refuse(name, value, "seconds, more than 0 and less than 1e9")
    return int(value * 1e9)


def _to_ms(name: str, value: Any) -> int:
    if not 0 <= to_number(name, value) <= 2e6:
        raise refuse(name, value, "seconds, from 0 to 2e6")
    return round(value * 1000)


def _to_text(name: str, value: Any, types: Any = str, encode: Any = str.encode) -> bytes:
    if not isinstance(value, types):
        raise refuse(name, value, "a string", TypeError)
    try:
        encoded = encode(value)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise refuse(name, value, "UTF-8 without NUL")
    return encoded


def _to_path(name: str, value: Any) -> bytes:
    return _to_text(name, value, (str, os.PathLike), os.fsencode)


def _to_bytes(name: str, value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise refuse(name, value, "bytes", TypeError)
    return value


def texts(name: str, values: Iterable[str]) -> Any:
    """Returns a NULL-terminated array of strings, which keeps the strings alive."""
    if isinstance(values, (str, bytes)):
        raise refuse(name, values, "a list of strings", TypeError)
    encoded = [_to_text("%s[%d]" % (name, i), value) for i, value in enumerate(values)]
    return (c_char_p * (len(encoded) + 1))(*encoded, None)


def _convert(members: "Members", values: Iterable[Any]) -> List[Any]:
    return [
        convert(name, value) if convert is not None else value
        for (name, (_, convert)), value in zip(members, values)
    ]


def _or(default: Any, kind: Kind) -> Kind:
    """The kind of an optional value: None becomes `default`."""
    convert: Any = kind.convert
    return Kind(kind.type, lambda name, value: default if value is None else convert(name, value))


def _integer(c_type: Any) -> Kind:
    n_values = 1 << (8 * ctypes.sizeof(c_type))
    low = -n_values // 2 if c_type(-1).value < 0 else 0
    return Kind(c_type, functools.partial(_to_integer, low, low + n_values - 1))


INT64 = _integer(c_int64)
_INT32, _UINT32, _SIZE = _integer(c_int32), _integer(c_uint32), _integer(c_size_t)
_FLAG = Kind(c_int32, to_flag)
_NUMBER = Kind(c_double, to_number)
_NUMBER_OR_UNSET = _or(math.nan, _NUMBER)  # C's name for "unset" is NaN
_TIMEOUT = Kind(c_int64, to_ns)
_WAIT = Kind(c_int32, _to_ms)
_TEXT = Kind(c_char_p, _to_text)
_TEXT_OR_NULL = _or(None, _TEXT)
_PATH_OR_NULL = _or(None, Kind(c_char_p, _to_path))
_BYTES = Kind(c_char_p, _to_bytes)
_POINTER = Kind(c_void_p)
_TEXTS = Kind(POINTER(c_char_p))


# ---- structs ----


class TensorView(Structure):
    """Borrowed elements: dtype, number of dimensions, eight dimensions, address."""

    _fields_ = [
        ("dtype", c_int32),
        ("n_dims", c_uint32),
        *(("dim%d" % i, c_int64) for i in range(MAX_DIMS)),
        ("data", c_void_p),
    ]


class Reply(Structure):
    _fields_ = [
        ("code", c_int32),
        ("retry_after_ms", c_int32),
        ("message", c_char_p),
        ("number", c_int64),
        ("text", c_char_p),
        ("bytes", c_void_p),
        ("n_bytes", c_size_t),
        ("tensors", POINTER(TensorView)),
        ("names", POINTER(c_char_p)),
        ("n_tensors", c_uint32),
    ]


class Struct(Structure):
    """A struct that converts its members. Members without a value are 0."""

    members: ClassVar[Members]

    def __init__(self, *values: Any):
        super().__init__(*_convert(self.members, values))


def _to_fields(members: Members) -> List[Tuple[str, Any]]:
    return [(name, kind.type) for name, kind in members]


_VIEW = Kind(TensorView)

# Kinds by their names in _methods.py.
_KINDS = {
    "bytes": _BYTES,
    "flag": _FLAG,
    "i32": _INT32,
    "i64": INT64,
    "ms_i32": _WAIT,
    "ms_i64": Kind(c_int64, _to_ms),
    "number": _NUMBER,
    "number_or_unset": _NUMBER_OR_UNSET,
    "size": _SIZE,
    "text": _TEXT,
    "texts": _TEXTS,
    "u32": _UINT32,
    "views": Kind(POINTER(TensorView)),
}


class Initializer(Struct):
    members = tuple((name, _KINDS[kind]) for name, kind in MEMBERS["Initializer"])
    _fields_ = _to_fields(members)


class OptimizerSpec(Struct):
    members = tuple((name, _KINDS[kind]) for name, kind in MEMBERS["Optimizer"])
    _fields_ = _to_fields(members)


class Table(Struct):
    members = (
        ("size", _SIZE),
        ("name", _TEXT),
        ("rows", INT64),
        ("dim", _INT32),
        ("dtype", _INT32),
        ("rounding", _INT32),
        ("durability", _INT32),
        ("device", _TEXT_OR_NULL),
        ("shard", _INT32),
        ("server", _UINT32),
        ("initializer", Kind(Initializer)),
        ("optimizer", Kind(OptimizerSpec)),
        ("bytes", INT64),
    )
    _fields_ = _to_fields(members)

    def __init__(self, *values: Any):
        super().__init__(ctypes.sizeof(self), *values)


class BagQuery(Struct):
    members = (
        ("table", _TEXT),
        ("ids", _VIEW),
        ("offsets", _VIEW),
        ("pooling", _INT32),
        ("weights", _VIEW),
    )
    _fields_ = _to_fields(members)


class BagGradient(Struct):
    members = (("query", Kind(BagQuery)), ("gradient", _VIEW), ("maxima", _VIEW))
    _fields_ = _to_fields(members)


class Gradient(Struct):
    members = (
        ("kind", _INT32),
        ("weight", _NUMBER),
        ("dense", _VIEW),
        ("ids", _VIEW),
        ("values", _VIEW),
        ("rows", INT64),
    )
    _fields_ = _to_fields(members)


class Tls(Struct):
    members = (
        ("certificate", _PATH_OR_NULL),
        ("key", _PATH_OR_NULL),
        ("authorities", _PATH_OR_NULL),
        ("allow_tls_1_2", _FLAG),
    )
    _fields_ = _to_fields(members)


STRUCTS = (
    TensorView,
    Reply,
    Initializer,
    OptimizerSpec,
    Table,
    BagQuery,
    BagGradient,
    Gradient,
    Tls,
)


# ---- functions ----


_VIEWS = _KINDS["views"]
_TABLES = Kind(POINTER(Table))
_KINDS.update(
    gradient=Kind(POINTER(Gradient)), optimizer=Kind(POINTER(OptimizerSpec)), tables=_TABLES
)
_OPTIONS = (("tls", Kind(POINTER(Tls))), ("failed", Kind(POINTER(c_void_p))))


def _call(*parameters: Tuple[str, Kind]) -> Members:
    return (("client", _POINTER), *parameters, ("timeout", _TIMEOUT))


# Functions that get arguments of the caller. They return an object of the library.
CALLS: Dict[str, Members] = {
    "tables_new": (
        ("addresses", _TEXTS),
        ("n_addresses", _UINT32),
        ("client", _TEXT),
        ("exact", _FLAG),
        *_OPTIONS,
    ),
    "tables_create": _call(("table", _TABLES)),
    "tables_drop": _call(("name", _TEXT)),
    "tables_discover": _call(),
    "tables_list": _call(),
    "tables_lookup_bags": _call(("queries", Kind(POINTER(BagQuery))), ("n_queries", _UINT32)),
    "tables_apply_bags": _call(("steps", Kind(POINTER(BagGradient))), ("n_steps", _UINT32)),
    "tables_lookup_rows": _call(("table", _TEXT), ("ids", _VIEWS)),
    "tables_apply_rows": _call(("table", _TEXT), ("ids", _VIEWS), ("gradients", _VIEWS)),
    "client_new": (("address", _TEXT), ("no_shared_memory", _FLAG), *_OPTIONS),
    **{
        name: _call(*((each, _KINDS[kind]) for each, kind in parameters))
        for name, parameters in METHODS.items()
    },
}

# Functions whose arguments are made by this package.
FUNCTIONS = {
    "get_sizes": (POINTER(c_size_t), ()),
    "call_wait": (POINTER(Reply), (c_void_p, c_int64)),
    "call_free": (None, (c_void_p,)),
    "call_notify": (None, (c_void_p, c_void_p, c_uint64)),
    "queue_new": (c_void_p, ()),
    "queue_get_fd": (c_int32, (c_void_p,)),
    "queue_take": (c_uint32, (c_void_p, POINTER(c_uint64), c_uint32)),
    "queue_free": (None, (c_void_p, c_int32)),
    "tables_cancel": (None, (c_void_p,)),
    "tables_free": (None, (c_void_p, c_int32)),
    "client_cancel": (None, (c_void_p,)),
    "client_free": (None, (c_void_p, c_int32)),
}

_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libthriftps_python.so")


class Function:
    """A function of the library that gets arguments of the caller."""

    def __init__(self, native: Any, parameters: Members):
        self.native = native
        self._parameters = parameters

    def convert(self, arguments: Iterable[Any]) -> List[Any]:
        """Returns the arguments for `native`, or raises an error that names the wrong one."""
        return _convert(self._parameters, arguments)

    def __call__(self, *arguments: Any) -> Any:
        return self.native(*self.convert(arguments))


class _Library:
    """The functions by name, without the prefix tps_python_."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self) -> None:
        try:
            library = ctypes.CDLL(_FILE)
        except OSError as error:
            raise ImportError(
                "thriftps: cannot load %s: %s; GLib and OpenSSL 3 are needed "
                "(Debian: libglib2.0-0, libssl3)" % (_FILE, error)
            ) from error
        for name, (result, arguments) in FUNCTIONS.items():
            function = getattr(library, "tps_python_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        for name, parameters in CALLS.items():
            function = getattr(library, "tps_python_" + name)
            function.restype = c_void_p
            function.argtypes = [kind.type for _, kind in parameters]
            setattr(self, name, Function(function, parameters))
        sizes = self.get_sizes()
        for i, struct in enumerate(STRUCTS):
            if sizes[i] != ctypes.sizeof(struct):
                raise ImportError(
                    "thriftps: %s and the Python code have different versions: %s has "
                    "%d bytes, expected %d"
                    % (_FILE, struct.__name__, sizes[i], ctypes.sizeof(struct))
                )


lib = _Library()


# `__del__` of a class whose objects own an object of the library. It calls self._free, a native
# function with its arguments. No code of Python runs, in which an exception of a signal handler,
# such as KeyboardInterrupt, would be lost.
finalizer: Any = property(operator.attrgetter("_free"))
do_nothing: Any = int  # if there is nothing to free


def prune(references: Dict["weakref.ref[Any]", Any]) -> None:
    """Removes the entries of objects that no longer exist. Callbacks of weak references, and thus
    WeakSet, would remove them earlier, but would lose exceptions of signal handlers.
    """
    for each in list(references):
        if each() is None:
            references.pop(each, None)


class Handle:
    """An object of the library that is freed with its last reference.

    The functions that free objects wait for callbacks of the library. These callbacks never need
    Python, so the functions may run wherever Python collects garbage. In a child of fork(), the
    threads of the library do not exist, so a child must neither use nor free the handles of its
    parent.
    """

    __slots__ = ("pointer", "_cancel", "_free", "_pid", "__weakref__")
    __del__ = finalizer

    def __init__(self, pointer: int, cancel: Any, free: Any):
        self.pointer = pointer
        self._cancel = cancel
        self._pid = os.getpid()
        self._free = functools.partial(free, pointer, self._pid)
        prune(handles)
        handles[weakref.ref(self)] = None

    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()

    def cancel(self) -> None:
        """Cancels all calls of the object, which end soon. Later calls fail."""
        if self.is_of_this_process():
            self._cancel(self.pointer)


# All handles.
handles: Dict["weakref.ref[Handle]", None] = {}
