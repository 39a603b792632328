# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Tensors through memory that a Python client shares with a ThriftPS server on the same machine.

The module needs the code that Thrift generates and Thrift's Python library. For arrays, it also
needs NumPy.

    import numpy
    from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
    from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
    from thrift.transport.TTransport import TFramedTransport
    from thriftps.parameter_server import ParameterServer
    from thriftps.tensor.ttypes import Gradient
    from thriftps_shared_memory import DescriptorSocket, SharedMemory

    socket = DescriptorSocket("/run/ps.sock")  # thriftps_server --listen=unix:/run/ps.sock
    transport = TFramedTransport(socket)
    protocol = TBinaryProtocolAccelerated(transport)
    server = ParameterServer.Client(TMultiplexedProtocol(protocol, "ParameterServer"))
    transport.open()
    weights = numpy.zeros(1 << 20, numpy.float32)
    with SharedMemory(socket, protocol, request_bytes=64 << 20, answer_bytes=64 << 20) as memory:
        for batch in range(10):
            gradient = numpy.ones_like(weights)  # replace this by the gradient of your model
            with memory.call() as call:
                pushed = Gradient(dense=call.tensor(gradient))
                answer = call.take(server.average_gradient(0, batch, 0, pushed))
                weights -= 0.1 * call.array(answer.dense)

