# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Embedding tables on one server or on several."""

from __future__ import annotations

import ctypes
import json
import os
import uuid
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from thriftps import _arrays, _native, errors
from thriftps._calls import Call, Client, Reply, check_ended, nothing
from thriftps._native import lib
from thriftps.specs import Initializer, Normal, Optimizer, SGD
from thriftps.tls import Tls, to_native as to_native_tls

__all__ = ["Bags", "Table", "Tables", "connect"]

_POOLINGS = {"sum": 1, "mean": 2, "max": 3}
_SHARDS = {"whole": 0, "range": 1, "hash": 2}
_ROUNDINGS = {"nearest": 1, "stochastic": 2}
_DURABILITIES = {None: 0, "none": 1, "interval": 2, "commit": 3}


def _choose(name: str, choices: Dict[Any, int], value: Any) -> int:
    try:
        return choices[value]
    except (KeyError, TypeError):
        names = ", ".join(repr(each) for each in choices)
        raise errors.InvalidArgument(
            "%s is %r, expected one of %s" % (name, value, names)
        ) from None


def make_name() -> str:
    """Returns a client name for push ids that no other client has ever used."""
    return "python/%d/%s" % (os.getpid(), uuid.uuid4().hex)


def to_native_table(
    name: str,
    rows: int,
    dim: int,
    dtype: Any,
    rounding: str,
    optimizer: Optional[Optimizer],
    initializer: Optional[Initializer],
    device: Optional[str],
    durability: Optional[str],
    shard: str,
    server: int,
) -> _native.Table:
    return _native.Table(
        name,
        rows,
        dim,
        _arrays.to_dtype(dtype),
        _choose("rounding", _ROUNDINGS, rounding),
        _choose("durability", _DURABILITIES, durability),
        device,
        _choose("shard", _SHARDS, shard),
        server,
        (initializer or Normal()).to_native(),
        (optimizer or SGD(0.01)).to_native(),
    )


class Bags(NamedTuple):
    """Rows of a table to pool. Bag b contains ids[offsets[b] : offsets[b + 1]]. The last bag
    contains the ids up to the end.

    weights  a factor per id, with pooling "sum" only
    maxima   of a push with pooling "max": the rows that get the gradient, see
             Table.lookup_maxima(); None: the rows that hold the maxima at the time of the push
    """

    table: Union[str, "Table"]
    ids: Any
    offsets: Any
    pooling: str = "sum"
    weights: Any = None
    maxima: Any = None


