# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Arguments that C cannot represent are refused before a call is sent."""

import array
import ctypes
import math
import os
import subprocess
import sys
import unittest

import unpacked_wheel  # noqa: F401, makes the next one importable
import junit
import numpy
from server_process import Server

import thriftps
from thriftps import _native

try:
    import torch
except ImportError:
    torch = None

ROWS, DIM = 10, 4
REFUSED = (ValueError, TypeError)  # thriftps.InvalidArgument is a ValueError

NUL = "victim\0x"
LONE = "victim\ud800"  # half of a pair: there is no UTF-8 for it
NOT_TEXTS = (NUL, LONE, b"victim", 7)
NOT_FLAGS = (2, "no", None, 1.0)


def not_integers(bits):
    high = 1 << (bits - 1)
    return (high, -high - 1, (1 << bits) + 3, 1 << 5000, True, 3.7, "3", None,
            numpy.float64(3), numpy.bool_(True), numpy.array([1, 2]), numpy.uint64(high * 2 - 1)
            if bits == 64 else numpy.int64(high))


NOT_INT32, NOT_INT64 = not_integers(32), not_integers(64)
NOT_FINITE = (math.nan, math.inf, -math.inf, 10**400, True, "1", 1 + 2j, numpy.float32("nan"))
NOT_SECONDS = (*NOT_FINITE, -1.0, 1e9)
NOT_IDS = (
    [1 << 63], [1, -(1 << 63) - 1], [1, (1 << 64) + 1], [3.7], [True, False], [True, 2], ["1"],
    [None], [1 + 0j], b"", numpy.array([1, 1 << 63], "u8"), numpy.array([1.0]),
    numpy.array([True, False]), numpy.array(["1"]), array.array("f", [1.0]),
)
NOT_ROWS = ([[1e300] * DIM], [[None] * DIM], [["1"] * DIM], [[1j] * DIM], [[True] * DIM],
            [[1 << 2000] * DIM], numpy.ones((1, DIM), "c8"), numpy.ones((1, DIM), ">f4"))


