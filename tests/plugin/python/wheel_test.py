# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The wheel, installed by pip into environments that are empty, or have Debian's modules."""

import glob
import os
import re
import subprocess
import tempfile
import unittest

import junit
from server_process import Server

GENERATED = """
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.transport import TSocket, TTransport
from thriftps.node import Node

transport = TTransport.TFramedTransport(TSocket.TSocket(unix_socket="SOCKET"))
transport.open()
print(Node.Client(TMultiplexedProtocol(TBinaryProtocol(transport), "Node")).describe().version)
"""


class Wheel(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.python = os.path.join(self.folder, "venv/bin/python")

    def run_python(self, *arguments):
        """The output of the command, run without the Python variables of this test's
        environment."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return subprocess.run(
            [self.python, *arguments],
            check=True,
            text=True,
            env=clean,
            cwd=self.folder,
            stdout=subprocess.PIPE,
        ).stdout

    def pip(self, *arguments):
        """The system's pip installs into the environment, which needs no pip of its own."""
        subprocess.run(
            ["/usr/bin/python3", "-m", "pip", "--python", self.python, "--quiet", *arguments],
            check=True,
        )

    def install(self, *options):
        subprocess.run(
            [
                "/usr/bin/python3",
                "-m",
                "venv",
                "--without-pip",
                *options,
                os.path.join(self.folder, "venv"),
            ],
            check=True,
        )
        self.pip("install", "--no-index", os.path.abspath(os.environ["WHEEL"]))

    def test_in_an_empty_environment(self):
        self.install()
        self.pip("check")
        self.assertEqual(
            self.run_python("-c", "import thriftps; print(thriftps.__version__)"), "0.1.0\n"
        )
        self.check_readme()
        self.pip("uninstall", "--yes", "thriftps")
        left = glob.glob(self.folder + "/venv/lib/*/site-packages/thriftps*")
        self.assertEqual(left, [])

    def test_with_the_modules_of_the_system(self):
        self.install("--system-site-packages")
        self.check_readme()
        socket = os.path.join(self.folder, "generated")
        with Server(listen="unix:" + socket):
            self.assertEqual(self.run_python("-c", GENERATED.replace("SOCKET", socket)), "0.1.0\n")

    def check_readme(self):
        """Its program runs unchanged, except for the address."""
        socket = os.path.join(self.folder, "s")
        with open(os.environ["README"], encoding="utf-8") as readme:
            program = re.search(
                r"^```python\n(.*?)^```$", readme.read(), re.MULTILINE | re.DOTALL
            ).group(1)
        with Server(listen="unix:" + socket):
            output = self.run_python("-W", "error", "-c", program.replace("/run/ps.sock", socket))
        self.assertIn("(2, 4)", output)
        self.assertIn("INVALID_ARGUMENT: ", output)


if __name__ == "__main__":
    junit.main()
