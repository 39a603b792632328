# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Python clients share memory with the server, next to C and Python clients without sharing: all
get the same bytes."""

import array
import contextlib
import itertools
import os
import re
import subprocess
import textwrap
import unittest
import unittest.mock

import junit
import peers
import thriftps_shared_memory
from peers import Call, Client, Server
from thrift.Thrift import TException
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TTransport
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import TableSpec
from thriftps.node.ttypes import ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.parameter_server.ttypes import NamedTensor
from thriftps.tensor.ttypes import (DType, Gradient, Optimizer, OptimizerKind, PushId,
                                    SharedSlice, Tensor)
from thriftps_shared_memory import DescriptorSocket, SharedMemory

try:
    import numpy
except ImportError:
    numpy = None
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

MIB = 1 << 20
N_ELEMS = 300000
SOCKET = "shared_memory.sock"


def values(seed, n_elems=N_ELEMS):
    return array.array("f", [(seed * 7919 + i) % 1000 / 8 for i in range(n_elems)])


def inline(data):
    return Tensor(DType.FLOAT32, [len(data)], data.tobytes())


@contextlib.contextmanager
def sharing(path, service, request_bytes=8 * MIB, answer_bytes=8 * MIB):
    """A client of the service and its SharedMemory."""
    socket = DescriptorSocket(path)
    socket.setTimeout(peers.WAIT_S * 1000)
    transport = TTransport.TFramedTransport(socket)
    protocol = TBinaryProtocolAccelerated(transport)
    transport.open()
    try:
        with SharedMemory(socket, protocol, request_bytes, answer_bytes) as memory:
            yield (service.Client(TMultiplexedProtocol(protocol,
                                                       service.__name__.rsplit(".", 1)[-1])),
                   memory)
    finally:
        transport.close()


def put(call, data):
    return call.tensor(data, DType.FLOAT32, [len(data)])


class SharedMemoryTest(unittest.TestCase):

    def average_shared(self, trainer, n_batches):
        """The averages of all batches."""
        averages = []
        with sharing(SOCKET, ParameterServer) as (server, memory):
            self.assertTrue(memory.is_offered)
            for batch in range(n_batches):
                with memory.call() as call:
                    gradient = put(call, values(trainer + batch))
                    self.assertIsNone(gradient.data)
                    answer = call.take(server.average_gradient(trainer, batch, 0,
                                                               Gradient(dense=gradient)))
                    self.assertIsNotNone(answer.dense.shared)
                    averages.append(bytes(call.data(answer.dense)))
        return averages

    def average_inline(self, address, trainer, n_batches):
        with Client(address, ParameterServer, peers.Way(True, "accelerated", True)) as server:
            return [server.average_gradient(trainer, batch, 0,
                                            Gradient(
                                                dense=inline(values(trainer + batch)))).dense.data
                    for batch in range(n_batches)]

    def serve(self, *flags):
        return Server("--listen=unix:" + SOCKET, *flags)

    def test_averages_are_those_of_inline_clients(self):
        with self.serve("--ntrainer=3") as server:
            calls = [Call(lambda: self.average_shared(0, 6)),
                     Call(lambda: self.average_shared(1, 6)),
                     Call(lambda: self.average_inline(server.address, 2, 6))]
            first, second, third = [call.wait() for call in calls]
        self.assertTrue(first == second == third)
        mean = array.array("f",
                           [(a + b + c) / 3 for a, b, c in zip(values(0), values(1), values(2))])
        self.assertEqual(len(first[0]), len(mean) * 4)

    def test_beside_a_c_client(self):
        with self.serve("--ntrainer=2") as server:
            host, _, port = server.address.rpartition(":")
            other = subprocess.Popen(
                [os.path.abspath(os.environ["C_GLIB_CLIENT"]), host, port, "1", str(N_ELEMS), "3",
                 "0.5"],
                stdout=subprocess.PIPE, text=True,
                env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
            wanted = array.array("f", [0.5]) * N_ELEMS
            with sharing(SOCKET, ParameterServer) as (calls, memory):
                for batch in range(3):
                    with memory.call() as call:
                        zeros = put(call, array.array("f", bytes(4 * N_ELEMS)))
                        answer = call.take(calls.average_gradient(0, batch, 0,
                                                                  Gradient(dense=zeros)))
                        self.assertTrue(bytes(call.data(answer.dense)) == wanted.tobytes())
            output, _ = other.communicate(timeout=peers.WAIT_S)
            self.assertEqual(output, "ok\n")

    def train(self, path_or_none, address):
        """The model after some updates, through shared memory or inline."""
        parameters = [NamedTensor("weight", inline(values(1))),
                      NamedTensor("bias", inline(values(2, 10)))]
        models = []
        with contextlib.ExitStack() as stack:
            if path_or_none:
                server, memory = stack.enter_context(sharing(path_or_none, ParameterServer))
            else:
                server, memory = stack.enter_context(Client(address, ParameterServer)), None
            server.init_model(parameters, Optimizer(OptimizerKind.SGD, 0.5))
            for step in range(4):
                push = PushId("trainer", step + 1)
                if memory is None:
                    model = server.update_and_fetch_model(0, [inline(values(step)),
                                                              inline(values(3, 10))], push, 0)
                    models.append([parameter.tensor.data for parameter in model.parameters])
                    continue
                with memory.call() as call:
                    model = call.take(server.update_and_fetch_model(
                        0, [put(call, values(step)), put(call, values(3, 10))], push, 0))
                    self.assertIsNotNone(model.parameters[0].tensor.shared)
                    self.assertIsNone(model.parameters[1].tensor.shared)
                    models.append([bytes(call.data(parameter.tensor))
                                   for parameter in model.parameters])
        return models

    def test_models_are_those_of_inline_clients(self):
        with self.serve() as server:
            shared = self.train(SOCKET, None)
        with self.serve() as server:
            self.assertTrue(shared == self.train(None, server.address))

    def test_answer_that_nobody_reads_is_given_back(self):
        with self.serve(), sharing(SOCKET, ParameterServer) as (server, memory):
            for batch in range(20):
                with memory.call() as call:
                    answer = call.take(
                        server.average_gradient(0, batch, 0, Gradient(dense=put(call, values(0)))))
                    self.assertIsNotNone(answer.dense.shared, batch)

    def test_larger_than_the_segment_is_inline(self):
        data = values(5, MIB)
        with self.serve(), sharing(SOCKET, ParameterServer, MIB, MIB) as (server, memory):
            with memory.call() as call:
                gradient = put(call, data)
                self.assertIsNone(gradient.shared)
                answer = call.take(server.average_gradient(0, 0, 0, Gradient(dense=gradient)))
                self.assertTrue(bytes(call.data(answer.dense)) == data.tobytes())

    def test_server_that_offers_nothing(self):
        with self.serve("--max-shared-mib=0"), sharing(SOCKET, ParameterServer) as (server, memory):
            self.assertFalse(memory.is_offered)
            with memory.call() as call:
                answer = call.take(server.average_gradient(0, 0, 0,
                                                           Gradient(dense=put(call, values(0)))))
                self.assertTrue(bytes(call.data(answer.dense)) == values(0).tobytes())

    def test_failed_call_leaves_the_memory_usable(self):
        with self.serve(), sharing(SOCKET, ParameterServer) as (server, memory):
            for batch in range(3):
                with self.assertRaises(ServiceError), memory.call() as call:
                    server.average_gradient(77, batch, 0, Gradient(dense=put(call, values(0))))
                with memory.call() as call:
                    answer = call.take(server.average_gradient(
                        0, batch, 0, Gradient(dense=put(call, values(batch)))))
                    self.assertTrue(bytes(call.data(answer.dense)) == values(batch).tobytes())

    def test_slices_are_checked(self):
        with self.serve(), sharing(SOCKET, ParameterServer) as (_, memory):
            call = memory.call()
            for shared in (SharedSlice(10 ** 9, 0, 64), SharedSlice(memory._answers.id, -64, 64),
                           SharedSlice(memory._answers.id, 0, 9 * MIB)):
                with self.assertRaises(TException):
                    call.data(Tensor(DType.FLOAT32, [16], shared=shared))

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_arrays(self):
        rows, dim = 20000, 16
        with self.serve(), sharing(SOCKET, EmbeddingTable) as (table, memory):
            table.create_table(TableSpec("table", rows, dim, DType.FLOAT32))
            with memory.call() as call:
                indices = numpy.arange(rows, dtype="<i8")
                answer = call.take(table.lookup_rows("table", call.tensor(indices)))
                shared = call.array(answer)
                self.assertIsNotNone(answer.shared)
                self.assertEqual(shared.shape, (rows, dim))
                with self.assertRaises(ValueError):
                    shared[0, 0] = 1
                copy = shared.copy()
            inline_answer = table.lookup_rows("table",
                                              Tensor(DType.INT64, [10], indices[:10].tobytes()))
            self.assertEqual(inline_answer.data, copy[:10].tobytes())


class TensorTest(unittest.TestCase):
    """With a server that averages the tensors of one trainer, so that replies equal the
    arguments."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(Server("--listen=unix:" + SOCKET))
        self.server, self.memory = stack.enter_context(sharing(SOCKET, ParameterServer))
        self.batches = itertools.count()

    def average(self, call, tensor):
        gradient = Gradient(dense=tensor)
        return call.take(self.server.average_gradient(0, next(self.batches), 0, gradient)).dense