def list_calls(tables, server):
    """(name of the argument, wrong values, call of a public method with such a value)."""
    table, bags = tables["victim"], thriftps.Bags
    row, sgd = [[1.0] * DIM], thriftps.SGD(1.0)

    def create(**more):
        tables.create(**{**dict(name="new", rows=ROWS, dim=DIM), **more})

    def import_table(**more):
        server.import_table(**{**dict(files=["f.npy"], name="new", rows=ROWS, dim=DIM), **more})

    def restore(**more):
        server.restore(["s"], [{**dict(name="new", rows=ROWS, dim=DIM), **more}])

    for call in create, import_table, restore:
        yield "name", (*NOT_TEXTS, None), lambda x: call(name=x)
        yield "rows", NOT_INT64, lambda x: call(rows=x)
        yield "dim", NOT_INT32, lambda x: call(dim=x)
        yield "device", NOT_TEXTS, lambda x: call(device=x)
        yield "seed", NOT_INT64, lambda x: call(initializer=thriftps.Zeros(seed=x))
        for name in ("low", "high"):
            yield name, NOT_FINITE, lambda x: call(initializer=thriftps.Normal(**{name: x}))
            yield name, NOT_FINITE, lambda x: call(initializer=thriftps.Uniform(**{name: x}))
        for name in ("mean", "stdev"):
            yield name, NOT_FINITE, lambda x: call(initializer=thriftps.Normal(**{name: x}))
        for kind in (thriftps.SGD, thriftps.Adagrad, thriftps.RowwiseAdagrad, thriftps.Adam,
                     thriftps.AdamW, thriftps.Ftrl):
            yield "lr", (*NOT_FINITE, None), lambda x: call(optimizer=kind(lr=x))
            for name in set(kind.__dataclass_fields__) - {"lr", "nesterov"}:
                yield name, NOT_FINITE, lambda x: call(optimizer=kind(lr=1.0, **{name: x}))
        yield "nesterov", NOT_FLAGS, lambda x: call(optimizer=thriftps.SGD(lr=1.0, nesterov=x))
        yield ("momentum", (None, 0),
               lambda x: call(optimizer=thriftps.SGD(lr=1.0, momentum=x, nesterov=True)))
    yield "server", (*NOT_INT32[1:], 1 << 32, -1), lambda x: create(shard="whole", server=x)
    yield "tensor", (*NOT_TEXTS, None), lambda x: import_table(tensor=x)
    yield "files", ("f.npy",), lambda x: import_table(files=x)
    yield r"files\[1\]", (*NOT_TEXTS, None), lambda x: import_table(files=["f.npy", x])
    yield "snapshots", ("s",), server.restore
    yield r"snapshots\[0\]", (*NOT_TEXTS, None), lambda x: server.restore([x])

    yield "name", (*NOT_TEXTS, None), tables.drop
    yield "table", (*NOT_TEXTS, None), lambda x: tables[x].lookup([1])
    yield "table", (*NOT_TEXTS, None), lambda x: tables[x].push([1], row)
    yield "table", (*NOT_TEXTS, None), lambda x: tables.lookup_bags([bags(x, [1], [0])])
    yield "table", (*NOT_TEXTS, None), lambda x: tables.push_bags([bags(x, [1], [0])], [row])
    yield "table", (*NOT_TEXTS, None), lambda x: server.lookup_with_lsns(x, [1])
    yield "table", (*NOT_TEXTS, None), lambda x: server.assign(x, [1], row)
    yield "ids", NOT_IDS, table.lookup
    yield "ids", NOT_IDS, lambda x: table.push(x, row)
    yield "ids", NOT_IDS, lambda x: table.lookup_bags(x, [0])
    yield "ids", NOT_IDS, lambda x: table.push_bags(x, [0], row)
    yield "offsets", NOT_IDS, lambda x: table.lookup_bags([1], x)
    yield "offsets", NOT_IDS, lambda x: table.push_bags([1], x, row)
    yield "ids", NOT_IDS, lambda x: server.lookup_with_lsns("victim", x)
    yield "ids", NOT_IDS, lambda x: server.assign("victim", x, row)
    yield "", NOT_ROWS, lambda x: table.push([1], x)
    yield "", NOT_ROWS, lambda x: table.push_bags([1], [0], x)
    yield "", NOT_ROWS, lambda x: table.lookup_bags([1], [0], weights=x[0])
    yield "", NOT_ROWS, lambda x: server.assign("victim", [1], x)
    yield "", NOT_ROWS, lambda x: server.average(0, 0, 0, x)
    yield "", NOT_ROWS, lambda x: server.init_model({"w": x}, sgd)
    yield "", NOT_ROWS, lambda x: server.update(0, [x])
    yield "lsn", NOT_INT64, lambda x: server.assign("victim", [1], row, lsn=x)

    yield "trainer", NOT_INT32, lambda x: server.average(x, 0, 0, [1.0])
    yield "batch", NOT_INT64, lambda x: server.average(0, x, 0, [1.0])
    yield "bucket", NOT_INT32, lambda x: server.average(0, 0, x, [1.0])
    yield "weight", NOT_FINITE, lambda x: server.average(0, 0, 0, [1.0], weight=x)
    yield "weight", NOT_FINITE, lambda x: server.average(0, 0, 0, None, weight=x)
    sparse = thriftps.SparseGradient
    yield "rows", NOT_INT64, lambda x: server.average(0, 0, 0, sparse([1], row, x))
    yield "ids", NOT_IDS, lambda x: server.average(0, 0, 0, sparse(x, row, 9))
    yield r"parameters\[0\]", (*NOT_TEXTS, None), lambda x: server.init_model({x: [1.0]}, sgd)
    yield "lr", NOT_FINITE, lambda x: server.init_model({"w": [1.0]}, thriftps.SGD(x))
    yield "trainer", NOT_INT32, lambda x: server.update(x, [[1.0]])
    yield "version", NOT_INT64, lambda x: server.update(0, [[1.0]], version=x)

    yield "key", (*NOT_TEXTS, None), lambda x: server.put(x, b"new")
    yield "value", ("new", 7, None, bytearray(b"new")), lambda x: server.put("victim", x)
    yield "key", (*NOT_TEXTS, None), server.get
    yield "wait", (*NOT_FINITE, -1.0, 1 << 31), lambda x: server.get("victim", wait=x)
    yield "wait", NOT_FINITE, lambda x: server.get("victim", wait=x, timeout=1)
    yield "key", (*NOT_TEXTS, None), lambda x: server.add(x, 1)
    yield "amount", NOT_INT64, lambda x: server.add("number", x)
    yield "prefix", (*NOT_TEXTS, None), server.remove
    yield "cursor", NOT_INT64, server.read_log
    yield "max_bytes", NOT_INT32, lambda x: server.read_log(1, max_bytes=x)
    yield "wait", (*NOT_FINITE, -1.0, 1 << 31), lambda x: server.read_log(1, wait=x)
    yield "levels", ("info\0,net=debug", 7, None), server.set_log_level
    yield "incremental", NOT_FLAGS, lambda x: server.snapshot(incremental=x)

    address = server.address
    for kind in (thriftps.Server, thriftps.connect):
        yield "address", ("unix:/s\0x", LONE, 7, b"unix:/s"), kind
        yield "timeout", NOT_SECONDS, lambda x: kind(address, timeout=x)
        for name in ("authorities", "certificate", "key"):
            yield name, (NUL, 7), lambda x: kind(address, tls=thriftps.Tls(**{name: x}))
        yield "allow_tls_1_2", NOT_FLAGS, lambda x: kind(address, tls=thriftps.Tls(None, None,
                                                                                     None, x))
    yield "address", ("127.0.0.1:65536", "127.0.0.1:4294967376", "127.0.0.1:-1"), thriftps.Server
    yield "addresses", (address,), thriftps.Tables
    yield "shared_memory", NOT_FLAGS, lambda x: thriftps.Server(address, shared_memory=x)
    yield "exact", NOT_FLAGS, lambda x: thriftps.connect(address, exact=x)
    yield "client", NOT_TEXTS, lambda x: thriftps.Tables([address], client=x)
    for call in (
        tables.list, tables.discover, server.describe, server.metrics, server.clear_metrics,
        server.model, server.flush, server.snapshot, server.reset,
        lambda **more: table.lookup([1], **more), lambda **more: table.push([1], row, **more),
        lambda **more: tables.drop("victim", **more),
        lambda **more: server.remove("victim", **more),
    ):
        yield "timeout", NOT_SECONDS, lambda x: call(timeout=x)
    yield "timeout", NOT_FINITE, lambda x: table.lookup_async([1]).result(timeout=x)