class Tables(Client):
    """Embedding tables on servers; see plugin/client/remote_tables.h for their placement.

    A context manager. Methods whose names end with _async send the call and return a Call at once.
    Each call has a timeout of `timeout` seconds. Within this time, the client repeats the call
    after a lost connection, or if the server requests a retry. A push that is sent again is applied
    once. Arrays of replies are read-only. If memory is shared with the server, they are not copied:
    copy an array that you keep for a long time. The caller must not change arguments before their
    call has ended. Thread: any.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        *,
        timeout: float = 30.0,
        exact: bool = False,
        client: Optional[str] = None,
        tls: Optional[Tls] = None,
    ):
        super().__init__(timeout)
        texts = _native.texts("addresses", addresses)
        self.addresses: Tuple[str, ...] = tuple(addresses)
        self.tls = tls
        failed = ctypes.c_void_p()
        pointer = lib.tables_new(
            texts,
            len(self.addresses),
            make_name() if client is None else client,
            exact,
            to_native_tls(tls),
            ctypes.byref(failed),
        )
        if not pointer:
            check_ended(failed.value)
        self._handle = _native.Handle(pointer, lib.tables_cancel, lib.tables_free)

    def __repr__(self) -> str:
        state = "" if self._handle is not None else ", closed"
        return "<thriftps.Tables: %s%s>" % (", ".join(self.addresses), state)

    def __deepcopy__(self, memo: Any) -> "Tables":
        """Returns this object, so the copy of a PyTorch module uses the same servers and tables."""
        return self

    def __getitem__(self, name: str) -> "Table":
        """Returns the table, which must be known from discover() or create(). Makes no call to the
        servers.
        """
        return Table(self, name)

    def create(
        self,
        name: str,
        rows: int,
        dim: int,
        *,
        optimizer: Optional[Optimizer] = None,
        initializer: Optional[Initializer] = None,
        dtype: Any = "float32",
        rounding: str = "nearest",
        shard: Optional[str] = None,
        server: int = 0,
        device: Optional[str] = None,
        durability: Optional[str] = None,
        timeout: Optional[float] = None,
    ) -> "Table":
        """Creates a table. Also succeeds if it exists with the same specification. Raises
        AlreadyExists if the name is in use with another specification.

        optimizer    None: SGD(0.01)
        initializer  None: Normal()
        dtype        of the rows: "float32", "float16" or "bfloat16"
        rounding     of updated rows that are not "float32": "nearest", or "stochastic": up or down
                     at random, so that the average is exact. The random numbers depend on the seed
                     of the initializer, the row, the column and the number of the step.
        shard        "whole": on one server; "range" or "hash": sharded over all servers; None:
                     "whole" with one server, otherwise "hash"
        server       the server of a "whole" table: its position, from 0, among the addresses of
                     connect()
        device       the device that computes: "cpu", "cuda:0", "cuda:0/host" (the rows stay in host
                     memory); None: the server's default
        durability   "none", "interval" or "commit", for servers with a data directory; None: the
                     server's default
        """
        if shard is None:
            shard = "whole" if len(self.addresses) == 1 else "hash"
        table = to_native_table(
            name,
            rows,
            dim,
            dtype,
            rounding,
            optimizer,
            initializer,
            device,
            durability,
            shard,
            server,
        )
        self._run(nothing, None, lib.tables_create, timeout, ctypes.byref(table))
        return Table(self, name)

    def drop(self, name: str, *, timeout: Optional[float] = None) -> None:
        """Drops a table on all its servers."""
        self._run(nothing, None, lib.tables_drop, timeout, name)

    def discover(self, *, timeout: Optional[float] = None) -> "Tables":
        """Lists the tables of all servers, and makes them known to this object."""
        self._run(nothing, None, lib.tables_discover, timeout)
        return self

    def list(self, *, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """All tables: name, rows, dim, dtype, rounding, bytes, device, durability, optimizer."""
        return self._run(_to_table_list, None, lib.tables_list, timeout)

    def lookup_bags_async(
        self, bags: Sequence[Bags], *, timeout: Optional[float] = None
    ) -> Call[List[Any]]:
        """Pools rows of several tables with one call per server. The value is a list of float32
        arrays, [bags, dim] each.
        """
        queries, kept = to_queries(bags)
        return self._start(_to_list, kept, lib.tables_lookup_bags, timeout, queries, len(queries))

    def lookup_bags(self, bags: Sequence[Bags], *, timeout: Optional[float] = None) -> List[Any]:
        """Like lookup_bags_async(), but waits."""
        queries, kept = to_queries(bags)
        return self._run(_to_list, kept, lib.tables_lookup_bags, timeout, queries, len(queries))

    def push_bags_async(
        self, bags: Sequence[Bags], gradients: Sequence[Any], *, timeout: Optional[float] = None
    ) -> Call[None]:
        """Pushes gradients of pooled outputs, one for each of `bags`: one step of each table's
        optimizer, applied once.
        """
        steps, kept = _to_bag_gradients(bags, gradients)
        return self._start(nothing, kept, lib.tables_apply_bags, timeout, steps, len(steps))

    def push_bags(
        self, bags: Sequence[Bags], gradients: Sequence[Any], *, timeout: Optional[float] = None
    ) -> None:
        """Like push_bags_async(), but waits."""
        steps, kept = _to_bag_gradients(bags, gradients)
        self._run(nothing, kept, lib.tables_apply_bags, timeout, steps, len(steps))


class Table:
    """One table of Tables, by name."""

    def __init__(self, tables: Tables, name: str):
        self.tables = tables
        self.name = name

    def lookup_async(self, ids: Any, *, timeout: Optional[float] = None) -> Call[Any]:
        """Rows [n, dim] in the order of the ids, of the table's dtype."""
        return self._lookup(self.tables._start, _to_array, ids, timeout)

    def lookup(self, ids: Any, *, timeout: Optional[float] = None) -> Any:
        """Like lookup_async(), but waits."""
        return self._lookup(self.tables._run, _to_array, ids, timeout)

    def _lookup(
        self,
        call: Callable[..., Any],
        convert: Callable[[Reply], Any],
        ids: Any,
        timeout: Optional[float],
    ) -> Any:
        view, kept = _arrays.view_of_ids(ids)
        return call(convert, kept, lib.tables_lookup_rows, timeout, self.name, ctypes.byref(view))

    def push_async(
        self, ids: Any, gradients: Any, *, timeout: Optional[float] = None
    ) -> Call[None]:
        """Pushes gradients [n, dim] of rows, float32 or of the table's dtype: one step of the
        table's optimizer, applied once. Gradients of equal ids are added up first.
        """
        return self._push(self.tables._start, ids, gradients, timeout)

    def push(self, ids: Any, gradients: Any, *, timeout: Optional[float] = None) -> None:
        """Like push_async(), but waits."""
        self._push(self.tables._run, ids, gradients, timeout)

    def _push(
        self, call: Callable[..., Any], ids: Any, gradients: Any, timeout: Optional[float]
    ) -> Any:
        view, kept_ids = _arrays.view_of_ids(ids)
        values, kept_values = _arrays.view(gradients)
        return call(
            nothing,
            (kept_ids, kept_values),
            lib.tables_apply_rows,
            timeout,
            self.name,
            ctypes.byref(view),
            ctypes.byref(values),
        )

    def lookup_bags_async(
        self,
        ids: Any,
        offsets: Any,
        pooling: str = "sum",
        weights: Any = None,
        *,
        timeout: Optional[float] = None,
    ) -> Call[Any]:
        """Pooled rows, float32 [bags, dim]; see Bags."""
        queries, kept = to_queries([Bags(self, ids, offsets, pooling, weights)])
        return self.tables._start(_to_array, kept, lib.tables_lookup_bags, timeout, queries, 1)

    def lookup_bags(
        self,
        ids: Any,
        offsets: Any,
        pooling: str = "sum",
        weights: Any = None,
        *,
        timeout: Optional[float] = None,
    ) -> Any:
        """Like lookup_bags_async(), but waits."""
        queries, kept = to_queries([Bags(self, ids, offsets, pooling, weights)])
        return self.tables._run(_to_array, kept, lib.tables_lookup_bags, timeout, queries, 1)

    def lookup_maxima(
        self, ids: Any, offsets: Any, *, timeout: Optional[float] = None
    ) -> Tuple[Any, Any]:
        """Like lookup_bags() with pooling "max", but returns a second array, int64 [bags, dim]: the
        id of the row that holds the maximum of a column, -1 in an empty bag. A push with these
        `maxima` changes the rows of this lookup, even if others have become larger since.
        """
        queries, kept = to_queries([Bags(self, ids, offsets, "max")])
        return self.tables._run(_to_pair, kept, lib.tables_lookup_bags, timeout, queries, 1)

    def push_bags_async(
        self,
        ids: Any,
        offsets: Any,
        gradient: Any,
        pooling: str = "sum",
        weights: Any = None,
        maxima: Any = None,
        *,
        timeout: Optional[float] = None,
    ) -> Call[None]:
        """Pushes the gradient of pooled rows, float32 [bags, dim]: one step of the table's
        optimizer, applied once.
        """
        return self.tables.push_bags_async(
            [Bags(self, ids, offsets, pooling, weights, maxima)], [gradient], timeout=timeout
        )

    def push_bags(
        self,
        ids: Any,
        offsets: Any,
        gradient: Any,
        pooling: str = "sum",
        weights: Any = None,
        maxima: Any = None,
        *,
        timeout: Optional[float] = None,
    ) -> None:
        """Like push_bags_async(), but waits."""
        self.tables.push_bags(
            [Bags(self, ids, offsets, pooling, weights, maxima)], [gradient], timeout=timeout
        )

    def describe(self) -> Dict[str, Any]:
        """The description of the table, as in Tables.list(). Raises NotFound if there is none."""
        for each in self.tables.list():
            if each["name"] == self.name:
                return each
        raise errors.NotFound(
            "there is no table %s on %s" % (self.name, ", ".join(self.tables.addresses))
        )

    def __repr__(self) -> str:
        return "<thriftps.Table: %s on %s>" % (self.name, ", ".join(self.tables.addresses))

    def _repr_html_(self) -> str:
        """For notebooks: makes calls to the servers."""
        try:
            rows = self.describe()
        except errors.ThriftPSError as error:
            rows = {"name": self.name, "error": str(error)}
        return to_html(rows)


