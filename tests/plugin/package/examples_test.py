"""The C programs of plugin/examples: each is compiled by every compiler, and runs."""

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from installation import STRICT, Installation, run
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TFramedTransport, TTransportException
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.tensor.ttypes import DType, Tensor

PROGRAMS = {  # sources in addition to the program's own, and its other languages
    "client": ([], ["c++"]),
    "embed": ([], ["c++"]),
    "foreign_server": (["greeter.c"], ["c++"]),
    "own_processor": (["greeter.c"], ["c++"]),
    "own_service": ([], []),
    "tables": ([], ["c++"]),
}
COMPILERS = {
    "c": (("gcc", "c11"), ("clang", "c11")),
    "c++": (("g++", "c++17"), ("clang++", "c++17")),
}
MAX_LINES = 60


class Examples(Installation):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.examples = cls.path("share/doc/thriftps/examples")
        cls.generated = os.path.join(cls.folder, "generated")
        os.mkdir(cls.generated)
        sys.path.insert(0, cls.generated)

    def setUp(self):
        super().setUp()
        self.need("thrift")
        idl = self.pkg_config("--variable=idldir")[0]
        for generator, name in (("c_glib", "greeter"), ("py", "greeter"), ("py", "scaler")):
            run("thrift", "--gen", generator, "-I", idl, "-out", self.generated,
                os.path.join(self.examples, name + ".thrift"))

    def options(self):
        return ["-I" + self.generated, *self.pkg_config("--cflags")]

    def compile(self, name):
        """Compiles a program and its generated code with gcc, and returns its path."""
        objects = []
        if PROGRAMS[name][0]:
            for source in ("hello_greeter", "hello_greeter_types"):
                objects.append(os.path.join(self.work, source + ".o"))
                run("gcc", "-w", "-c", os.path.join(self.generated, source + ".c"), "-o",
                    objects[-1], *self.options())
        program = os.path.join(self.work, name)
        run("gcc", "-std=c11", *STRICT, *self.sources(name), *objects, "-o", program,
            *self.options(), *self.pkg_config("--libs"), env=self.environment)
        return program

    def sources(self, name):
        return [os.path.join(self.examples, each) for each in [name + ".c"] + PROGRAMS[name][0]]

    @contextlib.contextmanager
    def running(self, name, *arguments):
        """Runs a program until the end of its input, or kills it."""
        with subprocess.Popen([self.compile(name), *arguments], env=self.environment,
                              encoding="utf-8", stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            try:
                yield process
            finally:
                process.kill()

    @contextlib.contextmanager
    def connect(self, process):
        """Connects to the address that the program prints."""
        for line in process.stdout:
            if line.startswith("listening on "):
                break
        host, _, port = line.split()[-1].rpartition(":")
        with self.open(TSocket(host, int(port))) as protocol:
            yield protocol

    @contextlib.contextmanager
    def open(self, socket):
        transport = TFramedTransport(socket)
        transport.open()
        try:
            yield TBinaryProtocol(transport)
        finally:
            transport.close()

    def check_end(self, process):
        output, _ = process.communicate("")
        self.assertEqual(process.returncode, 0)
        return output

    @contextlib.contextmanager
    def servers(self, n, *options):
        """Starts servers, and returns their addresses."""
        command = [self.path("bin/thriftps_server"), "--listen=127.0.0.1:0", *options]
        with contextlib.ExitStack() as stack:
            processes = []
            for _ in range(n):
                process = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
                stack.enter_context(process)
                stack.callback(process.kill)
                processes.append(process)
            yield [process.stdout.readline().split()[-1] for process in processes]

    def describe(self, protocol, name="Node"):
        return Node.Client(TMultiplexedProtocol(protocol, name)).describe()

    def greet(self, protocol):
        service = importlib.import_module("greeter.Greeter")
        return service.Client(protocol).greet("trainer")

    # ---- tests ----

    def test_every_compiler_accepts_them(self):
        for name, (_, languages) in PROGRAMS.items():
            for source in self.sources(name):
                with open(source, encoding="utf-8") as file:
                    self.assertLessEqual(len(file.readlines()), MAX_LINES, source)
                for language in ["c"] + languages:
                    for compiler, standard in COMPILERS[language]:
                        if shutil.which(compiler) is not None:
                            run(compiler, "-x", language, "-std=" + standard, *STRICT,
                                "-fsyntax-only", source, *self.options())

    def test_two_trainers_average_a_gradient(self):
        with self.servers(1, "--ntrainer=2") as addresses:
            self.assertEqual(
                run(self.compile("client"), *addresses, env=self.environment), "2 4\n")

    def test_a_table_lies_on_two_servers(self):
        with self.servers(2) as addresses:
            self.assertEqual(run(self.compile("tables"), *addresses, env=self.environment),
                             "-1.5 -1.5 -1.5 -1.5\n")

    def test_a_program_embeds_a_server(self):
        with self.running("embed", "127.0.0.1:0") as process:
            with self.connect(process) as protocol:
                self.assertEqual(self.describe(protocol).name, "embedded")
            self.assertIn("\nthriftps_build_info{", self.check_end(process))

    def test_a_program_has_a_service_of_its_own(self):
        with self.running("own_service", "127.0.0.1:0") as process:
            with self.connect(process) as protocol:
                scaler = importlib.import_module("scaler.Scaler").Client(protocol)
                data = b"\0\0\x80\x3f\0\0\0\xc0"  # 1, -2
                scaled = scaler.scale(Tensor(DType.FLOAT32, [2], data), 2.0)
                self.assertEqual(scaled.data, b"\0\0\0\x40\0\0\x80\xc0")
                with self.assertRaises(ServiceError) as caught:
                    scaler.scale(Tensor(DType.INT32, [2], data), 2.0)
                self.assertEqual(caught.exception.code, ErrorCode.INVALID_ARGUMENT)
                self.assertEqual(caught.exception.message, "tensor is not FLOAT32")

    def test_our_server_has_a_generated_processor(self):
        with self.running("own_processor", "127.0.0.1:0") as process:
            with self.connect(process) as protocol:
                self.assertEqual(self.greet(protocol), "hello trainer")
                self.assertEqual(
                    self.greet(TMultiplexedProtocol(protocol, "Greeter")), "hello trainer")
                self.assertIn("Node", self.describe(protocol).services)
            self.check_end(process)

    def test_a_server_of_thrift_has_our_services(self):
        path = os.path.join(tempfile.mkdtemp(dir="/tmp"), "s")  # short enough for a socket
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        with self.running("foreign_server", path):
            while True:  # until the server listens
                with contextlib.suppress(TTransportException):
                    with self.open(TSocket(unix_socket=path)) as protocol:
                        self.assertEqual(self.greet(protocol), "hello trainer")
                        self.assertIn("Node", self.describe(protocol, "ps.Node").services)
                        break


if __name__ == "__main__":
    unittest.main()
