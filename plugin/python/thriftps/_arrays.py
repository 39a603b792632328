# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Conversions between arrays of Python and tensors of the C client, without a copy if possible."""

import array
import ctypes
import enum
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from thriftps._native import INT64, MAX_DIMS, TensorView
from thriftps.errors import InvalidArgument

try:
    import numpy
except ImportError:  # NumPy is optional: arrays of the standard library replace it
    numpy = None


class DType(enum.IntEnum):
    """Element types, with the numbers of DType in thrift/tensor.thrift."""

    FLOAT32 = 1
    FLOAT64 = 2
    FLOAT16 = 3
    BFLOAT16 = 4
    INT32 = 5
    INT64 = 6


_SIZES = {
    DType.FLOAT32: 4,
    DType.FLOAT64: 8,
    DType.FLOAT16: 2,
    DType.BFLOAT16: 2,
    DType.INT32: 4,
    DType.INT64: 8,
}
# bfloat16 has no type in NumPy; ml_dtypes describes it as "<V2" in the array interface.
_TYPESTRS = {
    "<f4": DType.FLOAT32,
    "<f8": DType.FLOAT64,
    "<f2": DType.FLOAT16,
    "<i4": DType.INT32,
    "<i8": DType.INT64,
    "<V2": DType.BFLOAT16,
}
_TYPESTR_OF = {dtype: typestr for typestr, dtype in _TYPESTRS.items()}
_FORMATS = {
    "f": DType.FLOAT32,
    "d": DType.FLOAT64,
    "e": DType.FLOAT16,
    "i": DType.INT32,
    "q": DType.INT64,
    "l": DType.INT64,
}
_FORMAT_OF = {
    DType.FLOAT32: "f",
    DType.FLOAT64: "d",
    DType.FLOAT16: "e",
    DType.BFLOAT16: "H",
    DType.INT32: "i",
    DType.INT64: "q",
}
_MAX_INT64 = (1 << 63) - 1
_NO_DIMS = (0,) * MAX_DIMS

NO_TENSOR = TensorView()


def to_dtype(value: Any) -> DType:
    """Returns the DType for a DType, a name ("float32") or a dtype of NumPy or PyTorch."""
    if isinstance(value, DType):
        return value
    name = str(value).rpartition(".")[2].upper()
    if name not in DType.__members__:
        name = getattr(value, "__name__", "").upper()  # numpy.float32 itself
    try:
        return DType[name]
    except KeyError:
        raise TypeError(
            "dtype %r is unknown, expected one of %s"
            % (value, ", ".join(each.name.lower() for each in DType))
        ) from None


def _make(dtype: DType, shape: Sequence[int], address: Optional[int]) -> TensorView:
    n_dims = len(shape)
    if n_dims > MAX_DIMS:
        raise ValueError("%d dimensions, at most %d are possible" % (n_dims, MAX_DIMS))
    return TensorView(dtype, n_dims, *shape, *_NO_DIMS[n_dims:], address)


def _view_of_torch(tensor: Any) -> Tuple[TensorView, Any]:
    if tensor.device.type != "cpu":
        raise TypeError("the tensor is on %s: move it with .cpu()" % tensor.device)
    tensor = tensor.detach().contiguous()
    return _make(to_dtype(tensor.dtype), tensor.shape, tensor.data_ptr()), tensor


def _view_of_numpy(values: Any) -> Tuple[TensorView, Any]:
    if not values.flags.c_contiguous:
        values = numpy.ascontiguousarray(values)
    interface = values.__array_interface__
    dtype = _TYPESTRS.get(interface["typestr"])
    if dtype is None or (dtype is DType.BFLOAT16 and values.dtype.name != "bfloat16"):
        raise TypeError("an array of %s cannot be sent" % values.dtype)
    return _make(dtype, interface["shape"], interface["data"][0]), values


def _view_of_buffer(values: Any) -> Tuple[TensorView, Any]:
    buffer = memoryview(values)
    if not buffer.c_contiguous:
        buffer = memoryview(buffer.tobytes()).cast("B").cast(buffer.format, buffer.shape)
    dtype = _FORMATS.get(buffer.format)
    if dtype is None:
        raise TypeError("a buffer of format %r cannot be sent" % buffer.format)
    shape = buffer.shape
    if buffer.readonly:
        kept = (ctypes.c_char * max(buffer.nbytes, 1)).from_buffer_copy(buffer.tobytes() or b"\0")
    elif buffer.nbytes == 0:
        return _make(dtype, shape, None), buffer
    else:
        kept = (ctypes.c_char * buffer.nbytes).from_buffer(buffer)
    return _make(dtype, shape, ctypes.addressof(kept)), kept