def to_html(values: Dict[str, Any]) -> str:
    """Returns an HTML table of two columns."""
    from html import escape

    return "<table>%s</table>" % "".join(
        "<tr><th>%s</th><td>%s</td></tr>" % (escape(str(key)), escape(str(value)))
        for key, value in values.items()
    )


def connect(
    *addresses: str, timeout: float = 30.0, exact: bool = False, tls: Optional[Tls] = None
) -> Tables:
    """Connects to the servers at these addresses, in this order, and returns a Tables object that
    knows their existing tables.

    addresses  "host:port", "[v6]:port" or "unix:/path"
    timeout    seconds, the default of all calls
    exact      True: the client pools the rows of tables that are sharded over several servers, so
               that the result has the same bits as with one server
    tls        encrypts TCP connections; None: no encryption
    """
    return Tables(addresses, timeout=timeout, exact=exact, tls=tls).discover()


# ---- arguments and replies ----


def _to_query(bags: Bags, kept: List[Any]) -> _native.BagQuery:
    name = bags.table.name if isinstance(bags.table, Table) else bags.table
    ids, kept_ids = _arrays.view_of_ids(bags.ids)
    offsets, kept_offsets = _arrays.view_of_ids(bags.offsets, "offsets")
    weights = _arrays.NO_TENSOR
    kept += (kept_ids, kept_offsets)
    if bags.weights is not None:
        weights, kept_weights = _arrays.view(bags.weights)
        kept.append(kept_weights)
    pooling = _choose("pooling", _POOLINGS, bags.pooling)
    return _native.BagQuery(name, ids, offsets, pooling, weights)


