# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Clients of ThriftPS: embedding tables, averages, models and rendezvous on parameter servers.

    import thriftps

    with thriftps.connect("unix:/run/ps.sock") as tables:  # or "10.0.0.1:7000", or several servers
        users = tables.create("users", 1_000_000, 64, optimizer=thriftps.Adagrad(lr=0.05))
        pooled = users.lookup_bags(ids, offsets, "mean")   # a read-only array [bags, dim]
        users.push_bags(ids, offsets, gradient, "mean")    # one step of the optimizer, applied once
        rows = await users.lookup_async([3, 7])            # in a coroutine

    server = thriftps.Server("unix:/run/ps.sock")
    average = server.average(trainer=0, batch=17, bucket=0, gradient=gradient)

Failed calls raise a subclass of ThriftPSError with the server's message. The module thriftps.torch
is for PyTorch. The code that Thrift generates from the IDL is in thriftps.tensor,
thriftps.embedding_table and so on, for programs that call Thrift directly.
"""

from thriftps._arrays import DType
from thriftps._calls import Call
from thriftps._version import __version__
from thriftps.errors import *  # noqa: F401,F403
from thriftps.errors import __all__ as _errors
from thriftps.server import Model, Server, SparseGradient
from thriftps.specs import *  # noqa: F401,F403
from thriftps.specs import __all__ as _specs
from thriftps.tables import Bags, Table, Tables, connect
from thriftps.tls import Tls

__all__ = [
    "Bags",
    "Call",
    "DType",
    "Model",
    "Server",
    "SparseGradient",
    "Table",
    "Tables",
    "Tls",
    "__version__",
    "connect",
    *_errors,
    *_specs,
]
