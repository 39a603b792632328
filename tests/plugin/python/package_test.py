# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The library //plugin/python: the files of the wheel, for programs that Bazel builds."""

import os
import unittest
import zipfile

import junit
import thriftps
from server_process import Server

FOLDER = os.path.dirname(os.path.dirname(thriftps.__file__))


def read_folder():
    contents = {}
    for root, _, names in os.walk(FOLDER, followlinks=True):
        for name in names:
            path = os.path.join(root, name)
            if not name.endswith(".pyc"):
                with open(path, "rb") as file:
                    contents[os.path.relpath(path, FOLDER)] = file.read()
    return contents


def read_wheel():
    """Without the description of the wheel and the copies of libraries of the system."""
    with zipfile.ZipFile(os.environ["WHEEL"]) as wheel:
        return {
            name: wheel.read(name)
            for name in wheel.namelist()
            if ".dist-info/" not in name and "/libisal." not in name
        }


class Package(unittest.TestCase):

    def test_has_the_files_of_the_wheel(self):
        expected, got = read_wheel(), read_folder()
        self.assertEqual(sorted(expected), sorted(got))
        self.assertEqual([name for name in expected if expected[name] != got[name]], [])

    def test_pushes_and_looks_up(self):
        with Server() as server, thriftps.connect(server.address) as tables:
            table = tables.create("t", 10, 2, initializer=thriftps.Zeros())
            table.push([3], [[1.0, 2.0]])
            for got, expected in zip(table.lookup([3]).tolist()[0], (-0.01, -0.02)):
                self.assertAlmostEqual(got, expected)


if __name__ == "__main__":
    junit.main()
