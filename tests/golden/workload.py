# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The commands that made the golden data directories, and the state that clients can read.

make_golden.py sends the phases 1 to 4. golden_test.py sends phase 5 to a server that has started on
a copy. All values depend only on names and numbers, so both send the same bytes.
"""

import base64
import hashlib
import itertools
import json
import random
import struct
import time

from peers import WAIT_S, Call, Client, Server, tensor
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thriftps.durability import Durability
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import (BagGradient, BagQuery, DurabilityMode, Initializer,
                                             InitializerKind, Pooling, Rounding, TableSpec)
from thriftps.node import Node
from thriftps.node.ttypes import DurabilityPhase, ErrorCode, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.parameter_server.ttypes import NamedTensor
from thriftps.session import Session
from thriftps.tensor.ttypes import (DType, Optimizer, OptimizerKind, PushId, SparseTensor, Tensor)

TRAINERS = 2
# Of a client: its older push ids are stairs. Of the server: the windows of all other clients are
# floors.
WINDOW, WINDOWS = 8, 6
ROWS = 30

OPTIMIZERS = {
    "sgd": Optimizer(OptimizerKind.SGD, 0.05, weight_decay=0.01),
    "momentum": Optimizer(OptimizerKind.SGD, 0.05, momentum=0.9),
    "adagrad": Optimizer(OptimizerKind.ADAGRAD, 0.1, weight_decay=0.01, epsilon=1e-6),
    "rowwise": Optimizer(OptimizerKind.ROWWISE_ADAGRAD, 0.1),
    "adam": Optimizer(OptimizerKind.ADAM, 0.02, beta1=0.8, beta2=0.99),
    "ftrl": Optimizer(OptimizerKind.FTRL, 0.2, l1=0.01, l2=0.02, beta=0.5),
}
DTYPES = {"f32": DType.FLOAT32, "f16": DType.FLOAT16, "bf16": DType.BFLOAT16}
SHARDS = [{}, {"first_row": 7, "shard_rows": 16}, {"shard_index": 1, "shard_count": 3}]
MODES = [None, DurabilityMode.NONE, DurabilityMode.INTERVAL, DurabilityMode.COMMIT]
INITIALIZERS = [
    None,
    Initializer(InitializerKind.UNIFORM, low=-0.5, high=0.5, seed=11),
    Initializer(InitializerKind.NORMAL, low=-1.0, high=1.0, mean=0.1, stdev=0.7, seed=12),
    Initializer(InitializerKind.ZEROS),
    Initializer(InitializerKind.NORMAL, seed=13),
]
DIMS = [3, 6, 1, 9]
# A table whose pushes depend only on their ids, so that they can be repeated.
IDS_TABLE = "ids"
TENANT, TENANT_TABLE = "red", "red.rows"


def table_specs():
    """Each optimizer with each dtype, and with each kind of shard; every durability, rounding and
    initializer."""
    specs = []
    for i, (optimizer, dtype) in enumerate(itertools.product(OPTIMIZERS, DTYPES)):
        is_half = dtype != "f32"
        specs.append(TableSpec(
            "%s.%s" % (optimizer, dtype), ROWS, DIMS[(i + i // 4) % 4], DTYPES[dtype],
            initializer=INITIALIZERS[i % 5], optimizer=OPTIMIZERS[optimizer],
            durability=MODES[i % 4],
            rounding=Rounding.STOCHASTIC if is_half and i // 3 % 2 == 0 else None,
            **SHARDS[(i // 3 + i) % 3]))
    specs.append(TableSpec("usual", 20, 4, DType.FLOAT32))
    specs.append(TableSpec(IDS_TABLE, ROWS, 2, DType.FLOAT32, durability=DurabilityMode.COMMIT,
                           optimizer=Optimizer(OptimizerKind.SGD, 1.0)))
    # So large that a snapshot can have several increments of it.
    specs.append(TableSpec("large", 400, 2, DType.FLOAT32,
                           initializer=Initializer(InitializerKind.ZEROS),
                           optimizer=OPTIMIZERS["adagrad"]))
    return specs


def is_kept(spec):
    """Whether a restart keeps every push to the table."""
    return spec.durability != DurabilityMode.NONE


# ---- values -------------------------------------------------------------------------------------


def encode(values, dtype):
    if dtype == DType.FLOAT16:
        return struct.pack("<%de" % len(values), *values)
    data = struct.pack("<%df" % len(values), *values)
    if dtype == DType.BFLOAT16:
        return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))
    return data


def draw_tensor(draw, shape, dtype=DType.FLOAT32):
    n = shape[0] * (shape[1] if len(shape) > 1 else 1)
    return Tensor(dtype, shape, encode([draw.uniform(-1, 1) for _ in range(n)], dtype))


def ids(values):
    return tensor(values, dtype=DType.INT64)


def draw_rows(draw, spec, rows, n):
    """A gradient of n of these rows, some of which may be equal. Half-precision tables also get
    gradients of their own type."""
    dtype = spec.dtype if draw.random() < 0.5 else DType.FLOAT32
    return SparseTensor(ids([draw.choice(rows) for _ in range(n)]),
                        draw_tensor(draw, [n, spec.dim], dtype), [spec.rows, spec.dim])


def draw_query(draw, spec, rows, pooling, weighted):
    sizes = [draw.randrange(4) for _ in range(5)]
    indices = [draw.choice(rows) for _ in range(sum(sizes))]
    return BagQuery(spec.name, ids(indices), ids([sum(sizes[:i]) for i in range(5)]), pooling,
                    draw_tensor(draw, [len(indices)]) if weighted else None)


def draw_bags(draw, spec, rows, pooling, weighted=False):
    return BagGradient(draw_query(draw, spec, rows, pooling, weighted),
                       draw_tensor(draw, [5, spec.dim]))


# ---- a server and its clients -------------------------------------------------------------------


class GoldenServer:
    """A server on a data directory, LIVE, with connections that stay open. A context manager."""

    def __init__(self, folder, access, tokens, *flags):
        self.process = Server("--data-dir=" + folder, "--ntrainer=%d" % TRAINERS,
                              "--push-window=%d" % WINDOW, "--push-clients=%d" % WINDOWS,
                              "--log-segment-mib=1", "--access-file=" + access,
                              "--token-file=" + tokens, *flags)
        self.clients = []
        try:
            self.tables = self.connect(EmbeddingTable)
            self.durability = self.connect(Durability)
            self.trainers = [self.connect(ParameterServer) for _ in range(TRAINERS)]
            self.node = self.connect(Node)
            self.wait_until_live()
        except BaseException:
            self.__exit__()
            raise

    def connect(self, service, token=None):
        client = Client(self.process.address, service)
        calls = client.__enter__()
        self.clients.append(client)
        if token is not None:
            Session.Client(TMultiplexedProtocol(client.protocol, "Session")).authenticate(token)
        return calls

    def wait_until_live(self):
        deadline = time.monotonic() + WAIT_S
        while self.phase() == DurabilityPhase.RECOVERING:
            if time.monotonic() > deadline:
                raise TimeoutError("the server did not end its recovery")
            time.sleep(0.01)
        if self.phase() != DurabilityPhase.LIVE:
            raise RuntimeError("the server is not LIVE, but in phase %d" % self.phase())

    def phase(self):
        return self.node.describe().durability.phase

    def kill(self):
        self.process.process.kill()
        self.process.wait()
        self.close()

    def close(self):
        for client in self.clients:
            client.__exit__()
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
        if self.process.process.returncode is None:
            self.process.__exit__()


# ---- commands -----------------------------------------------------------------------------------


def find_rows(tables, spec):
    """The ids of the rows of the table, which may be a shard."""
    if spec.shard_count:
        found = []
        for row in range(spec.rows):
            try:
                tables.lookup_rows(spec.name, ids([row]))
                found.append(row)
            except ServiceError as failure:
                if failure.code != ErrorCode.INVALID_ARGUMENT:
                    raise
        return found
    first = spec.first_row or 0
    return list(range(first, first + (spec.shard_rows or spec.rows - first)))


def push_by_id(tables, client, sequence, other=0):
    """The push of this id, to IDS_TABLE. `other` makes other bytes."""
    draw = random.Random("%s/%d" % (client, sequence))
    row, value = draw.randrange(ROWS), draw.randrange(1, 9) + other
    tables.apply_row_gradients(
        IDS_TABLE,
        SparseTensor(ids([row]), tensor([float(value), -float(value)], [1, 2]), [ROWS, 2]),
        PushId(client, sequence))


def outcome_of(call):
    try:
        call()
        return "applied once"
    except ServiceError as failure:
        return ErrorCode._VALUES_TO_NAMES[failure.code]


def push_tables(server, rows, phase):
    """Row gradients, bag gradients and assigned rows, for every table; with and without ids."""
    tables = server.tables
    specs = [spec for spec in table_specs() if spec.name != IDS_TABLE]
    for i, spec in enumerate(specs):
        draw = random.Random("rows/%s/%d" % (spec.name, phase))
        push = PushId("rows", 100 * phase + i) if i % 3 else None
        tables.apply_row_gradients(spec.name, draw_rows(draw, spec, rows[spec.name], 7), push)
    tables.apply_row_gradients("adam.f32", SparseTensor(
        ids([]), tensor([], [0, find_spec("adam.f32").dim]), [ROWS, find_spec("adam.f32").dim]),
        None)  # without rows, it is a step nevertheless
    for i in range(len(specs)):
        draw = random.Random("bags/%d/%d" % (i, phase))
        first, second, third = (specs[(i + j) % len(specs)] for j in (0, 5, 10))
        tables.apply_bag_gradients([
            draw_bags(draw, first, rows[first.name], Pooling.SUM),
            draw_bags(draw, second, rows[second.name], Pooling.MEAN),
            draw_bags(draw, third, rows[third.name], Pooling.SUM, weighted=True),
            draw_bags(draw, first, rows[first.name], Pooling.MEAN),
        ], PushId("bags", 100 * phase + i) if i % 2 else None)
    for i, spec in enumerate(specs[phase % 4::4]):
        draw = random.Random("assign/%s/%d" % (spec.name, phase))
        lsns = read_rows(tables, spec, rows[spec.name])[1]
        chosen = [draw.choice(rows[spec.name]) for _ in range(6)]
        dtype = spec.dtype if i % 2 else DType.FLOAT32
        # Rows that changed after the median LSN keep their values.
        lsn = sorted(lsns)[len(lsns) // 2] if i % 3 == 0 else 0
        tables.assign_rows(spec.name, ids(chosen), draw_tensor(draw, [6, spec.dim], dtype), lsn,
                           PushId("assign", 100 * phase + i) if i % 2 else None)


def push_ids(server, phase):
    """A client with more pushes than its window, in another order than that of their ids; and
    clients of one push each, more than there are windows."""
    for sequence in (1, 3, 2, 6, 5, 4):
        push_by_id(server.tables, "steady", 10 * phase + sequence)
    for i in range(3):
        push_by_id(server.tables, "once.%d.%d" % (phase, i), 7)


def find_spec(name):
    return next(spec for spec in table_specs() if spec.name == name)


MODEL = [("embedding/weight", [20, 8]), ("bias", [17]), ("scale", [1])]


def init_model(server, optimizer, seed):
    draw = random.Random("model/%s" % seed)
    server.trainers[0].init_model(
        [NamedTensor(name, draw_tensor(draw, shape)) for name, shape in MODEL],
        OPTIMIZERS[optimizer])


def contribute(server, trainer, step):
    """One contribution to an update. Trainer 0 sets a push id."""
    draw = random.Random("step/%d/%d" % (trainer, step))
    return server.trainers[trainer].update_and_fetch_model(
        trainer, [draw_tensor(draw, shape) for _, shape in MODEL],
        PushId("trainer", step) if trainer == 0 else None, 0)


def update_model(server, step):
    calls = [Call(lambda t=t: contribute(server, t, step)) for t in range(TRAINERS)]
    return [call.wait() for call in calls][0]


def push_phase(server, rows, phase):
    push_tables(server, rows, phase)
    push_ids(server, phase)
    update_model(server, 2 * phase)
    update_model(server, 2 * phase + 1)


# ---- the state that clients can read ------------------------------------------------------------


def read_rows(tables, spec, rows):
    found = tables.lookup_rows_with_lsns(spec.name, ids(rows))
    lsns = struct.unpack("<%dq" % len(rows), found.lsns.data)
    assert found.rows.shape == [len(rows), spec.dim] and found.rows.dtype == spec.dtype
    return found.rows.data, list(lsns)


def digest(data):
    return hashlib.sha256(data).hexdigest()[:8]


def read_table(tables, spec):
    rows = find_rows(tables, spec)
    data, lsns = read_rows(tables, spec, rows)
    n = len(data) // len(rows)
    draw = random.Random("lookup/%s" % spec.name)
    bags = tables.lookup_bags([
        draw_query(draw, spec, rows, Pooling.SUM, False),
        draw_query(draw, spec, rows, Pooling.MEAN, False),
        draw_query(draw, spec, rows, Pooling.SUM, True)])
    return {
        "spec": to_json(spec),
        "row_ids": rows,
        "rows": [digest(data[i * n:(i + 1) * n]) for i in range(len(rows))],
        "lsns": lsns,
        "bags": [digest(each.data) for each in bags],
    }


def read_tables(tables):
    """By name. The fields that describe the server's memory are left out."""
    found = {}
    for spec in tables.list_tables():
        spec.bytes = None
        found[spec.name] = read_table(tables, spec)
    return found