def _view_of_list(values: Sequence[Any], dtype: DType) -> Tuple[TensorView, Any]:
    if numpy is not None:
        given = numpy.asarray(values)
        if given.size and given.dtype.kind not in "fiu":
            raise TypeError("a list of %s cannot be sent" % given.dtype)
        with numpy.errstate(over="ignore"):
            numbers = given.astype(_TYPESTR_OF[dtype])
        if numpy.isinf(numbers).sum() != numpy.isinf(given).sum():
            raise InvalidArgument("a number of the list is outside of FLOAT32")
        return _view_of_numpy(numbers)
    flat = list(values)
    shape = [len(flat)]
    while flat and isinstance(flat[0], (list, tuple)):
        if len({len(row) for row in flat}) != 1:
            raise ValueError("rows are of different lengths")
        shape.append(len(flat[0]))
        flat = [each for row in flat for each in row]
    kept = array.array(_FORMAT_OF[dtype], flat)
    if sum(map(math.isinf, kept)) != sum(map(math.isinf, flat)):
        raise InvalidArgument("a number of the list is outside of FLOAT32")
    return _make(dtype, shape, kept.buffer_info()[0]), kept


def view(values: Any, default: DType = DType.FLOAT32) -> Tuple[TensorView, Any]:
    """Returns (TensorView, owner of the elements) for an array of NumPy, a tensor of PyTorch on the
    CPU, a buffer, or lists of numbers, which become `default`.
    """
    if numpy is not None and isinstance(values, numpy.ndarray):
        return _view_of_numpy(values)
    if hasattr(values, "data_ptr"):
        return _view_of_torch(values)
    if isinstance(values, (list, tuple, range)):
        return _view_of_list(values, default)
    return _view_of_buffer(values)


def _to_ids(name: str, values: Any) -> List[int]:
    return [INT64.convert("%s[%d]" % (name, i), value) for i, value in enumerate(values)]


def view_of_ids(values: Any, name: str = "ids") -> Tuple[TensorView, Any]:
    """Like view(), but for integers, which become INT64 with one dimension."""
    if hasattr(values, "data_ptr"):
        dtype = str(values.dtype).rpartition(".")[2]
        ids = values.long().reshape(-1) if dtype.startswith(("int", "uint")) else None
        if ids is None or (dtype == "uint64" and bool((ids < 0).any())):
            raise TypeError("%s are integers in INT64, not %s" % (name, values.dtype))
        return _view_of_torch(ids)
    is_list = isinstance(values, (list, tuple, range))
    if numpy is not None:
        ids = numpy.asarray(values)
        kind = ids.dtype.kind
        are_ids = kind == "i" or (kind == "u" and int(ids.max(initial=0)) <= _MAX_INT64)
        if ids.size == 0 or (are_ids and not (is_list and bool in set(map(type, values)))):
            return _view_of_numpy(ids.astype("<i8", copy=False).reshape(-1))
        return _view_of_numpy(numpy.array(_to_ids(name, values if is_list else ids.flat), "<i8"))
    if not is_list:
        buffer = memoryview(values)
        if _FORMATS.get(buffer.format) is DType.INT64:
            return _view_of_buffer(buffer)
        values = buffer.tolist()
    return _view_of_list(_to_ids(name, values), DType.INT64)


class _Elements:
    """An object from which NumPy makes an array, and which refers to `owner`."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, interface: Dict[str, Any], owner: Any):
        self.__array_interface__ = interface
        self.owner = owner


def _bfloat16() -> Any:
    try:
        import ml_dtypes

        return numpy.dtype(ml_dtypes.bfloat16)
    except ImportError:
        return numpy.dtype("<u2")


def wrap(tensor: TensorView, owner: Any) -> Any:
    """Returns a read-only view of the elements of a TensorView: a NumPy array, or a memoryview if
    NumPy is not installed. The view keeps `owner` alive. For bfloat16, the array has the type of
    the module ml_dtypes; without that module, it has the bits as uint16.
    """
    dtype = DType(tensor.dtype)
    shape = tuple(getattr(tensor, "dim%d" % i) for i in range(tensor.n_dims))
    n_bytes = _SIZES[dtype]
    for dim in shape:
        n_bytes *= dim
    if numpy is not None:
        if n_bytes == 0:
            return numpy.zeros(
                shape, _bfloat16() if dtype is DType.BFLOAT16 else _TYPESTR_OF[dtype]
            )
        typestr = "<u2" if dtype is DType.BFLOAT16 else _TYPESTR_OF[dtype]
        values = numpy.asarray(
            _Elements(
                {"shape": shape, "typestr": typestr, "data": (tensor.data, True), "version": 3},
                owner,
            )
        )
        return values.view(_bfloat16()) if dtype is DType.BFLOAT16 else values
    if n_bytes == 0:
        return memoryview(b"").cast(_FORMAT_OF[dtype])
    kind = type("Memory", (ctypes.Array,), {"_type_": ctypes.c_char, "_length_": n_bytes})
    memory = kind.from_address(tensor.data)
    memory.owner = owner
    return memoryview(memory).cast("B").cast(_FORMAT_OF[dtype], shape).toreadonly()
