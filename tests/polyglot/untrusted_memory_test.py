# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Python clients that share memory, with a server that violates the protocol or a process without
free file descriptors."""

import fcntl
import os
import resource
import socket
import tempfile
import unittest

import junit
from thrift.Thrift import TException
from thrift.TMultiplexedProcessor import TMultiplexedProcessor
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.memory import Memory
from thriftps.memory.ttypes import Segment
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode, NodeInfo, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, Gradient, SharedSlice, Tensor
from thriftps_shared_memory import DescriptorSocket, SharedMemory

BYTES = 1 << 20
SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


def sealed_file(n_bytes, seals=SEALS):
    descriptor = os.memfd_create("segment", os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, n_bytes)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


def open_descriptors():
    return set(os.listdir("/proc/self/fd"))


class SendingSocket(TSocket.TSocket):
    """The server's end: `outgoing` is sent with the next bytes."""

    def __init__(self, handle):
        super().__init__()
        self.setHandle(handle)
        self.outgoing = []

    def write(self, data):
        outgoing, self.outgoing = self.outgoing, []
        sent = socket.send_fds(self.handle, [data], outgoing)
        self.handle.sendall(data[sent:])
        for descriptor in outgoing:
            os.close(descriptor)


class ServedTransport(TTransport.TFramedTransport):
    """The client's end. serve() reads and answers a call as soon as it has been sent."""

    def __init__(self, transport, serve):
        super().__init__(transport)
        self._serve = serve

    def flush(self):
        super().flush()
        self._serve()


class Untrusted:
    """A server of one connection, without a thread, and the handler of its services. Tests replace
    its parts with hostile ones:

    segment(number)   the Segment in the reply, None for an error, and the descriptors of the reply
    stray()           the descriptors of any other reply average           the reply to every
    gradient
    """

    def __init__(self, segment=None, stray=lambda: [], average=None):
        self._segment = segment or (lambda number: (Segment(number, BYTES), [sealed_file(BYTES)]))
        self._stray, self._average = stray, average
        self._n_segments = 0
        self.released = []
        ours, theirs = socket.socketpair()
        self._socket = SendingSocket(ours)
        self.client_socket = DescriptorSocket(None)
        self.client_socket.setHandle(theirs)
        processor = TMultiplexedProcessor()
        for service in (Node, Memory, ParameterServer):
            processor.registerProcessor(service.__name__.rsplit(".", 1)[-1],
                                        service.Processor(self))
        protocol = TBinaryProtocolAccelerated(TTransport.TFramedTransport(self._socket))
        self.client_transport = ServedTransport(self.client_socket,
                                                lambda: processor.process(protocol, protocol))

    def describe(self):
        self._socket.outgoing = self._stray()
        return NodeInfo("untrusted", "0", max_shared_bytes=2 * BYTES)

    def open_segment(self, kind, segment_use, n_bytes):
        self._n_segments += 1
        segment, self._socket.outgoing = self._segment(self._n_segments)
        if segment is None:
            raise ServiceError(ErrorCode.RESOURCE_EXHAUSTED, "no room")
        return segment

    def release_segments(self, segments):
        self.released.append(segments)

    def close_segments(self, segments):
        pass

    def average_gradient(self, trainer, batch, param_loc, gradient):
        self._socket.outgoing = self._stray()
        return self._average

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client_socket.close()
        self._socket.close()