def to_json(value):
    if hasattr(value, "__dict__"):
        return {name: to_json(each) for name, each in sorted(vars(value).items())
                if each is not None}
    return value


def read_model(model):
    return {"version": model.version,
            "parameters": {each.name: [each.tensor.shape,
                                       base64.b64encode(each.tensor.data).decode()]
                           for each in model.parameters}}


def repeat_known_pushes(tables, phase):
    """Pushes whose ids were used, as the last ones of the phase and earlier: in a window, with the
    same and with other bytes; below a window (a stair); of a client with only a floor. None of them
    changes a row."""
    known = [("steady", 10 * phase + 6, 0), ("steady", 10 * phase + 4, 0),
             ("steady", 10 * phase + 5, 1), ("steady", 11, 0), ("once.1.0", 7, 0),
             ("once.2.1", 6, 0), ("once.%d.2" % phase, 7, 0), ("once.%d.2" % phase, 7, 1)]
    return [outcome_of(lambda each=each: push_by_id(tables, *each)) for each in known]


def read_state(server, token, phase):
    """After that phase."""
    model = server.trainers[0].get_model()
    return {
        "lsn": server.durability.flush(),
        "tables": read_tables(server.tables),
        "tenant_tables": read_tables(server.connect(EmbeddingTable, token)),
        "model": read_model(model),
        # The reply to a repeat of the last update.
        "repeated_update": read_model(contribute(server, 0, 2 * phase + 1)),
        "known_ids": repeat_known_pushes(server.tables, phase),
    }


def write_json(path, value):
    """JSON in which a list of scalars is one line."""
    def lines(each, indent):
        if isinstance(each, dict) and each:
            inner = ",\n".join("%s  %s: %s" % (indent, json.dumps(key), lines(item, indent + "  "))
                               for key, item in each.items())
            return "{\n%s\n%s}" % (inner, indent)
        return json.dumps(each)

    with open(path, "w", encoding="utf-8") as file:
        file.write(lines(value, "") + "\n")