If there is no room for a tensor, or if the server offers no shared memory, tensors are sent inline,
with the same results. thrift/memory.thrift has the rules of the memory.
"""

import fcntl
import mmap
import os
import socket
import stat

from thrift.Thrift import TApplicationException, TException
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket
from thrift.transport.TTransport import TTransportException
from thriftps.memory import Memory
from thriftps.memory.ttypes import SegmentKind, SegmentUse
from thriftps.node import Node
from thriftps.node.ttypes import ServiceError
from thriftps.tensor.ttypes import DType, SharedSlice, Tensor

MIN_BYTES = 65536  # smaller tensors are sent inline
_ALIGNMENT = 64  # of a slice's offset
_MAX_DESCRIPTORS = 16  # in one read; a server sends one at a time

# From <linux/fcntl.h>. Since Python 3.8, fcntl has them if the C library does.
_F_GET_SEALS = getattr(fcntl, "F_GET_SEALS", 1034)
_F_SEAL_SHRINK = getattr(fcntl, "F_SEAL_SHRINK", 2)

_NUMPY_TYPES = {
    DType.FLOAT32: "<f4",
    DType.FLOAT64: "<f8",
    DType.FLOAT16: "<f2",
    DType.INT32: "<i4",
    DType.INT64: "<i8",
}


class DescriptorSocket(TSocket.TSocket):
    """A TSocket on a Unix socket that receives the file descriptor that receive_descriptor()
    expects. It closes any other descriptor; otherwise a server could exhaust this process's
    descriptors.
    """

    def __init__(self, path):
        super().__init__(unix_socket=path)
        self._is_awaited = self._is_cut_off = False
        self._descriptor = None

    def receive_descriptor(self, call):
        """Returns the result of call(), and the file descriptor that came with its reply, which the
        caller must close.
        """
        self._is_awaited, self._is_cut_off = True, False
        try:
            answer = call()
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is None:
                raise TException(
                    "this process has no room for another file descriptor, see `ulimit -n`"
                    if self._is_cut_off
                    else "the server opened a segment but sent no file descriptor for it")
            return answer, descriptor
        finally:
            self._is_awaited = False
            if self._descriptor is not None:  # the descriptor came with an error
                os.close(self._descriptor)
                self._descriptor = None

    def read(self, sz):
        try:
            data, descriptors, flags, _ = socket.recv_fds(self.handle, sz, _MAX_DESCRIPTORS,
                                                          socket.MSG_CMSG_CLOEXEC)
        except socket.timeout as error:
            raise TTransportException(TTransportException.TIMED_OUT, "read timeout", error)
        except OSError as error:
            raise TTransportException(message="cannot read: %s" % error, inner=error)
        self._is_cut_off = self._is_cut_off or bool(flags & socket.MSG_CTRUNC)
        for descriptor in descriptors:
            if self._is_awaited and self._descriptor is None:
                self._descriptor = descriptor
            else:
                os.close(descriptor)
        if not data:
            raise TTransportException(TTransportException.END_OF_FILE,
                                      "the server closed the connection")
        return data


class _Segment:
    """One mapped segment. In the segment of the requests, the first `used` bytes belong to the
    current call.
    """

    def __init__(self, segment, use, n_bytes, descriptor):
        segment.validate()
        # If the peer truncated the file, accesses would end this process with SIGBUS, so the seals
        # are checked.
        status = os.fstat(descriptor)
        if (segment.bytes < n_bytes or not stat.S_ISREG(status.st_mode)
                or status.st_size != segment.bytes):
            raise TException("the server's shared memory is not a file of %d bytes (%d were "
                             "requested)" % (segment.bytes, n_bytes))
        if not _seals(descriptor) & _F_SEAL_SHRINK:
            raise TException("the server's shared memory is not sealed against shrinking")
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if use == SegmentUse.REQUESTS else 0)
        self.id = segment.id
        try:
            self.bytes = memoryview(
                mmap.mmap(descriptor, segment.bytes, mmap.MAP_SHARED, protection))
        except OSError as error:
            raise TException("cannot map the server's shared memory: %s" % error) from error
        self.used = 0


def _seals(descriptor):
    try:
        return fcntl.fcntl(descriptor, _F_GET_SEALS)
    except OSError:  # a file without seals
        return 0


class SharedMemory:
    """The segments of one connection: one for the arguments of calls and one for replies. A context
    manager.

    connection  the DescriptorSocket below `protocol`, open
    protocol    the protocol of the connection, not a TMultiplexedProtocol; this class itself adds
                one for each service that it calls
    request_bytes, answer_bytes   sizes of the two segments, for all tensors of one call or one
                                  reply; 0 = none

    Like a generated client, it must be used by one thread and for one call at a time.
    """

    def __init__(self, connection, protocol, request_bytes, answer_bytes):
        self._socket = connection
        self._memory = Memory.Client(TMultiplexedProtocol(protocol, "Memory"))
        self._requests = self._answers = None
        limit = self._get_limit(protocol)
        if 0 < request_bytes <= limit:
            self._requests = self._open(SegmentUse.REQUESTS, request_bytes)
            limit -= request_bytes
        if 0 < answer_bytes <= limit:
            self._answers = self._open(SegmentUse.ANSWERS, answer_bytes)

    @property
    def is_offered(self):
        """True if there is shared memory; otherwise, all tensors are sent inline."""
        return self._requests is not None or self._answers is not None

    def call(self):
        """Returns a context manager for one call; see Call."""
        return Call(self)

    def close(self):
        """Returns the segments to the server if the connection is still open. Arrays of replies
        stay readable.
        """
        both = (self._requests, self._answers)
        segments = [segment.id for segment in both if segment is not None]
        self._requests = self._answers = None
        if segments and self._socket.handle is not None:
            self._memory.close_segments(segments)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()

    @staticmethod
    def _get_limit(protocol):
        try:
            node = Node.Client(TMultiplexedProtocol(protocol, "Node"))
            return node.describe().max_shared_bytes or 0
        except TApplicationException:  # the server does not have the service
            return 0

    def _open(self, use, n_bytes):
        try:
            segment, descriptor = self._socket.receive_descriptor(
                lambda: self._memory.open_segment(SegmentKind.MEMFD, use, n_bytes))
        except ServiceError:  # no room, or another user: tensors are sent inline
            return None
        try:
            return _Segment(segment, use, n_bytes, descriptor)
        finally:
            os.close(descriptor)


class Call:
    """One call. It begins before the first tensor is written, and ends after the last use of the
    reply. A context manager. It must not be used after an exception that reports a lost connection.

    Within the context, tensor() makes arguments, and take(), data() and array() read the reply. The
    end of the context frees the memory of both for the next call, so copy the values that you keep.
    """

    def __init__(self, memory):
        self._memory = memory
        self._lent = False

    def tensor(self, values, dtype=None, shape=None):
        """A Tensor with the elements of `values`: an array of NumPy (with ml_dtypes, for BFLOAT16),
        a tensor of PyTorch on the CPU, or another object with a dtype that numpy.asarray() accepts,
        in any layout. Any object with bytes works if dtype (a DType) and shape are given. For an
        array, they only describe its bits: nothing is converted. The bytes are copied once into
        shared memory, or sent inline; an array that is not contiguous is copied a second time.
        """
        if hasattr(values, "dtype"):
            found, values = _array_of(values)
            dtype = found if dtype is None else dtype
            if dtype is None:
                raise TypeError("no DType for %s" % values.dtype)
        elif dtype is None or shape is None:
            raise TypeError("%s has no dtype and shape: give dtype and shape"
                            % type(values).__name__)
        shape = list(values.shape if shape is None else shape)
        data = _bytes_of(values)
        shared = self._place(data)
        if shared:
            return Tensor(dtype, shape, shared=shared)
        return Tensor(dtype, shape, data=bytes(data))

    def take(self, answer):
        """Returns `answer` unchanged. Its memory is returned to the server at the end of the call,
        even if the reply was not read.
        """
        self._lent = self._lent or _has_slice(answer)
        return answer

    def data(self, tensor):
        """Returns the bytes of a tensor of the reply, in place: a memoryview, which must not be
        used after the call.
        """
        if tensor.shared is None:
            return memoryview(tensor.data or b"")
        answers, shared = self._memory._answers, tensor.shared
        shared.validate()
        if answers is None or shared.segment != answers.id:
            raise TException("segment %d is not one for answers" % shared.segment)
        end = shared.offset + shared.length
        if shared.offset < 0 or shared.length < 0 or end > len(answers.bytes):
            raise TException("[%d, + %d) is not in the segment of %d bytes"
                             % (shared.offset, shared.length, len(answers.bytes)))
        self._lent = True
        return answers.bytes[shared.offset:end]

    def array(self, tensor):
        """Like data(), but returns a read-only NumPy array. BFLOAT16 has the type of the module
        ml_dtypes.
        """
        import numpy
        tensor.validate()
        values = numpy.frombuffer(self.data(tensor), _numpy_type(tensor.dtype))
        values = values.reshape(tensor.shape)
        values.flags.writeable = False
        return values

    def __enter__(self):
        if self._memory._requests is not None:
            self._memory._requests.used = 0
        return self

    def __exit__(self, kind, *_):
        answers = self._memory._answers
        is_connected = kind is None or not issubclass(kind, TTransportException)
        if self._lent and answers is not None and is_connected:
            self._memory._memory.release_segments([answers.id])

    def _place(self, data):
        requests = self._memory._requests
        if requests is None or not MIN_BYTES <= len(data) <= len(requests.bytes) - requests.used:
            return None
        shared = SharedSlice(requests.id, requests.used, len(data))
        requests.bytes[shared.offset:shared.offset + shared.length] = data
        requests.used += -(-len(data) // _ALIGNMENT) * _ALIGNMENT
        return shared


def _array_of(values):
    """Returns the DType (None = unknown) and the NumPy array of an object with a dtype."""
    import numpy
    if str(values.dtype) == "torch.bfloat16":  # NumPy has no such type
        import torch
        return DType.BFLOAT16, values.detach().view(torch.int16).numpy()
    values = numpy.asarray(values)
    if values.dtype.name == "bfloat16":
        return DType.BFLOAT16, values
    matches = (dtype for dtype, name in _NUMPY_TYPES.items() if values.dtype == name)
    return next(matches, None), values


def _numpy_type(dtype):
    if dtype == DType.BFLOAT16:
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(
                "arrays of BFLOAT16 need the module ml_dtypes; without it data() gives the bits: "
                "numpy.frombuffer(call.data(tensor), \"<u2\")") from error
        return ml_dtypes.bfloat16
    if dtype not in _NUMPY_TYPES:
        raise TException("the tensor is of DType %s, which NumPy does not have" % dtype)
    return _NUMPY_TYPES[dtype]


def _bytes_of(values):
    """Returns the bytes of a NumPy array, or of an object that memoryview() accepts, row-major."""
    if hasattr(values, "dtype"):
        import numpy
        values = numpy.ascontiguousarray(values).reshape(-1).view("u1")
    view = memoryview(values)
    # cast() refuses shapes with zeros and views with gaps.
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


def _has_slice(value):
    """Returns True if a generated struct, or a list of them, contains a SharedSlice."""
    if isinstance(value, SharedSlice):
        return True
    if isinstance(value, (list, tuple)):
        return any(_has_slice(item) for item in value)
    return any(_has_slice(item) for item in getattr(value, "__dict__", {}).values())