class UntrustedServerTest(unittest.TestCase):

    def setUp(self):
        self.before = open_descriptors()

    def client(self, server, answer_bytes=BYTES):
        """Its SharedMemory and its ParameterServer."""
        protocol = TBinaryProtocolAccelerated(server.client_transport)
        memory = SharedMemory(server.client_socket, protocol, BYTES, answer_bytes)
        return memory, ParameterServer.Client(TMultiplexedProtocol(protocol, "ParameterServer"))

    def assert_refused(self, segment, words):
        with Untrusted(segment=segment) as server, self.assertRaisesRegex(TException, words):
            self.client(server)
        self.assertEqual(open_descriptors(), self.before)

    def test_server_that_keeps_to_the_rules(self):
        average = Gradient(dense=Tensor(DType.FLOAT32, [4], shared=SharedSlice(2, 0, 16)))
        with Untrusted(average=average) as server:
            memory, calls = self.client(server)
            with memory.call() as call:
                answer = call.take(calls.average_gradient(0, 0, 0, Gradient()))
                self.assertEqual(bytes(call.data(answer.dense)), bytes(16))
            self.assertEqual(server.released, [[2]])

    def test_segment_without_a_descriptor(self):
        self.assert_refused(lambda number: (Segment(number, BYTES), []),
                            "server .* sent no file descriptor")

    def test_descriptor_beside_an_error_is_closed(self):
        with Untrusted(segment=lambda number: (None, [sealed_file(BYTES)])) as server:
            memory, _ = self.client(server)
            self.assertFalse(memory.is_offered)
        self.assertEqual(open_descriptors(), self.before)

    def test_segment_without_required_fields(self):
        self.assert_refused(lambda number: (Segment(None, BYTES), [sealed_file(BYTES)]),
                            "id is unset")
        self.assert_refused(lambda number: (Segment(number, None), [sealed_file(BYTES)]),
                            "bytes is unset")

    def test_file_of_another_size(self):
        for in_answer, in_file in ((BYTES, BYTES - 4096), (BYTES, 2 * BYTES), (4096, 4096), (0, 0),
                                   (-BYTES, BYTES)):
            with self.subTest(in_answer=in_answer, in_file=in_file):
                self.assert_refused(lambda number: (Segment(number, in_answer),
                                                    [sealed_file(in_file)]), "bytes")

    def test_file_that_may_shrink(self):
        self.assert_refused(lambda number: (Segment(number, BYTES),
                                            [sealed_file(BYTES, fcntl.F_SEAL_GROW)]), "not sealed")

    def test_no_file(self):
        self.assert_refused(lambda number: (Segment(number, BYTES),
                                            [os.open("/dev/null", os.O_RDWR)]), "is not a file")

    def test_file_without_seals(self):
        def segment(number):
            with tempfile.TemporaryFile() as file:
                file.truncate(BYTES)
                return Segment(number, BYTES), [os.dup(file.fileno())]
        self.assert_refused(segment, "not sealed")

    def test_file_that_cannot_be_mapped(self):
        def segment(number):
            descriptor = sealed_file(BYTES)
            try:
                return Segment(number, BYTES), \
                    [os.open("/proc/self/fd/%d" % descriptor, os.O_RDONLY)]
            finally:
                os.close(descriptor)
        self.assert_refused(segment, "map")

    def test_descriptors_that_nobody_asked_for_are_closed(self):
        def segment(number):
            return Segment(number, BYTES), [sealed_file(BYTES) for _ in range(3)]

        def stray():
            return [sealed_file(4096) for _ in range(3)]

        with Untrusted(segment, stray, average=Gradient()) as server:
            memory, calls = self.client(server)
            held = open_descriptors()
            for batch in range(5):
                calls.average_gradient(0, batch, 0, Gradient())
            self.assertEqual(open_descriptors(), held)
            self.assertEqual(len(memory._requests.bytes), BYTES)
            memory.close()
        del memory
        self.assertEqual(open_descriptors(), self.before)

    def test_client_without_descriptors_says_so(self):
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)

        def segment(number):
            descriptor = sealed_file(BYTES)
            resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
            return Segment(number, BYTES), [descriptor]

        with Untrusted(segment) as server:
            try:
                with self.assertRaisesRegex(TException, "this process .* file descriptor"):
                    self.client(server)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)

    def test_slice_where_there_is_no_segment(self):
        average = Gradient(dense=Tensor(DType.FLOAT32, [4], shared=SharedSlice(7, 0, 16)))
        with Untrusted(average=average) as server:
            memory, calls = self.client(server, answer_bytes=0)
            with memory.call() as call:
                answer = call.take(calls.average_gradient(0, 0, 0, Gradient()))
                with self.assertRaisesRegex(TException, "segment 7 is not one for answers"):
                    call.data(answer.dense)
            self.assertEqual(server.released, [])

    def test_slice_without_required_fields(self):
        for shared in (SharedSlice(None, 0, 16), SharedSlice(2, None, 16), SharedSlice(2, 0, None)):
            average = Gradient(dense=Tensor(DType.FLOAT32, [4], shared=shared))
            with self.subTest(shared), Untrusted(average=average) as server:
                memory, calls = self.client(server)
                with memory.call() as call:
                    answer = call.take(calls.average_gradient(0, 0, 0, Gradient()))
                    with self.assertRaisesRegex(TException, "is unset"):
                        call.data(answer.dense)


if __name__ == "__main__":
    junit.main()
