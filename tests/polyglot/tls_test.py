# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Debian's Thrift libraries over TLS, with the certificates of the commands in OPERATING.md, and
their renewal."""

import os
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest

import junit
import peers
from peers import Call, Client, Server, dense, floats
from thrift.transport.TTransport import TTransportException
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.tensor.ttypes import DType, Tensor
from thriftps.trainer import Trainer
from thriftps.trainer.ttypes import ServerAddress, TrainBatch, TrainSpec, TrainState

LINES = re.compile(r"<!-- lines for the shell: begin.*?-->\n(.*?)<!-- lines for the shell: end -->",
                   re.DOTALL)


def documented_lines():
    with open("OPERATING.md", encoding="utf-8") as file:
        return LINES.search(file.read()).group(1)


class Tls(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.lines = documented_lines()
        self.run_lines(self.lines)

    def run_lines(self, lines):
        subprocess.run(["/bin/sh", "-ec", lines], cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def path(self, name):
        return os.path.join(self.folder, name)

    def server(self, *flags):
        return Server("--tls=required", "--tls-cert=" + self.path("server.pem"),
                      "--tls-key=" + self.path("server.key"), "--tls-ca=" + self.path("ca.pem"),
                      *flags)

    def context(self, with_certificate=True):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if with_certificate:
            context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        return context

    def serial_number(self, address):
        """The serial number of the certificate for new connections."""
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port))) as plain:
            with self.context().wrap_socket(plain, server_hostname=host) as encrypted:
                return encrypted.getpeercert()["serialNumber"]

    def average(self, address, trainer, n_elems, n_batches):
        with Client(address, ParameterServer, tls=self.context()) as calls:
            for batch in range(n_batches):
                answer = calls.average_gradient(trainer, batch, 0, dense([trainer] * n_elems))
                self.assertEqual(floats(answer.dense.data), [0.5] * n_elems)

    def run_with(self, program):
        with self.server("--ntrainer=2") as server:
            host, _, port = server.address.rpartition(":")
            process = subprocess.Popen(
                [os.path.abspath(os.environ[program]), host, port, "1", "50000", "5", "0.5",
                 "tls=" + self.folder],
                stdout=subprocess.PIPE, text=True,
                env=dict(os.environ, ASAN_OPTIONS="detect_leaks=0"))
            self.addCleanup(process.stdout.close)
            self.addCleanup(process.kill)
            python = Call(lambda: self.average(server.address, 0, 50000, 5))
            output, _ = process.communicate(timeout=peers.WAIT_S)
            self.assertEqual(output, "ok\n")
            python.wait()

    def test_python_and_cpp(self):
        self.run_with("CPP_CLIENT")

    def test_python_and_c_glib(self):
        self.run_with("C_GLIB_CLIENT")

    def test_who_is_refused(self):
        with self.server() as server:
            with self.assertRaises((TTransportException, OSError)):  # a plain connection
                with Client(server.address, Node) as node:
                    node.describe()
            with self.assertRaises((TTransportException, OSError)):  # without a certificate
                with Client(server.address, Node, tls=self.context(with_certificate=False)) as node:
                    node.describe()
            with Client(server.address, Node, tls=self.context()) as node:
                self.assertEqual(node.describe().name, "thriftps_server")

    def test_renewal_by_signal_and_by_call(self):
        with self.server("--log-file=" + self.path("log"), "--log-level=info") as server, \
                Client(server.address, Node, tls=self.context()) as node:
            first = self.serial_number(server.address)
            renewal = self.lines[self.lines.index("for name"):]
            self.run_lines(renewal)
            self.assertEqual(self.serial_number(server.address), first)
            server.process.send_signal(signal.SIGHUP)
            while self.serial_number(server.address) == first:
                pass
            self.await_line(" certificates_reloaded expiry_s=")
            second = self.serial_number(server.address)
            self.run_lines(renewal)
            node.reload_certificates()  # on a connection that precedes the first renewal
            third = self.serial_number(server.address)
            self.assertNotEqual(third, second)
            with open(self.path("server.pem"), "w", encoding="ascii") as file:
                file.write("nonsense")
            with self.assertRaises(ServiceError) as caught:
                node.reload_certificates()
            self.assertEqual(caught.exception.code, ErrorCode.INVALID_ARGUMENT)
            self.assertIn(self.path("server.pem"), caught.exception.message)
            server.process.send_signal(signal.SIGHUP)
            self.assertIn(self.path("server.pem"),
                          self.await_line(" certificates_refused reason="))
            self.assertEqual(self.serial_number(server.address), third)

    def await_line(self, text):
        """The line of the log that contains the text."""
        while True:
            with open(self.path("log"), encoding="utf-8") as file:
                for line in file:
                    if text in line:
                        return line

    def run_pass(self, *flags):
        """The end of a pass that needs a group of two trainers, of which one is missing."""
        with self.server(*flags) as server:
            with Client(server.address, Trainer, tls=self.context()) as trainer:
                trainer.train(TrainSpec(
                    pass_name="pass", rank=0, world_size=2, batches=[], steps_per_epoch=1,
                    backend="gloo", model_config='{"model_class": "LinearModel", "configurations":'
                                 ' {"in_features": 2, "out_features": 2}}',
                    hook_state="BasicHookState", ddp_hook="allreduce_hook", reduce="mean",
                    rendezvous=server.address, rpc_timeout_ms=500))
                status = trainer.status()
                while status.state == TrainState.RUNNING:
                    status = trainer.status()
                self.assertEqual(status.state, TrainState.FAILED)
                return status

    def test_bad_plans_are_refused_by_name(self):
        good = dict(pass_name="pass", rank=0, world_size=1, batches=[], steps_per_epoch=1,
                    model_config='{"model_class": "DummyModel"}')
        bad = Tensor(DType.INT64, [2], b"\0" * 8)
        with self.server() as server, \
                Client(server.address, Trainer, tls=self.context()) as trainer:
            for word, more in [(name + " is missing", {name: None}) for name in good] + [
                    ("rank is -1", {"rank": -1}), ("epochs is -2", {"epochs": -2}),
                    ("pass_name", {"pass_name": "a pass"}), ("ddp_hook", {"ddp_hook": "a\0b"}),
                    ("trainer_config", {"trainer_config": "[]"}),
                    ("model_config", {"model_config": "{}"}),
                    ("batches[0].input.data has 8", {"batches": [TrainBatch(bad, bad)]}),
                    ("servers[0].address", {"servers": [ServerAddress(0, None)]})]:
                with self.subTest(word), self.assertRaises(ServiceError) as caught:
                    trainer.train(TrainSpec(**{**good, **more}))
                self.assertEqual(caught.exception.code, ErrorCode.INVALID_ARGUMENT)
                self.assertIn("spec." + word, caught.exception.message)

    def test_trainers_join_no_plain_group_unless_they_are_allowed_to(self):
        refused = self.run_pass()
        self.assertEqual(refused.error_code, ErrorCode.PERMISSION_DENIED)
        self.assertIn("--allow-plain-collectives permits it", refused.message)
        allowed = self.run_pass("--allow-plain-collectives")
        self.assertNotEqual(allowed.error_code, ErrorCode.PERMISSION_DENIED)

    def test_servers_that_do_not_encrypt_have_nothing_to_reload(self):
        with Server() as server, Client(server.address, Node) as node:
            with self.assertRaises(ServiceError) as caught:
                node.reload_certificates()
            self.assertEqual(caught.exception.code, ErrorCode.INVALID_ARGUMENT)


if __name__ == "__main__":
    junit.main()
