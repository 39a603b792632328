# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Spans of calls, from the traceparent of a caller to a collector of OTLP."""

import base64
import contextlib
import socket
import tempfile
import threading
import time
import unittest

import junit
from header_client import HeaderClient
from otlp_collector import Collector
from peers import WAIT_S, Client, Server, floats, sparse, tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import Initializer, InitializerKind, TableSpec
from thriftps.node import Node
from thriftps.node.ttypes import ServiceError
from thriftps.rendezvous import Rendezvous
from thriftps.session import Session
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
PARENT_ID = "b7ad6b7169203331"
SAMPLED = "00-%s-%s-01" % (TRACE_ID, PARENT_ID)
UNSAMPLED = "00-%s-%s-00" % (TRACE_ID, PARENT_ID)
SERVER_KIND, INTERNAL_KIND, ERROR = 2, 1, 2
PHASES = {"decode", "queue", "apply", "wait", "reply"}


def attributes(holder):
    return {pair["key"]: pair["value"]["stringValue"] for pair in holder.get("attributes", ())}


def calls_of(spans):
    return [span for span in spans if span["kind"] == SERVER_KIND]


class Spans(unittest.TestCase):

    def test_a_call_and_its_phases(self):
        began_ns = time.time_ns()
        with Collector() as collector:
            with Server("--otlp=" + collector.url, "--name=node7") as server, HeaderClient(
                    server.address, Node,
                    headers={"traceparent": SAMPLED, "tracestate": "congo=t61"}) as node:
                node.call("describe")
                request = collector.take()
        [resource] = request["resourceSpans"]
        said = attributes(resource["resource"])
        self.assertEqual(said["service.name"], "thriftps")
        self.assertEqual(said["service.instance.id"], "node7")
        self.assertTrue(said["service.version"])
        call, *phases = resource["scopeSpans"][0]["spans"]
        self.assertEqual((call["name"], call["kind"], call["traceId"], call["parentSpanId"],
                          call["traceState"]),
                         ("Node:describe", SERVER_KIND, TRACE_ID, PARENT_ID, "congo=t61"))
        said = attributes(call)
        self.assertEqual((said["rpc.service"], said["rpc.method"]), ("Node", "describe"))
        self.assertIn("127.0.0.1", said["client.address"])
        self.assertNotIn("status", call)
        end_ns = int(call["startTimeUnixNano"])
        self.assertGreaterEqual(end_ns, began_ns - 10 ** 9)  # clocks may be adjusted
        self.assertLessEqual(int(call["endTimeUnixNano"]), time.time_ns() + 10 ** 9)
        for phase in phases:
            self.assertEqual((phase["kind"], phase["traceId"], phase["parentSpanId"]),
                             (INTERNAL_KIND, TRACE_ID, call["spanId"]))
            self.assertIn(phase["name"], PHASES)
            self.assertEqual(int(phase["startTimeUnixNano"]), end_ns)
            end_ns = int(phase["endTimeUnixNano"])
        self.assertEqual(end_ns, int(call["endTimeUnixNano"]))
        self.assertEqual(len({span["spanId"] for span in [call, *phases]}), 1 + len(phases))

    def test_callers_decide_and_a_failure_says_so(self):
        with Collector() as collector, Server("--otlp=" + collector.url) as server:
            with HeaderClient(server.address, Node, headers={"traceparent": UNSAMPLED}) as node:
                node.call("describe")
            with Client(server.address, Node) as node:
                node.describe()
            with HeaderClient(server.address, Rendezvous, "compact",
                              {"traceparent": SAMPLED}) as client:
                with self.assertRaises(ServiceError):
                    client.call("get", "", 0)
            [call] = calls_of(collector.take_spans(1))
        self.assertEqual(call["name"], "Rendezvous:get")
        self.assertEqual(call["status"], {"code": ERROR})
        self.assertEqual(attributes(call)["error.type"], "INVALID_ARGUMENT")

    def test_the_context_of_a_connection(self):
        with Collector() as collector, \
                Server("--otlp=" + collector.url, listen="127.0.0.1:0") as server:
            with Client(server.address, Session) as session:
                session.set_context({"traceparent": SAMPLED})
                session.set_context({})  # this call still belongs to the trace
                session.set_context({})
            [call] = calls_of(collector.take_spans(1))
        self.assertEqual((call["name"], call["traceId"]), ("Session:set_context", TRACE_ID))

    def test_sampling_of_other_calls_and_the_last_spans(self):
        with Collector() as collector:
            with Server("--otlp=" + collector.url, "--trace-sampling=1") as server:
                with Client(server.address, Node) as node:
                    for _ in range(300):  # more than one batch
                        node.describe()
            calls = []
            while len(calls) < 300:  # the server has exited, so all spans were sent
                calls += calls_of(collector.take_spans(1))
        self.assertEqual(len({call["traceId"] for call in calls}), 300)
        self.assertNotIn("parentSpanId", calls[0])

    def test_a_collector_that_is_busy_gets_the_spans_again(self):
        busy = (503, {"Retry-After": "0"})
        with Collector(busy, (429, {"Retry-After": "0"})) as collector:
            with Server("--otlp=" + collector.url) as server, \
                    HeaderClient(server.address, Node, headers={"traceparent": SAMPLED}) as node:
                node.call("describe")
                first, second, third = collector.take(), collector.take(), collector.take()
        self.assertEqual(first, second)
        self.assertEqual(first, third)

    def test_a_server_ends_without_its_collector(self):
        with Collector() as collector:
            url = collector.url
        with tempfile.NamedTemporaryFile("r", encoding="utf-8") as log:
            with Server("--otlp=" + url, "--log-file=" + log.name) as server, \
                    HeaderClient(server.address, Node, headers={"traceparent": SAMPLED}) as node:
                node.call("describe")
            self.assertIn(" otlp_failed endpoint=" + url, log.read())

    def test_what_is_sent_is_what_the_published_definitions_say(self):
        try:
            from google.protobuf import json_format
            from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
                ExportTraceServiceRequest)
        except ImportError as error:
            self.skipTest("opentelemetry-proto is not installed: %s" % error)
        with Collector() as collector, Server("--otlp=" + collector.url) as server:
            with HeaderClient(server.address, Node, headers={"traceparent": SAMPLED}) as node:
                node.call("describe")
            with HeaderClient(server.address, Rendezvous,
                              headers={"traceparent": SAMPLED}) as client:
                with self.assertRaises(ServiceError):
                    client.call("get", "", 0)
            requests = [collector.take()]
            while len(calls_of(spans_of(requests))) < 2:
                requests.append(collector.take())
        for request in requests:
            for span in spans_of([request]):
                # OTLP has ids in hexadecimal where the JSON of protobuf has bytes in base64.
                for key in ("traceId", "spanId", "parentSpanId"):
                    span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
            # ParseDict refuses unknown fields.
            message = json_format.ParseDict(request, ExportTraceServiceRequest())
            for resource in message.resource_spans:
                for span in resource.scope_spans[0].spans:
                    self.assertEqual((len(span.trace_id), len(span.span_id)), (16, 8))
                    self.assertGreaterEqual(span.end_time_unix_nano, span.start_time_unix_nano)


