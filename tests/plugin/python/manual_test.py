# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The secure set-up of two hosts in OPERATING.md, line by line, with the wheel."""

import os
import re
import subprocess
import tempfile
import unittest

import junit
import unpacked_wheel

PROGRAM = os.path.abspath(os.environ["THRIFTPS_SERVER"])
WAIT_S = 60


def read_lines():
    with open("OPERATING.md", encoding="utf-8") as file:
        text = re.search(r"<!-- a secure set-up: begin.*?-->\n(.*?)<!-- a secure set-up: end -->",
                         file.read(), re.DOTALL).group(1)
    return [line.strip() for line in text.strip("\n").split("\n")]


class SetUpOfTwoHosts(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        os.symlink(PROGRAM, os.path.join(self.folder, "thriftps_server"))
        self.environment = dict(os.environ, PYTHONPATH=unpacked_wheel.FOLDER,
                                PATH=self.folder + ":" + os.environ["PATH"])

    def run_shell(self, lines):
        """The exit status, standard output and standard error of a shell."""
        done = subprocess.run(["/bin/sh", "-ec", "\n".join(lines)], cwd=self.folder,
                              capture_output=True, text=True, timeout=WAIT_S, check=False,
                              env=self.environment)
        return done.returncode, done.stdout, done.stderr

    def test_the_ten_lines(self):
        lines = read_lines()
        self.assertEqual(len(lines), 10)
        code, _, errors = self.run_shell(lines[:7])
        self.assertEqual(code, 0, errors)
        server = subprocess.Popen(
            ["/bin/sh", "-ec", "exec " + lines[7].replace(":9090", ":0")], cwd=self.folder,
            env=self.environment, stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip().rpartition(":")[2]
            export, connect = [line.replace("9090", port) for line in lines[8:]]
            code, shown, errors = self.run_shell([export, connect])
            self.assertEqual(code, 0, errors)
            self.assertIn("localhost:" + port, shown)
            program, connection = re.fullmatch(r"(python3 -c '.*; )print\((.*)\)'",
                                               connect).groups()
            create = program + connection + ".create(\"users\", 10, 2)'"
            show = program + "print(" + connection + ".list())'"
            code, _, errors = self.run_shell([export, create])
            self.assertNotEqual(code, 0)
            self.assertIn("PermissionDenied", errors)
            operator = export.replace("trainer.token", "operator.token")
            code, _, errors = self.run_shell([operator, create])
            self.assertEqual(code, 0, errors)
            code, shown, errors = self.run_shell([export, create, show])
            self.assertEqual(code, 0, errors)
            self.assertIn("users", shown)
            code, _, errors = self.run_shell(["export SERVER=localhost", show])
            self.assertNotEqual(code, 0)
            self.assertIn("Unauthenticated", errors)
        finally:
            server.terminate()
            server.wait(WAIT_S)
            server.stdout.close()


if __name__ == "__main__":
    junit.main()
