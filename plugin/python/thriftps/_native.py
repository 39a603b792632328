# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The C client through ctypes: the declarations of plugin/python/native/native.h."""

import ctypes
import os
import weakref
from typing import TYPE_CHECKING, Any, Iterable, Optional, TypeVar
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

MAX_DIMS = 8


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


class Initializer(Structure):
    _fields_ = [
        ("kind", c_int32),
        ("low", c_double),
        ("high", c_double),
        ("mean", c_double),
        ("stdev", c_double),
        ("seed", c_int64),
    ]


class OptimizerSpec(Structure):
    _fields_ = [
        ("kind", c_int32),
        ("learning_rate", c_double),
        ("momentum", c_double),
        ("weight_decay", c_double),
        ("epsilon", c_double),
        ("beta1", c_double),
        ("beta2", c_double),
        ("l1", c_double),
        ("l2", c_double),
        ("beta", c_double),
    ]


class Table(Structure):
    _fields_ = [
        ("name", c_char_p),
        ("rows", c_int64),
        ("dim", c_int32),
        ("dtype", c_int32),
        ("rounding", c_int32),
        ("initializer", Initializer),
        ("optimizer", OptimizerSpec),
        ("place", c_char_p),
        ("durability", c_int32),
        ("shard_kind", c_int32),
        ("server", c_uint32),
    ]


class BagQuery(Structure):
    _fields_ = [
        ("table", c_char_p),
        ("indices", TensorView),
        ("offsets", TensorView),
        ("pooling", c_int32),
        ("weights", TensorView),
    ]


class BagGradient(Structure):
    _fields_ = [("query", BagQuery), ("gradient", TensorView)]


class Gradient(Structure):
    _fields_ = [
        ("kind", c_int32),
        ("weight", c_double),
        ("dense", TensorView),
        ("indices", TensorView),
        ("values", TensorView),
        ("rows", c_int64),
    ]


class Tls(Structure):
    _fields_ = [
        ("certificate", c_char_p),
        ("key", c_char_p),
        ("authorities", c_char_p),
        ("allow_tls_1_2", c_int32),
    ]