def spans_of(requests):
    return [span for request in requests for resource in request["resourceSpans"]
            for scope in resource["scopeSpans"] for span in scope["spans"]]


class HangingCollector:
    """Accepts connections, sends `reply` again and again or once, and never closes. A context
    manager."""

    def __init__(self, reply, is_endless):
        self._reply, self._is_endless = reply, is_endless
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._peers = []
        self.url = "http://127.0.0.1:%d" % self._listener.getsockname()[1]
        self.accepted = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                self._peers.append(self._listener.accept()[0])
                threading.Thread(target=self._answer, args=self._peers[-1:], daemon=True).start()
                self.accepted.set()

    def _answer(self, peer):
        with contextlib.suppress(OSError):
            peer.sendall(self._reply)
            while self._is_endless:
                peer.sendall(self._reply)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for each in (self._listener, *self._peers):
            each.close()


class HangingCollectors(unittest.TestCase):

    # Acknowledged changes must be kept, however the collector hangs when the server ends.
    def test_changes_are_kept_whatever_the_collector_does(self):
        for reply, is_endless in ((b"", False),
                                  (b"HTTP/1.1 200 OK\r\nContent-Le", False),
                                  (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nabc", False),
                                  (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 65536, True),
                                  (b"HTTP/1.1 102 Processing\r\n\r\n" * 1000, True)):
            with self.subTest(reply[:50]), tempfile.TemporaryDirectory() as folder, \
                    HangingCollector(reply, is_endless) as collector:
                flags = ("--data-dir=" + folder + "/data", "--durability=interval:60000",
                         "--log-segment-mib=1")
                with Server("--otlp=" + collector.url, "--trace-sampling=1", *flags) as server, \
                        Client(server.address, EmbeddingTable) as tables:
                    tables.create_table(TableSpec(
                        "counts", 10, 1, DType.FLOAT32, optimizer=Optimizer(OptimizerKind.SGD, 1.0),
                        initializer=Initializer(InitializerKind.ZEROS)))
                    for _ in range(300):  # more than one batch of spans
                        tables.apply_row_gradients("counts", sparse([1], [1.0], 10, 1).sparse, None)
                    self.assertTrue(collector.accepted.wait(WAIT_S))
                with Server(*flags) as server, Client(server.address, EmbeddingTable) as tables:
                    counts = None
                    while counts is None:  # until the server has recovered
                        with contextlib.suppress(ServiceError):
                            counts = tables.lookup_rows("counts", tensor([1], dtype=DType.INT64))
                    self.assertEqual(floats(counts.data), [-300.0])


if __name__ == "__main__":
    junit.main()