class Arguments(unittest.TestCase):

    def test_public_methods(self):
        with Server() as process, thriftps.connect(process.address) as tables, thriftps.Server(
            process.address
        ) as server:
            victim = tables.create("victim", ROWS, DIM, initializer=thriftps.Zeros())
            server.put("victim", b"value")
            for name, values, call in list_calls(tables, server):
                for value in values:
                    with self.subTest(name=name, value=repr(type(value)), call=call):
                        with self.assertRaisesRegex(REFUSED, name) as raised:
                            call(value)
                        self.assertNotIn("INTERNAL", str(raised.exception))
            self.assertEqual([each["name"] for each in tables.list()], ["victim"])
            self.assertFalse(victim.lookup(range(ROWS)).any())
            self.assertEqual(server.get("victim"), b"value")
            for missing in (server.model, lambda: server.get("number")):
                with self.assertRaises(thriftps.NotFound):
                    missing()

    def test_the_message_has_the_value_and_the_limit(self):
        with Server() as process, thriftps.connect(process.address) as tables:
            for rows, dim, expected in (
                (2**64 + 10, DIM, r"rows is 18446744073709551626, .*\[-9223372036854775808, "),
                (ROWS, 2**32 + 4, r"dim is 4294967300, .*2147483647\]"),
            ):
                with self.assertRaisesRegex(thriftps.InvalidArgument, expected):
                    tables.create("wide", rows, dim)
            with self.assertRaisesRegex(thriftps.InvalidArgument, r"name is 'victim\\x00x', .*NUL"):
                tables.drop(NUL)
            wide = r"ids\[1\] is 9223372036854775808"
            with self.assertRaisesRegex(thriftps.InvalidArgument, wide):
                tables["wide"].lookup([1, 2**63])

    def test_integers_of_arrays_modules_are_integers(self):
        scalars = [numpy.int32(3), numpy.uint8(3), numpy.array(3)]
        if torch is not None:
            scalars.append(torch.tensor(3))
        with Server() as process, thriftps.connect(process.address) as tables:
            for i, scalar in enumerate(scalars):
                table = tables.create("t%d" % i, scalar, scalar)
                self.assertEqual(table.lookup([scalar - 1]).shape, (1, 3))

    @unittest.skipIf(torch is None, "PyTorch is not installed (Debian: python3-torch)")
    def test_tensors(self):
        from thriftps.torch import RemoteEmbeddingBag

        wrong = [torch.tensor([1.0]), torch.tensor([True]), torch.tensor([1j])]
        with Server() as process, thriftps.connect(process.address) as tables:
            module = RemoteEmbeddingBag(tables, "t", ROWS, DIM)
            for ids in wrong:
                for call in (
                    tables["t"].lookup, module.prefetch, lambda ids: module(ids.reshape(1, 1)),
                    lambda ids: module(torch.tensor([1]), ids),
                    lambda ids: module(ids, torch.tensor([0])),
                ):
                    with self.subTest(ids=ids), self.assertRaisesRegex(TypeError, "ids|offsets"):
                        call(ids)
            for rows in (torch.tensor(3.0), torch.tensor(True), torch.tensor([1, 2])):
                with self.assertRaisesRegex(TypeError, "rows"):
                    tables.create("new", rows, DIM)

    def test_ids_without_numpy(self):
        program = """if True:
            import array, sys
            sys.modules["numpy"] = None
            import thriftps
            with thriftps.connect(sys.argv[1]) as tables:
                table = tables.create("bare", 10, 2)
                for ids in ([1 << 63], [3.7], [True], ["1"], array.array("f", [1.0]),
                            array.array("d", [1.0]), array.array("Q", [1 << 63])):
                    try:
                        table.lookup(ids)
                    except (ValueError, TypeError) as error:
                        assert str(error).find("ids[0] is ") >= 0, error
                    else:
                        print(ids, "was accepted")
                for kind in "bBhHiIlLqQ":
                    assert table.lookup(array.array(kind, [9])).shape == (1, 2), kind
                try:
                    table.push([1], [[1e300, 1.0]])
                except ValueError:
                    pass
                else:
                    print("1e300 was accepted")
        """
        with Server() as server:
            output = subprocess.run(
                [sys.executable, "-c", program, server.address],
                check=True,
                text=True,
                stdout=subprocess.PIPE,
                env=dict(os.environ, PYTHONPATH=sys.path[0]),
            ).stdout
        self.assertEqual(output, "")