_STRUCTS = (
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

_POINTER = c_void_p
_TEXT = c_char_p
_TEXTS = POINTER(c_char_p)
_VIEW = POINTER(TensorView)


_FUNCTIONS = {
    "get_sizes": (POINTER(c_size_t), ()),
    "call_wait": (POINTER(Reply), (_POINTER, c_int64)),
    "call_free": (None, (_POINTER,)),
    "call_notify": (None, (_POINTER, _POINTER, c_uint64)),
    "queue_new": (_POINTER, ()),
    "queue_get_fd": (c_int32, (_POINTER,)),
    "queue_take": (c_uint32, (_POINTER, POINTER(c_uint64), c_uint32)),
    "queue_unref": (None, (_POINTER,)),
    "tables_new": (
        _POINTER,
        (_TEXTS, c_uint32, _TEXT, c_int32, POINTER(Tls), POINTER(c_void_p)),
    ),
    "tables_cancel": (None, (_POINTER,)),
    "tables_free": (None, (_POINTER,)),
    "tables_create": (_POINTER, (_POINTER, POINTER(Table), c_int64)),
    "tables_drop": (_POINTER, (_POINTER, _TEXT, c_int64)),
    "tables_discover": (_POINTER, (_POINTER, c_int64)),
    "tables_list": (_POINTER, (_POINTER, c_int64)),
    "tables_lookup_bags": (_POINTER, (_POINTER, POINTER(BagQuery), c_uint32, c_int64)),
    "tables_apply_bags": (_POINTER, (_POINTER, POINTER(BagGradient), c_uint32, c_int64)),
    "tables_lookup_rows": (_POINTER, (_POINTER, _TEXT, _VIEW, c_int64)),
    "tables_apply_rows": (_POINTER, (_POINTER, _TEXT, _VIEW, _VIEW, c_int64)),
    "client_new": (_POINTER, (_TEXT, c_int32, POINTER(Tls), POINTER(c_void_p))),
    "client_cancel": (None, (_POINTER,)),
    "client_free": (None, (_POINTER,)),
    "describe": (_POINTER, (_POINTER, c_int64)),
    "get_metrics": (_POINTER, (_POINTER, c_int64)),
    "clear_metrics": (_POINTER, (_POINTER, c_int64)),
    "set_log_level": (_POINTER, (_POINTER, _TEXT, c_int64)),
    "forget_push_clients": (_POINTER, (_POINTER, _TEXT, c_int64, c_int64)),
    "average_gradient": (
        _POINTER,
        (_POINTER, c_int32, c_int64, c_int32, POINTER(Gradient), c_int64),
    ),
    "reset_state": (_POINTER, (_POINTER, c_int64)),
    "init_model": (_POINTER, (_POINTER, _TEXTS, _VIEW, c_uint32, POINTER(OptimizerSpec), c_int64)),
    "get_model": (_POINTER, (_POINTER, c_int64)),
    "update_model": (
        _POINTER,
        (_POINTER, c_int32, _VIEW, c_uint32, c_int64, _TEXT, c_int64, c_int64),
    ),
    "put": (_POINTER, (_POINTER, _TEXT, _TEXT, c_size_t, c_int64)),
    "get": (_POINTER, (_POINTER, _TEXT, c_int32, c_int64)),
    "add": (_POINTER, (_POINTER, _TEXT, c_int64, _TEXT, c_int64, c_int64)),
    "remove": (_POINTER, (_POINTER, _TEXT, c_int64)),
    "flush": (_POINTER, (_POINTER, c_int64)),
    "snapshot": (_POINTER, (_POINTER, c_int32, c_int64)),
    "restore": (_POINTER, (_POINTER, _TEXTS, POINTER(Table), c_uint32, c_int64)),
    "import_table": (_POINTER, (_POINTER, POINTER(Table), _TEXTS, _TEXT, c_int64)),
    "read_log": (_POINTER, (_POINTER, c_int64, c_int32, c_int32, c_int64)),
    "lookup_rows_with_lsns": (_POINTER, (_POINTER, _TEXT, _VIEW, c_int64)),
    "assign_rows": (_POINTER, (_POINTER, _TEXT, _VIEW, _VIEW, c_int64, _TEXT, c_int64, c_int64)),
}

_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libthriftps_python.so")


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
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(library, "tps_python_" + name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        sizes = self.get_sizes()
        for i, struct in enumerate(_STRUCTS):
            if sizes[i] != ctypes.sizeof(struct):
                raise ImportError(
                    "thriftps: %s and the Python code have different versions: %s has "
                    "%d bytes, expected %d"
                    % (_FILE, struct.__name__, sizes[i], ctypes.sizeof(struct))
                )


lib = _Library()


class Handle:
    """An object of the library that is freed with its last reference.

    The functions that free objects wait for callbacks of the library. These callbacks never need
    Python, so the functions may run wherever Python collects garbage. In a child of fork(), the
    threads of the library do not exist, so a child must neither use nor free the handles of its
    parent.
    """

    __slots__ = ("pointer", "_cancel", "_free", "_pid", "__weakref__")

    def __init__(self, pointer: int, cancel: Any, free: Any):
        self.pointer = pointer
        self._cancel = cancel
        self._free = free
        self._pid = os.getpid()
        clients.add(self)

    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()

    def cancel(self) -> None:
        """Cancels all calls of the object, which end soon. Later calls fail."""
        if self.is_of_this_process():
            self._cancel(self.pointer)

    def __del__(self, getpid: Any = os.getpid) -> None:
        if self._pid == getpid():
            self._free(self.pointer)


# All handles.
clients: "weakref.WeakSet[Handle]" = weakref.WeakSet()


_Self = TypeVar("_Self", bound="Closing")


class Closing:
    """A context manager with a handle."""

    _handle: Optional[Handle]

    def close(self) -> None:
        """Ends in-flight calls with Aborted. The object must not be used afterwards."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def texts(values: Iterable[str]) -> Any:
    """Returns a NULL-terminated array of strings, which keeps the strings alive."""
    encoded = [value.encode() for value in values]
    return (c_char_p * (len(encoded) + 1))(*encoded, None)
