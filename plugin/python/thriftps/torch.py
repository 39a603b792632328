# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""PyTorch: embedding bags whose rows are on servers, and averages for DistributedDataParallel.

    import thriftps.torch as tps

    tables = tps.connect("unix:/run/ps.sock")
    users = tps.RemoteEmbeddingBag(tables, "users", 1_000_000, 64, optimizer=tps.Adagrad(lr=0.05))
    loss(model(users(ids, offsets))).backward()  # pushes gradients of rows: one optimizer step

    ddp.register_comm_hook(tps.Averaging("unix:/run/ps.sock"), tps.averaging_hook)

The module works with PyTorch 1.13 and later, on the CPU, independently of PyTorch's ABI.
"""

import ctypes
import threading
import uuid
import warnings
import weakref
import zlib
from typing import Any, Dict, Optional, Sequence, Union

import torch
import torch.distributed
import torch.nn.functional
from torch.autograd.function import once_differentiable

from thriftps import _arrays
from thriftps._calls import Call, Reply
from thriftps._native import lib, prune
from thriftps.errors import *  # noqa: F401,F403, for the lines above
from thriftps.errors import InvalidArgument
from thriftps.server import Server
from thriftps.specs import *  # noqa: F401,F403
from thriftps.tables import Bags, Tables, connect, to_queries  # noqa: F401
from thriftps.tls import Tls  # noqa: F401

_DTYPES = {
    _arrays.DType.FLOAT32: torch.float32,
    _arrays.DType.FLOAT64: torch.float64,
    _arrays.DType.FLOAT16: torch.float16,
    _arrays.DType.BFLOAT16: torch.bfloat16,
    _arrays.DType.INT32: torch.int32,
    _arrays.DType.INT64: torch.int64,
}


def _copy_to(tensor, view) -> torch.Tensor:
    """Copies a native tensor's elements into `tensor`, which must be contiguous and have the same
    size and dtype.
    """
    ctypes.memmove(tensor.data_ptr(), view.data, tensor.numel() * tensor.element_size())
    return tensor


def _to_tensor(reply: Reply) -> torch.Tensor:
    """Copies a reply: received memory may be read-only, and PyTorch has no read-only tensors.
    """
    view = reply.contents.tensors[0]
    shape = [getattr(view, "dim%d" % i) for i in range(view.n_dims)]
    return _copy_to(torch.empty(shape, dtype=_DTYPES[view.dtype]), view)


def _to_int64(values, name) -> torch.Tensor:
    """Returns integers as INT64 with one dimension, without a copy if possible."""
    return _arrays.view_of_ids(values, name)[1]


# ---- pushes of backward passes ----


class _Pass:
    """The pushes of one backward pass. PyTorch keeps the object, and drops it if the backward pass
    fails.
    """

    def __init__(self, pusher):
        self._pusher = pusher
        self.bags = []
        self.gradients = []

    def end(self):
        self._pusher.send(self)


class _Pusher:
    """Pushes of all modules on one Tables. The pushes of a backward pass are sent together at its
    end, and are one step of the optimizer of each table. Lookups wait for them.
    """

    _of_tables: Dict["weakref.ref", "_Pusher"] = {}
    _creation = threading.Lock()

    def __init__(self, tables):
        self._tables = weakref.ref(tables)
        self._lock = threading.Lock()
        self._pass = lambda: None  # a weak reference to the current backward pass
        self._in_flight = None  # (call, bags)
        self._prefetched = {}  # keys: weak references

    @classmethod
    def of(cls, tables):
        reference = weakref.ref(tables)
        with cls._creation:
            if reference not in cls._of_tables:
                prune(cls._of_tables)
                cls._of_tables[reference] = cls(tables)
            return cls._of_tables[reference]

    def __deepcopy__(self, memo):
        return self  # see Tables.__deepcopy__()

    def add(self, bags, gradient):
        """Must be called within a backward pass."""
        with self._lock:
            running = self._pass()
            if running is None:
                running = _Pass(self)
                torch.autograd.Variable._execution_engine.queue_callback(running.end)
                self._pass = weakref.ref(running)
            running.bags.append(bags)
            running.gradients.append(gradient)
            self._tell_prefetched(bags)

    def send(self, ended):
        """Runs at the end of a backward pass."""
        self.join()
        with self._lock:
            self._pass = lambda: None
            self._in_flight = (
                self._tables().push_bags_async(ended.bags, ended.gradients),
                ended.bags,
            )

    def join(self):
        """Waits until all pushes have been applied, and raises the error of a failed one."""
        with self._lock:
            in_flight, self._in_flight = self._in_flight, None
        if in_flight is not None:
            in_flight[0].result()

    def prefetch(self, table, input):
        """Starts to fetch the rows of a future batch. Registers the result, so that pending and
        later pushes can mark the rows that they change.
        """
        with self._lock:
            prefetched = _Prefetched(table, input)
            prune(self._prefetched)
            self._prefetched[weakref.ref(prefetched)] = None
            for bags in self._in_flight[1] if self._in_flight is not None else ():
                self._tell_prefetched(bags)
        return prefetched

    def _tell_prefetched(self, bags):
        for each in [reference() for reference in self._prefetched]:
            if each is not None and each.table.name == bags.table:
                each.pushed.append(bags.ids)


def step() -> None:
    """Waits until the pushes of all earlier backward passes have been applied. Forward passes of
    RemoteEmbeddingBag wait by themselves. A program must call step() before it reads the tables in
    any other way, and before it ends.
    """
    for pusher in list(_Pusher._of_tables.values()):
        pusher.join()


# ---- embedding bags ----


class _Prefetched:
    """The rows of a future batch, without duplicates."""

    def __init__(self, table, input):
        self.table = table
        self.pushed = []  # ids whose rows may have changed since the fetch
        self._input, self._version = input, input._version
        self.unique, self.inverse = torch.unique(
            _to_int64(input, "ids"), return_inverse=True
        )
        self._call = table._lookup(table.tables._start, _to_tensor, self.unique, None)

    def is_of(self, input):
        return self._input is input and self._version == input._version

    def get_rows(self):
        """Returns the rows after all pushes of this process."""
        rows = self._call.result().float()
        if self.pushed:
            changed = torch.isin(self.unique, torch.cat(self.pushed))
            if changed.any():
                rows[changed] = _look_up(self.table, self.unique[changed])
        return rows


def _look_up(table, ids):
    return table._lookup(table.tables._run, _to_tensor, ids, None).float()


def _find_maxima(rows, ids, offsets):
    """The maxima of bags of `rows`, and the index in `rows` of each maximum, len(rows) in empty
    bags: the first of equal values wins, and NaN over numbers. In PyTorch, NaN does not always win,
    so the comparison uses keys, in which NaN is the largest number.
    """
    are_empty = torch.diff(offsets, append=offsets.new_tensor([len(ids)]))[:, None] == 0
    rows = torch.cat([rows, rows.new_zeros(1, rows.shape[1])])
    keys = rows.double().clamp(-1e300, 1e300).masked_fill(rows.isnan(), float("inf"))
    found = torch.embedding_bag(keys, ids, offsets, False, 2)[3]
    found = found.masked_fill(are_empty, len(rows) - 1)
    return rows.gather(0, found), found


class _Lookup(torch.autograd.Function):

    @staticmethod
    def forward(ctx, module, prefetched, ids, offsets, weights, anchor):
        pooled, maxima = module._pool(prefetched, ids, offsets, weights)
        ctx.module = module
        ctx.save_for_backward(ids, offsets, weights, maxima)
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        ids, offsets, weights, maxima = ctx.saved_tensors
        gradient = gradient.detach().float().contiguous()
        of_weights = None
        if ctx.needs_input_grad[4]:
            of_weights = ctx.module._weights_gradient(ids, offsets, gradient).to(weights.dtype)
        query = ctx.module._to_query(ids, offsets, weights, maxima)
        ctx.module._pusher.add(query, gradient)
        return None, None, None, None, of_weights, None


class RemoteEmbeddingBag(torch.nn.Module):
    """torch.nn.EmbeddingBag whose rows are in a table on servers, which also run the optimizer of
    the rows.

    At the end of a backward pass, the gradients of all modules on `tables` are pushed together, in
    the background: one step of each table's optimizer per backward pass. The next forward pass, or
    step(), waits for the push and raises its error. A push is applied once, even if connections are
    lost; with a data directory and durability="commit", also if a server restarts. With gradient
    accumulation, each backward pass is a separate step of the optimizers. Each rank of a
    distributed job makes its own pushes.

    tables         thriftps.Tables, see connect()
    name           of the table, which is created if there is none
    num_embeddings, embedding_dim   None: as in an existing table; call tables.discover() first
                                    if `tables` does not know the table
    mode           "sum", "mean" or "max"
    include_last_offset             as in torch.nn.EmbeddingBag
    table          further arguments of Tables.create(): optimizer, initializer, dtype, rounding,
                   shard, device, durability

    The table is not a parameter, so optimizers and DistributedDataParallel ignore it. state_dict()
    contains the name of the table. For each server with a data directory, it also contains the LSN
    (log sequence number) up to which all changes are on the disk of that server.
    """

    def __init__(
        self,
        tables: Tables,
        name: str,
        num_embeddings: Optional[int] = None,
        embedding_dim: Optional[int] = None,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        **table: Any
    ) -> None:
        super().__init__()
        if mode not in ("sum", "mean", "max"):
            raise InvalidArgument("mode is %r, expected 'sum', 'mean' or 'max'" % (mode,))
        if num_embeddings is not None:
            if embedding_dim is None:
                raise InvalidArgument(
                    "table %s: embedding_dim is None, expected the number of columns" % name
                )
            self.table = tables.create(name, num_embeddings, embedding_dim, **table)
        else:
            self.table = tables[name]
            found = self.table.describe()
            num_embeddings, embedding_dim = found["rows"], found["dim"]
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.mode = mode
        self.include_last_offset = include_last_offset
        self._pusher = _Pusher.of(tables)
        self._prefetched = None
        # Without the anchor, no output would require a gradient.
        self._anchor = torch.zeros((), requires_grad=True)

    def forward(
        self,
        input: torch.Tensor,
        offsets: Optional[torch.Tensor] = None,
        per_sample_weights: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """Pooled rows, float32 [bags, embedding_dim]. As in torch.nn.EmbeddingBag, `input` is
        [bags, n], or [n] with `offsets`.
        """
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise InvalidArgument("per_sample_weights need mode='sum', not %r" % self.mode)
            if per_sample_weights.shape != input.shape:
                raise InvalidArgument(
                    "per_sample_weights are %s, expected the input's %s"
                    % (list(per_sample_weights.shape), list(input.shape))
                )
            per_sample_weights = per_sample_weights.reshape(-1)
        prefetched, self._prefetched = self._prefetched, None
        if prefetched is not None and not prefetched.is_of(input):
            prefetched = None
        ids, offsets = self._to_bags(input, offsets)
        return _Lookup.apply(self, prefetched, ids, offsets, per_sample_weights, self._anchor)

    def prefetch(self, input: torch.Tensor) -> None:
        """Starts to fetch the rows of the next batch, each once; forward() with the same tensor
        then uses them. Rows that this process pushes meanwhile are fetched again, so that forward()
        uses them with these pushes. Pushes of other processes may become visible one batch later.
        """
        self._prefetched = self._pusher.prefetch(self.table, input)

    def extra_repr(self) -> str:
        return "%s, %d, %d, mode=%r, on %s" % (
            self.table.name,
            self.num_embeddings,
            self.embedding_dim,
            self.mode,
            ", ".join(self.table.tables.addresses),
        )

    def get_extra_state(self) -> Dict[str, Any]:
        self._pusher.join()
        return {
            "table": self.table.name,
            "rows": self.num_embeddings,
            "dim": self.embedding_dim,
            "lsns": _get_lsns(self.table.tables),
        }

    def set_extra_state(self, state: Dict[str, Any]) -> None:
        for key, mine in (
            ("table", self.table.name),
            ("rows", self.num_embeddings),
            ("dim", self.embedding_dim),
        ):
            if state[key] != mine:
                raise InvalidArgument(
                    "state_dict: %s is %r, but this module has %r" % (key, state[key], mine)
                )
        now = _get_lsns(self.table.tables)
        for address, lsn in state["lsns"].items():
            if now.get(address, lsn) < lsn:
                warnings.warn(
                    "table %s: server %s is at LSN %d, before LSN %d of the state_dict: "
                    "restore a newer snapshot of the server"
                    % (self.table.name, address, now[address], lsn)
                )

    # ---- internal ----

    def _to_bags(self, input, offsets):
        """(ids [n], offsets [bags]), int64; copies, because a push reads them after the end of the
        backward pass.
        """
        if input.dim() == 2:
            if offsets is not None:
                raise InvalidArgument(
                    "offsets must not be given with a 2-dimensional input, whose rows are the bags"
                )
            offsets = (
                torch.arange(0, input.numel(), max(input.shape[1], 1))
                if input.shape[1]
                else torch.zeros(input.shape[0], dtype=torch.int64)
            )
        elif input.dim() != 1 or offsets is None or offsets.dim() != 1:
            raise InvalidArgument(
                "expected a 2-dimensional input, or a 1-dimensional input with offsets"
            )
        elif self.include_last_offset:
            offsets = offsets[:-1]
        return _to_int64(input, "ids").clone(), _to_int64(offsets, "offsets").clone()

    def _to_query(self, ids, offsets, weights, maxima=None):
        weights = weights if weights is None else weights.detach().float()
        return Bags(self.table.name, ids, offsets, self.mode, weights, maxima)

    def _pool(self, prefetched, ids, offsets, weights):
        """(pooled rows, the ids of the rows that hold the maxima, with mode="max" only)"""
        self._pusher.join()
        if self.mode == "max":
            fetched = prefetched or _Prefetched(self.table, ids)
            pooled, found = _find_maxima(fetched.get_rows(), fetched.inverse.reshape(-1), offsets)
            return pooled, torch.cat([fetched.unique, ids.new_tensor([-1])])[found]
        if prefetched is not None:
            return (
                torch.nn.functional.embedding_bag(
                    prefetched.inverse,
                    prefetched.get_rows(),
                    offsets,
                    mode=self.mode,
                    per_sample_weights=weights if weights is None else weights.detach().float(),
                ),
                None,
            )
        queries, kept = to_queries([self._to_query(ids, offsets, weights)])
        call = lib.tables_lookup_bags
        return self.table.tables._run(_to_tensor, kept, call, None, queries, 1), None

    def _weights_gradient(self, ids, offsets, gradient):
        """Returns for each id the product of its row and the gradient of its bag."""
        rows = _look_up(self.table, ids)
        bag_of = torch.bucketize(torch.arange(len(ids)), offsets, right=True) - 1
        return (rows * gradient[bag_of]).sum(1)


def _get_lsns(tables):
    """Returns the LSN by address, for servers with a data directory."""
    lsns = {}
    for address in tables.addresses:
        with Server(address, tls=tables.tls) as server:
            if "durability" in server.describe():
                lsns[address] = server.flush()
    return lsns


# ---- averaged gradients ----

_RUNS = "thriftps.torch/runs"  # key in the rendezvous: the number of runs so far
_RUN = "thriftps.torch/run/"  # followed by the name of a run: the number of the run
_MAX_STEPS_BITS = 40


class Averaging:
    """The state of averaging_hook(): one trainer of a run, on one averaging server or several.

    servers      address, or addresses; each bucket is averaged by one of these servers, which must
                 have been started with --ntrainer=N, where N is the world size
    rank, world  None: the values of torch.distributed
    run          the name of this run, the same on all ranks, and never used before; None: rank 0
                 generates one and broadcasts it (torch.distributed)
    timeout      seconds for each bucket; must exceed the server's timeout for other trainers
                 (--rpc-timeout)
    tls          thriftps.Tls; None: no encryption of TCP connections

    The batch numbers of a run are greater than those of all earlier runs, so that jobs can follow
    each other on one server without a reset. A context manager. Thread: one.
    """

    def __init__(
        self,
        servers: Union[str, Sequence[str]],
        rank: Optional[int] = None,
        world: Optional[int] = None,
        *,
        run: Optional[str] = None,
        timeout: float = 60.0,
        tls: Optional[Tls] = None
    ) -> None:
        self.rank = torch.distributed.get_rank() if rank is None else rank
        self.world = torch.distributed.get_world_size() if world is None else world
        self.run = run if run is not None else _broadcast_name(self.rank)
        addresses = [servers] if isinstance(servers, str) else list(servers)
        self.servers = [Server(address, timeout=timeout, tls=tls) for address in addresses]
        self._steps = 0
        self._base = None
        self._numbers = {}  # from a parameter to its number, in order of first use

    def close(self) -> None:
        for server in self.servers:
            server.close()

    def __enter__(self) -> "Averaging":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<thriftps.torch.Averaging: rank %d of %d, run %s, step %d>" % (
            self.rank,
            self.world,
            self.run,
            self._steps,
        )

    def start(self, gradient: torch.Tensor, key: int, is_last: bool) -> Call[torch.Tensor]:
        """Sends the gradient of one bucket, a contiguous tensor on the CPU. The average then
        replaces its elements: the value of the Call is the same tensor. `is_last`: the bucket is
        the last one of the step.
        """
        if gradient.device.type != "cpu":
            raise InvalidArgument(
                "the gradients are on %s, expected the CPU" % gradient.device
            )
        if self._base is None:
            self._base = self._get_number() << _MAX_STEPS_BITS
        server = self.servers[key % len(self.servers)]
        call = server._average(
            server._start,
            lambda reply: _copy_to(gradient, reply.contents.tensors[0]),
            self.rank,
            self._base + self._steps,
            key,
            gradient,
            None,
            None,
        )
        self._steps += is_last
        if (
            is_last and self._steps == 2 and self.rank == 0
        ):  # every rank has contributed, so every rank knows the number
            self.servers[0].remove(_RUN + self.run)
        return call

    def get_key(self, parameters: Sequence[torch.Tensor]) -> int:
        """Returns the number of a bucket, from its first parameter and a digest of all parameters,
        because DistributedDataParallel renumbers buckets after the first step.
        """
        for parameter in parameters:
            self._numbers.setdefault(parameter, len(self._numbers))
        layout = repr(
            [(self._numbers[each], tuple(each.shape), str(each.dtype)) for each in parameters]
        )
        return (zlib.crc32(layout.encode()) & 0x7FFF) << 16 | self._numbers[parameters[0]] & 0xFFFF

    def _get_number(self):
        """Returns the number of this run, which exceeds the numbers of all earlier runs."""
        first = self.servers[0]
        if self.rank != 0:
            return int(first.get(_RUN + self.run, wait=first.timeout))
        counts = [server.add(_RUNS, 1) for server in self.servers]
        for server, count in zip(self.servers, counts):
            if count < max(counts):
                server.add(_RUNS, max(counts) - count)
        first.put(_RUN + self.run, b"%d" % max(counts))
        return max(counts)


def _broadcast_name(rank):
    names = [uuid.uuid4().hex if rank == 0 else None]
    torch.distributed.broadcast_object_list(names, src=0)
    return names[0]


# No annotations: PyTorch compares them with types that its build may lack.
def averaging_hook(state, bucket):
    """A communication hook of DistributedDataParallel: averages buckets on the servers of an
    Averaging.
    """
    future = torch.futures.Future()
    call = state.start(bucket.buffer(), state.get_key(bucket.parameters()), bucket.is_last())

    def finish(call):
        try:
            future.set_result(call.result())
        except Exception as error:
            future.set_exception(error)

    call.add_done_callback(finish)
    return future
