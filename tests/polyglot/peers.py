# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Clients of generated code and Debian's python3-thrift, and the server as a process."""

import collections
import struct
import threading
import unittest

from server_process import WAIT_S, Server  # noqa: F401, for the tests
from thrift.protocol.TBinaryProtocol import TBinaryProtocol, TBinaryProtocolAccelerated
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TSSLSocket, TTransport
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import DType, Gradient, SparseTensor, Tensor

# The framing, protocol and multiplexing of a client. If `multiplexed` is False, the client uses the
# default service of the server.
Way = collections.namedtuple("Way", "framed protocol multiplexed")
WAYS = [
    Way(framed, protocol, multiplexed)
    for framed in (True, False)
    for protocol in ("binary", "compact")
    for multiplexed in (True, False)
]
TALKS = [way for way in WAYS if way.multiplexed]
USUAL = Way(True, "binary", True)

_PROTOCOLS = {
    "binary": TBinaryProtocol,
    "accelerated": TBinaryProtocolAccelerated,
    "compact": TCompactProtocol,
}


class Client:
    """A connection to one service, with the calls of the generated client. A context manager.

    `tls`, an ssl.SSLContext, encrypts it.
    """

    def __init__(self, address, service, way=USUAL, timeout_s=WAIT_S, tls=None):
        if address.startswith("unix:"):
            socket = TSocket.TSocket(unix_socket=address[len("unix:"):])
        else:
            host, _, port = address.rpartition(":")
            socket = (TSSLSocket.TSSLSocket(host, int(port), ssl_context=tls) if tls is not None
                      else TSocket.TSocket(host, int(port)))
        socket.setTimeout(timeout_s * 1000)
        self.transport = (TTransport.TFramedTransport if way.framed
                          else TTransport.TBufferedTransport)(socket)
        self.protocol = protocol = _PROTOCOLS[way.protocol](self.transport)
        if way.multiplexed:
            protocol = TMultiplexedProtocol(protocol, service.__name__.rsplit(".", 1)[-1])
        self.calls = service.Client(protocol)

    def __enter__(self):
        self.transport.open()
        return self.calls

    def __exit__(self, *_):
        self.transport.close()


class Call(threading.Thread):
    """One call on a thread of its own; wait() returns its value or raises its exception."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call = call
        self._value = self._error = None
        self.start()

    def run(self):
        try:
            self._value = self._call()
        except Exception as error:  # passed to the waiting thread
            self._error = error

    def wait(self):
        self.join(WAIT_S)
        if self.is_alive():
            raise TimeoutError("the call did not end")
        if self._error is not None:
            raise self._error
        return self._value


class Waiting:
    """A push that the server has received but not answered; wait() is that of a Call. A context
    manager.

    The same connection puts a key after the push. When another client sees the key, the server has
    started to process the push.
    """

    def __init__(self, address, trainer, batch, param_loc, gradient, way=USUAL):
        key = "waiting/%d/%d/%d" % (trainer, batch, param_loc)
        self._client = Client(address, ParameterServer, way)
        push = self._client.__enter__()
        push.send_average_gradient(trainer, batch, param_loc, gradient)
        Rendezvous.Client(
            TMultiplexedProtocol(self._client.protocol, "Rendezvous")).send_put(key, b"")
        with Client(address, Rendezvous) as store:
            store.get(key, WAIT_S * 1000)
        self._call = Call(push.recv_average_gradient)

    def wait(self):
        return self._call.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._client.__exit__()


class ErrorTest(unittest.TestCase):
    """Tests of failing calls."""

    def assert_fails(self, code, call, *words):
        with self.assertRaises(ServiceError) as raised:
            call()
        failure = raised.exception
        self.assertEqual(ErrorCode._VALUES_TO_NAMES.get(failure.code),
                         ErrorCode._VALUES_TO_NAMES[code], failure.message)
        for word in words:
            self.assertIn(word, failure.message)
        return failure


def tensor(values, shape=None, dtype=DType.FLOAT32):
    letter = {DType.FLOAT32: "f", DType.FLOAT64: "d", DType.INT32: "i", DType.INT64: "q"}[dtype]
    return Tensor(dtype=dtype, shape=[len(values)] if shape is None else shape,
                  data=struct.pack("<%d%s" % (len(values), letter), *values))


def dense(values, shape=None, dtype=DType.FLOAT32):
    return Gradient(dense=tensor(values, shape, dtype))


def sparse(indices, rows, n_rows, dim):
    return Gradient(sparse=SparseTensor(
        indices=tensor(indices, dtype=DType.INT64),
        values=tensor(rows, [len(indices), dim]),
        shape=[n_rows, dim]))


def floats(data):
    return list(struct.unpack("<%df" % (len(data) // 4), data))
