# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A follower of a server's log: copies of its embedding tables, built from Durability.read_log.

It decodes records as runtime/server/log/FORMAT.md describes them. It supports FLOAT32 tables whose
rows start with zeros, with the optimizers SGD and ADAGRAD.
"""

import json
import math
import os
import struct

HEAD = struct.Struct("<4sIqQIIHHI24x")
HOLE, CREATE_TABLE, DROP_TABLE, APPLY_ROWS, APPLY_BAGS = range(5)
ASSIGN_ROWS = 8
SKIPPED = 1
SGD, ADAGRAD = 1, 2
SUM, MEAN = 1, 2
LETTERS = {1: "f", 6: "q"}  # of dtypes
DTYPES = {"F32": "f", "I64": "q"}


class Damaged(Exception):
    pass


def _make_crc_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ 0x82F63B78 * (byte & 1)
        table.append(byte)
    return table


_CRC = _make_crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def align(n_bytes):
    return (n_bytes + 63) & ~63


class Body:
    """Reads fields from the front of a body, and tensors from the part after them."""

    def __init__(self, data, n_fields):
        self.data, self.at, self.tensors_at = data, 0, align(n_fields)

    def read(self, layout):
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values if len(values) > 1 else values[0]

    def text(self):
        n_bytes = self.read("I")
        text = self.data[self.at:self.at + n_bytes].decode()
        self.at += n_bytes + 1
        return text

    def push_id(self):
        kind = self.read("B")
        if kind == 0:
            return None
        push_id = (self.text(), self.read("q"), self.read("16s"))
        return push_id + (self.text(),) if kind == 2 else push_id

    def tables(self):
        return [(self.text(), self.read("q"), self.read("B")) for _ in range(self.read("I"))]

    def optimizer(self):
        kind, *numbers = self.read("B9d")
        return kind, numbers

    def tensor(self):
        dtype = self.read("B")
        if dtype == 0:
            return None
        shape = [self.read("q") for _ in range(self.read("B"))]
        letter = LETTERS[dtype]
        layout = "<%d%s" % (math.prod(shape), letter)
        values = struct.unpack_from(layout, self.data, self.tensors_at)
        self.tensors_at += align(struct.calcsize(layout))
        return values


def read_safetensors(path):
    """The numbers of each tensor."""
    with open(path, "rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        layout = "<%d%s" % (math.prod(tensor["shape"]), DTYPES[tensor["dtype"]])
        tensors[name] = struct.unpack(layout, data[begin:end])
    return tensors


def rows_of(numbers, dim):
    return [list(numbers[i:i + dim]) for i in range(0, len(numbers), dim)]


class Table:

    def __init__(self, lsn, name, dim, rows, kind, learning_rate, epsilon):
        self.name, self.dim, self.kind = name, dim, kind
        self.learning_rate, self.epsilon = f32(learning_rate), f32(epsilon)
        self.values = [[0.0] * dim for _ in range(rows)]
        self.sums = [[0.0] * dim for _ in range(rows)]
        self.lsns = [lsn] * rows

    @classmethod
    def of_record(cls, lsn, body):
        name = body.text()
        dim, _ = body.read("IB")
        _, rows, *_ = body.read("BqqqII")
        body.read("B4dq")  # the initializer: zeros
        kind, numbers = body.optimizer()
        return cls(lsn, name, dim, rows, kind, numbers[0], numbers[3])

    @classmethod
    def of_snapshot(cls, folder, described):
        """Each row has the state after the change of its LSN
        (runtime/server/snapshot/FORMAT.md)."""
        spec, lsn = described["spec"], described["incarnation"]
        optimizer, dim = spec["optimizer"], spec["dim"]
        table = cls(lsn, spec["name"], dim, spec["shard"]["rows"], optimizer["kind"],
                    optimizer["learning_rate"], optimizer.get("epsilon", 0))
        tensors = read_safetensors(os.path.join(folder, described["file"]["name"]))
        table.values = rows_of(tensors[table.name + ".weight"], dim)
        if table.kind == ADAGRAD:
            table.sums = rows_of(tensors[table.name + ".state.sum"], dim)
        table.lsns = [max(lsn, of_row) for of_row in tensors[table.name + ".lsn"]]
        return table

    def step(self, gradients, lsn):
        """One step of the optimizer; each operation is rounded like the server's."""
        for row, gradient in gradients.items():
            if self.lsns[row] >= lsn:
                continue  # the snapshot already has the change
            values, sums = self.values[row], self.sums[row]
            for i, g in enumerate(gradient):
                if self.kind == ADAGRAD:
                    sums[i] = f32(sums[i] + f32(g * g))
                    g = f32(g / f32(f32(math.sqrt(sums[i])) + self.epsilon))
                values[i] = f32(values[i] - f32(self.learning_rate * g))
            self.lsns[row] = lsn

    def assign(self, rows, values, as_of_lsn, lsn):
        """The last value of a repeated row counts; rows newer than `as_of_lsn` stay."""
        last = {row: values[i * self.dim:(i + 1) * self.dim] for i, row in enumerate(rows)}
        for row, values in last.items():
            if self.lsns[row] < lsn and (as_of_lsn == 0 or self.lsns[row] <= as_of_lsn):
                self.values[row], self.lsns[row] = list(values), lsn