class TensorOfTest(TensorTest):
    """The arguments of Call.tensor()."""

    def check(self, values, wanted, dtype, shape, is_shared=False, is_told=False):
        """is_told: dtype and shape are given."""
        with self.memory.call() as call:
            tensor = call.tensor(values, dtype, shape) if is_told else call.tensor(values)
            self.assertEqual((tensor.dtype, tensor.shape, tensor.shared is not None),
                             (dtype, shape, is_shared))
            answer = self.average(call, tensor)
            self.assertEqual((answer.dtype, answer.shape), (dtype, shape))
            self.assertTrue(bytes(call.data(answer)) == wanted)

    def test_buffer_that_is_empty(self):
        self.check(array.array("f"), b"", DType.FLOAT32, [0, 16], is_told=True)

    def test_buffer_with_gaps(self):
        data = values(1)
        self.check(memoryview(data)[::2], data[::2].tobytes(), DType.FLOAT32, [N_ELEMS // 2],
                   is_shared=True, is_told=True)

    def test_buffer_without_a_dtype_is_refused(self):
        for given in ({}, {"dtype": DType.FLOAT32}, {"shape": [3]}):
            with self.subTest(given), \
                    self.assertRaisesRegex(TypeError, "array has no dtype .*give dtype and shape"):
                self.memory.call().tensor(values(1, 3), **given)

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_arrays_of_any_layout(self):
        for shape in ((200, 300), (2, 3)):
            whole = numpy.arange(shape[0] * shape[1], dtype="<f4").reshape(shape)
            is_shared = shape[0] > 2
            for layout, numbers in (("contiguous", whole), ("transposed", whole.T),
                                    ("sliced", whole[:, 1:]), ("reversed", whole[::-1])):
                with self.subTest(layout=layout, shape=shape):
                    self.check(numbers, numbers.tobytes(), DType.FLOAT32, list(numbers.shape),
                               is_shared)

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_arrays_of_any_type(self):
        for dtype, name in ((DType.FLOAT32, "<f4"), (DType.FLOAT64, "<f8"), (DType.FLOAT16, "<f2")):
            for shape in ((300, 200), (2, 3), (0, 16), (16, 0), ()):
                with self.subTest(name=name, shape=shape):
                    numbers = numpy.full(shape, 1.5, name)
                    self.check(numbers, numbers.tobytes(), dtype, list(shape),
                               is_shared=shape == (300, 200))
                    if torch is not None:
                        self.check(torch.from_numpy(numbers), numbers.tobytes(), dtype, list(shape),
                                   shape == (300, 200))
        self.check(numpy.float32(1.5), numpy.float32(1.5).tobytes(), DType.FLOAT32, [])

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_arrays_of_other_types_are_refused(self):
        for name in (">f4", "u2", "?", "c8", "S4"):
            with self.subTest(name), self.assertRaisesRegex(TypeError, "no DType for"):
                self.memory.call().tensor(numpy.zeros(3, name))


class ExamplesTest(unittest.TestCase):
    """The programs of the documentation, unchanged except for the path of the socket."""

    @unittest.skipIf(numpy is None or torch is None, "PyTorch, or NumPy, is not there")
    def test_they_run(self):
        head = re.search(r"^    import .*?(?=^\S)", thriftps_shared_memory.__doc__,
                         re.MULTILINE | re.DOTALL)
        folder = os.path.dirname(thriftps_shared_memory.__file__)
        with open(os.path.join(folder, "SHARED_MEMORY.md"), encoding="utf-8") as readme:
            after = re.search(r"^```python\n(.*?)^```$", readme.read(), re.MULTILINE | re.DOTALL)
        names = {}
        with Server("--listen=unix:" + SOCKET):
            exec(textwrap.dedent(head.group()).replace("/run/ps.sock", SOCKET), names)
            exec(after.group(1), names)
            names["transport"].close()
        self.assertAlmostEqual(names["weights"].min(), -1, places=5)
        self.assertTrue(torch.equal(names["average"], torch.ones(1 << 20, dtype=torch.bfloat16)))


# 1.0, -2.0, 3.0 and a subnormal.
BFLOAT16_BITS = [0x3F80, 0xC000, 0x4040, 0x0001]


class Bfloat16Test(TensorTest):

    def average_of(self, *tensor_of, use):
        """The result of use(call, tensor) on the average."""
        with self.memory.call() as call:
            tensor = call.tensor(*tensor_of)
            self.assertEqual(tensor.dtype, DType.BFLOAT16)
            return use(call, self.average(call, tensor))

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_bits_with_a_dtype(self):
        bits = numpy.array(BFLOAT16_BITS, "<u2").reshape(2, 2)
        average = self.average_of(bits, DType.BFLOAT16,
                                  use=lambda call, tensor: (tensor.shape, bytes(call.data(tensor))))
        self.assertEqual(average, ([2, 2], bits.tobytes()))

    @unittest.skipIf(numpy is None or torch is None, "PyTorch, or NumPy, is not there")
    def test_tensors_of_pytorch(self):
        bits = torch.tensor(BFLOAT16_BITS, dtype=torch.int32).to(torch.int16)
        for numbers in (bits.view(torch.bfloat16), bits.reshape(2, 2).view(torch.bfloat16).t(),
                        torch.nn.Parameter(bits.view(torch.bfloat16))):
            def back(call, tensor):
                return torch.frombuffer(bytearray(call.data(tensor)),
                                        dtype=torch.bfloat16).reshape(tensor.shape)
            self.assertTrue(torch.equal(self.average_of(numbers, use=back), numbers))

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not there")
    def test_arrays_of_ml_dtypes(self):
        numbers = numpy.array(BFLOAT16_BITS, "<u2").view(ml_dtypes.bfloat16)
        answer = self.average_of(numbers, use=lambda call, tensor: call.array(tensor).copy())
        self.assertEqual((answer.dtype, answer.tobytes()), (numbers.dtype, numbers.tobytes()))

    @unittest.skipIf(numpy is None, "NumPy is not there")
    def test_array_without_ml_dtypes_is_refused(self):
        tensor = Tensor(DType.BFLOAT16, [1], b"\x80\x3f")
        with unittest.mock.patch.dict("sys.modules", ml_dtypes=None):
            with self.assertRaisesRegex(ImportError, "ml_dtypes.*data()"):
                thriftps_shared_memory.Call(None).array(tensor)


if __name__ == "__main__":
    junit.main()
