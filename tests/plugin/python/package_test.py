# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The library //plugin/python: the files of the wheel, for programs that Bazel builds."""

import inspect
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
    """Returns the files of the wheel, without its description and its copies of system
    libraries."""
    with zipfile.ZipFile(os.environ["WHEEL"]) as wheel:
        return {
            name: wheel.read(name)
            for name in wheel.namelist()
            if ".dist-info/" not in name and "/libisal." not in name
        }


def list_public_functions():
    """(name, function) of the functions of the package and of the methods of its classes."""
    for name in thriftps.__all__:
        public = getattr(thriftps, name)
        if inspect.isfunction(public):
            yield name, public
        elif inspect.isclass(public):
            for method, function in inspect.getmembers(public, inspect.isfunction):
                is_ours = (function.__module__ or "").startswith("thriftps")
                is_public = not method.startswith("_") or method in ("__enter__", "__await__")
                if is_ours and is_public:
                    yield "%s.%s" % (name, method), function


def list_untyped(function):
    """The parameters without a type, and "return"."""
    signature = inspect.signature(function)
    untyped = [
        name
        for name, parameter in signature.parameters.items()
        if name != "self" and parameter.annotation is inspect.Parameter.empty
    ]
    if signature.return_annotation is inspect.Signature.empty:
        untyped.append("return")
    return untyped


class Package(unittest.TestCase):

    def test_public_functions_have_types(self):
        functions = dict(list_public_functions())
        for name in ("connect", "Tables.__enter__", "Table.push_bags", "Call.__await__"):
            self.assertIn(name, functions)
        untyped = {name: list_untyped(function) for name, function in functions.items()}
        self.assertEqual({name: names for name, names in untyped.items() if names}, {})

    def test_public_functions_and_classes_have_docstrings(self):
        documented = dict(list_public_functions())
        documented.update((name, getattr(thriftps, name)) for name in thriftps.__all__)
        missing = [
            name
            for name, each in documented.items()
            if callable(each) and "__" not in name and not inspect.getdoc(each)
        ]
        self.assertEqual(missing, [])

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