class Follower:
    """`tables` has the state of the server's tables after the change of LSN `next_lsn` - 1."""

    def __init__(self):
        self.log = None
        self.next_lsn = 1
        self.epoch = 0
        self.tables = {}
        self.kinds = set()

    def begin(self, folder):
        """Starts from a snapshot, which is a folder with a manifest."""
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            manifest = json.load(file)
        tables = [Table.of_snapshot(folder, described) for described in manifest["tables"]]
        self.tables = {table.name: table for table in tables}
        self.next_lsn = manifest["lsn"] + 1

    def follow(self, calls, max_bytes=1 << 20, wait_ms=60000):
        """Makes one call of read_log; returns the number of its records."""
        batch = calls.read_log(self.next_lsn, max_bytes, wait_ms)
        if self.log not in (None, batch.log):
            raise Damaged("another log")
        self.log = batch.log
        before, at = self.next_lsn, 0
        while at < len(batch.records):
            at += self.take(batch.records, at)
        if self.next_lsn != batch.next_lsn or self.next_lsn > batch.durable_lsn + 1:
            raise Damaged("the records end before LSN %d, but the next cursor is %d"
                          % (self.next_lsn, batch.next_lsn))
        return self.next_lsn - before

    def take(self, data, at):
        """Checks and applies a record; returns its length."""
        (magic, head_crc, lsn, n_body, body_crc, n_fields, kind, _,
         epoch) = HEAD.unpack_from(data, at)
        head = data[at:at + 4] + bytes(4) + data[at + 8:at + HEAD.size]
        body = data[at + HEAD.size:at + HEAD.size + n_body]
        if magic != b"TPSR" or crc32c(head) != head_crc:
            raise Damaged("the head at %d of the batch" % at)
        if len(body) != n_body or crc32c(body) != body_crc:
            raise Damaged("the record at %d of the batch" % at)
        if lsn != self.next_lsn:
            raise Damaged("LSN %d instead of %d" % (lsn, self.next_lsn))
        if epoch < self.epoch:
            raise Damaged("epoch %d after %d" % (epoch, self.epoch))
        if kind != HOLE:
            self.apply(lsn, kind, Body(body, n_fields))
        self.kinds.add(kind)
        self.next_lsn, self.epoch = lsn + 1, epoch
        return HEAD.size + n_body

    def apply(self, lsn, kind, body):
        body.push_id()
        named = body.tables()
        if kind == CREATE_TABLE:
            table = Table.of_record(lsn, body)
            self.tables[table.name] = table
        elif kind == DROP_TABLE:
            del self.tables[body.text()]
        elif kind in (APPLY_ROWS, APPLY_BAGS):
            read = self.read_rows if kind == APPLY_ROWS else self.read_bags
            sums = read(body, named)
            for name, _, flags in named:
                if not flags & SKIPPED:
                    self.tables[name].step(sums[name], lsn)
        elif kind == ASSIGN_ROWS:
            rows, values, as_of_lsn = body.tensor(), body.tensor(), body.read("q")
            self.tables[named[0][0]].assign(rows, values, as_of_lsn, lsn)
        else:
            raise Damaged("kind %d is not one of tables" % kind)

    def read_rows(self, body, named):
        """Table: row: sum of gradients."""
        name = named[0][0]
        rows, values, dim, sums = body.tensor(), body.tensor(), self.tables[name].dim, {}
        for i, row in enumerate(rows):
            add(sums, row, values[i * dim:(i + 1) * dim])
        return {name: sums}

    def read_bags(self, body, named):
        sums = {name: {} for name, _, _ in named}
        for _ in range(body.read("I")):
            name, pooling = body.text(), body.read("B")
            indices, offsets, weights, gradient = [body.tensor() for _ in range(4)]
            if pooling not in (SUM, MEAN) or body.read("B") != 0:
                raise Damaged("pooling %d, which only earlier servers apply" % pooling)
            dim = self.tables[name].dim
            for bag, begin in enumerate(offsets):
                of_bag = gradient[bag * dim:(bag + 1) * dim]
                end = offsets[bag + 1] if bag + 1 < len(offsets) else len(indices)
                for i in range(begin, end):
                    factor = weights[i] if weights else 1.0
                    divisor = end - begin if pooling == MEAN else 1.0
                    add(sums[name], indices[i], [f32(f32(g / divisor) * factor) for g in of_bag])
        return sums


def add(sums, row, gradient):
    """Exact for integers, in any order."""
    sums[row] = [f32(a + b) for a, b in zip(sums.get(row, [0.0] * len(gradient)), gradient)]
