# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A call larger than a frame, in chunks, with only generated code and python3-thrift."""

import array
import functools
import unittest
import uuid

import junit
from peers import Client, ErrorTest, Server
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport.TTransport import TMemoryBuffer
from thriftps.chunks import Chunks
from thriftps.chunks.ttypes import Chunk
from thriftps.node.ttypes import ErrorCode
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, Gradient, Tensor

CHUNK_BYTES = 512 << 10


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


@functools.lru_cache(maxsize=None)
def crc32c(data):
    """As a signed number, because it is an i32."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return crc - (1 << 32) if crc >> 31 else crc


def gradient_of(value, n_elems):
    data = (array.array("f", [value]) * n_elems).tobytes()
    return Gradient(dense=Tensor(DType.FLOAT32, [n_elems], data))


def serialize_average(gradient):
    memory = TMemoryBuffer()
    protocol = TMultiplexedProtocol(TBinaryProtocol(memory), "ParameterServer")
    ParameterServer.Client(protocol).send_average_gradient(0, 1, 0, gradient)
    return memory.getvalue()


def parse_average(message):
    return ParameterServer.Client(TBinaryProtocol(TMemoryBuffer(message))).recv_average_gradient()


def cut(message):
    return [message[at:at + CHUNK_BYTES] for at in range(0, len(message), CHUNK_BYTES)]


def chunk(name, parts, index):
    return Chunk(name, index, len(parts), crc32c(parts[index]), parts[index])


class LargerThanAFrame(ErrorTest):

    def setUp(self):
        self.name = uuid.uuid4().hex

    def fetch(self, calls, answer):
        if answer.count == 0:
            return answer.message
        parts = []
        for index in range(answer.count):
            part = calls.get_chunk(self.name, index)
            self.assertEqual((part.index, part.count), (index, answer.count))
            self.assertEqual(part.crc32c, crc32c(part.data))
            parts.append(part.data)
        message = b"".join(parts)
        self.assertEqual(len(message), answer.bytes)
        return message

    def send(self, calls, message, parts):
        received = calls.begin_transfer(self.name, len(message), len(parts)).received
        for index in range(received, len(parts)):
            calls.put_chunk(chunk(self.name, parts, index))
        return received

    def check(self, n_elems):
        gradient = gradient_of(0.5, n_elems)
        message = serialize_average(gradient)
        with Server("--max-frame-mib=1") as server, Client(server.address, Chunks) as calls:
            self.assertEqual(self.send(calls, message, cut(message)), 0)
            answer = calls.run_transfer(self.name)
            self.assertEqual(answer.count > 0, n_elems > 1 << 20)
            average = parse_average(self.fetch(calls, answer))
            self.assertTrue(average.dense.data == gradient.dense.data)
            calls.end_transfer(self.name)
            self.assert_fails(ErrorCode.NOT_FOUND, lambda: calls.run_transfer(self.name), self.name)

    def test_call(self):
        self.check(400000)

    def test_call_and_answer(self):
        self.check(1100000)

    def test_goes_on_where_a_connection_was_lost(self):
        message = serialize_average(gradient_of(2, 400000))
        parts = cut(message)
        with Server("--max-frame-mib=1") as server:
            with Client(server.address, Chunks) as calls:
                calls.begin_transfer(self.name, len(message), len(parts))
                calls.put_chunk(chunk(self.name, parts, 0))
            with Client(server.address, Chunks) as calls:
                self.assertEqual(self.send(calls, message, parts), 1)
                average = parse_average(self.fetch(calls, calls.run_transfer(self.name)))
                self.assertEqual(len(average.dense.data), 1600000)

    def test_a_wrong_crc_is_sent_again(self):
        message = serialize_average(gradient_of(2, 400000))
        parts = cut(message)
        with Server("--max-frame-mib=1") as server, Client(server.address, Chunks) as calls:
            calls.begin_transfer(self.name, len(message), len(parts))
            wrong = chunk(self.name, parts, 0)
            wrong.crc32c ^= 1
            self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: calls.put_chunk(wrong), "CRC32C")
            self.send(calls, message, parts)
            self.assertGreater(calls.run_transfer(self.name).bytes, 1600000)

    def test_vectors_of_the_crc(self):
        self.assertEqual(crc32c(b"123456789") & 0xFFFFFFFF, 0xE3069283)
        self.assertEqual(crc32c(bytes(32)) & 0xFFFFFFFF, 0x8A9136AA)


if __name__ == "__main__":
    junit.main()