class Mirror(unittest.TestCase):
    """All functions and structs of the library, so that a new one cannot be forgotten."""

    RAW = (ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double,
           ctypes.c_char_p)
    WRONG = {ctypes.c_char_p: NUL, ctypes.c_double: math.nan}

    def refuse_each(self, what, members, convert):
        """Calls convert(i, value) with a wrong value for each number and each string."""
        for i, (name, kind) in enumerate(members):
            if kind.type in self.RAW:
                with self.subTest(what=what, name=name):
                    self.assertIsNotNone(kind.convert)
                    with self.assertRaisesRegex(REFUSED, name):
                        convert(i, self.WRONG.get(kind.type, 1 << 64))

    def test_functions(self):
        self.assertGreater(len(_native.CALLS), 25)
        for name, members in _native.CALLS.items():
            self.assertIsInstance(getattr(_native.lib, name), _native.Function)

            def convert(i, value):
                _native.Function(None, members[i:]).convert([value])

            self.refuse_each(name, members, convert)

    def test_functions_without_arguments_of_the_caller(self):
        for name, (_, types) in _native.FUNCTIONS.items():
            self.assertRegex(name, "^(call|queue)_|_(cancel|free)$|^get_sizes$")
            self.assertNotIn(ctypes.c_char_p, types)

    def test_structs(self):
        checked = {each for each in _native.STRUCTS if issubclass(each, _native.Struct)}
        # The other structs are made by the library, and for the memory of arrays.
        self.assertEqual(set(_native.STRUCTS) - checked, {_native.Reply, _native.TensorView})
        for struct in checked:
            def convert(i, value):
                part = type("Part", (_native.Struct,), {
                    "members": struct.members[i:i + 1],
                    "_fields_": struct._fields_[i:i + 1],
                })
                part(value)

            self.refuse_each(struct.__name__, struct.members, convert)


if __name__ == "__main__":
    junit.main()
