# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Clients of python3-thrift and libthrift that send THeader frames, and hostile frames."""

import os
import socket
import struct
import subprocess
import unittest

import junit
import peers
from header_client import PROTOCOLS, HeaderClient
from peers import Call, Client, ErrorTest, Server, dense, floats
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TMessageType
from thrift.transport.THeaderTransport import THeaderTransformID
from thrift.transport.TTransport import TMemoryBuffer, TTransportException
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous

TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def frame(info, payload, magic=0x0FFF, n_words=None):
    info += b"\0" * (-len(info) % 4)
    header = struct.pack(">HHiH", magic, 0, 1, len(info) // 4 if n_words is None else n_words)
    return struct.pack(">i", len(header + info + payload)) + header + info + payload


def describe_call():
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin("Node:describe", TMessageType.CALL, 1)
    protocol.writeStructBegin("")
    protocol.writeFieldStop()
    return buffer.getvalue()


class Header(ErrorTest):

    def test_python(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol), Server() as server, \
                    HeaderClient(server.address, Node, protocol,
                                 {"traceparent": TRACEPARENT}) as node:
                for _ in range(3):
                    self.assertEqual(node.call("describe").name, "thriftps_server")

    def test_large_tensors_both_ways(self):
        n_elems = 3 << 20
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol), Server("--ntrainer=1") as server, \
                    HeaderClient(server.address, ParameterServer, protocol) as client:
                answer = client.call("average_gradient", 0, 0, 0, dense([0.25] * n_elems))
                self.assertEqual(floats(answer.dense.data), [0.25] * n_elems)

    def test_failures_come_back_in_such_frames(self):
        with Server() as server, HeaderClient(server.address, Rendezvous) as client:
            self.assert_fails(ErrorCode.INVALID_ARGUMENT, lambda: client.call("get", "", 0), "key")

    def test_transforms_close_the_connection(self):
        with Server() as server, HeaderClient(server.address, Node) as client:
            client.protocol.add_transform(THeaderTransformID.ZLIB)
            with self.assertRaises((TTransportException, OSError)):
                client.call("describe")
            with Client(server.address, Node) as node:
                node.describe()

    def test_cpp(self):
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol), Server("--ntrainer=2") as server:
                self.check_cpp(server, protocol)

    def check_cpp(self, server, protocol):
        host, _, port = server.address.rpartition(":")
        process = subprocess.Popen(
            [os.path.abspath(os.environ["CPP_CLIENT"]), host, port, "1", "50000", "5", "0.5",
             "header=" + protocol],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        python = Call(lambda: self.average(server.address, 50000, 5))
        output, _ = process.communicate(timeout=peers.WAIT_S)
        self.assertEqual(output, "ok\n")
        python.wait()

    def average(self, address, n_elems, n_batches):
        with HeaderClient(address, ParameterServer) as client:
            for batch in range(n_batches):
                answer = client.call("average_gradient", 0, batch, 0, dense([0.0] * n_elems))
                self.assertEqual(floats(answer.dense.data), [0.5] * n_elems)


class HostileFrames(unittest.TestCase):

    def exchange(self, address, data, step=None):
        """The server's reply to these bytes, which are sent in pieces of `step`; b"" if it
        closes."""
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=peers.WAIT_S) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for i in range(0, len(data), step or len(data)):
                    peer.sendall(data[i:i + (step or len(data))])
                return peer.recv(1 << 16)
            except (ConnectionResetError, BrokenPipeError):
                return b""

    def test_frames(self):
        call = describe_call()
        good = b"\x00\x00\x01\x01\x0btraceparent\x37" + TRACEPARENT.encode()
        hostile = {
            "another magic": frame(good, call, magic=0x0FFE),
            "a size beyond the frame": frame(good, call, n_words=0x7FFF),
            "no header": frame(b"", call),
            "a header too large": frame(b"\x00\x00\x01\x01\x01k\xd0\x86\x03" + b"v" * 50000, call),
            "an unknown protocol": frame(b"\x05\x00", call),
            "the other protocol": frame(b"\x02\x00", call),
            "a transform": frame(b"\x00\x01\x01", call),
            "too many pairs": frame(b"\x00\x00\x01\xff\xff\xff\xff\x0f" + good[4:], call),
            "a string beyond the header": frame(b"\x00\x00\x01\x01\xff\xff\x03", call),
            "an endless number": frame(b"\xff" * 8, call),
            "a key that comes twice": frame(b"\x00\x00\x01\x02\x01a\x011\x01a\x012", call),
            "a value that is no text": frame(b"\x00\x00\x01\x01\x01a\x01\xff", call),
            "a header in a header": frame(good, frame(good, call)[4:]),
        }
        with Server() as server:
            for name, data in hostile.items():
                for step in (None, 1):
                    with self.subTest(name=name, step=step):
                        self.assertEqual(self.exchange(server.address, data, step), b"")
            for step in (None, 1, 3):
                answer = self.exchange(server.address, frame(good, call), step)
                self.assertEqual(answer[4:6], b"\x0f\xff")
                self.assertIn(b"thriftps_server", answer)


if __name__ == "__main__":
    junit.main()