def to_queries(bags: Sequence[Bags]) -> Tuple[Any, List[Any]]:
    kept: List[Any] = []
    queries = (_native.BagQuery * len(bags))(*(_to_query(each, kept) for each in bags))
    kept.append(queries)
    return queries, kept


def _to_bag_gradients(bags: Sequence[Bags], gradients: Sequence[Any]) -> Tuple[Any, List[Any]]:
    if len(bags) != len(gradients):
        raise errors.InvalidArgument("%d gradients for %d bags" % (len(gradients), len(bags)))
    kept: List[Any] = []
    steps = (_native.BagGradient * len(bags))()
    for i, (each, gradient) in enumerate(zip(bags, gradients)):
        values, kept_values = _arrays.view(gradient)
        maxima, kept_maxima = _arrays.NO_TENSOR, None
        if each.maxima is not None:
            maxima, kept_maxima = _arrays.view(each.maxima, _arrays.DType.INT64)
        kept += (kept_values, kept_maxima)
        steps[i] = _native.BagGradient(_to_query(each, kept), values, maxima)
    kept.append(steps)
    return steps, kept


def _to_array(reply: Reply) -> Any:
    return _arrays.wrap(reply.contents.tensors[0], reply)


def _to_list(reply: Reply) -> List[Any]:
    contents = reply.contents  # the second half of the tensors are maxima
    return [_arrays.wrap(contents.tensors[i], reply) for i in range(contents.n_tensors // 2)]


def _to_pair(reply: Reply) -> Tuple[Any, Any]:
    tensors = reply.contents.tensors
    return _arrays.wrap(tensors[0], reply), _arrays.wrap(tensors[1], reply)


def _to_table_list(reply: Reply) -> List[Dict[str, Any]]:
    tables = json.loads(reply.contents.text)
    for each in tables:
        each["dtype"] = _arrays.DType(each["dtype"]).name.lower()
        for key, names in (("rounding", _ROUNDINGS), ("durability", _DURABILITIES)):
            each[key] = next(name for name, number in names.items() if number == each[key])
    return tables
