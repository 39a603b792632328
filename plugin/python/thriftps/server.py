# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""One server: averaged gradients, a model, rendezvous, durability, and reports about the server."""

from __future__ import annotations

import ctypes
import itertools
import json
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from thriftps import _arrays, _native, errors
from thriftps._calls import Call, Client, Reply, check_ended, nothing
from thriftps._native import lib
from thriftps.specs import Initializer, Optimizer
from thriftps.tables import make_name, to_html, to_native_table
from thriftps.tls import Tls, to_native as to_native_tls

__all__ = ["Model", "Server", "SparseGradient"]

_NONE, _DENSE, _SPARSE = 0, 1, 2


class SparseGradient(NamedTuple):
    """Some rows of a gradient [rows, dim]. The values [n, dim] of equal ids are added up."""

    ids: Any
    values: Any
    rows: int


class Model(NamedTuple):
    """Parameters by name, in the order of the model, after `version` - 1 updates."""

    version: int
    parameters: Dict[str, Any]


class Server(Client):
    """One ThriftPS server. Connects on the first call, and reconnects after a lost connection.

    A context manager. Timeouts, arrays, threads and methods whose names end with _async work as in
    Tables. The methods snapshot, restore and import_table do not send a call twice: after a lost
    connection, the call fails.
    """

    def __init__(
        self,
        address: str,
        *,
        timeout: float = 30.0,
        shared_memory: bool = True,
        tls: Optional[Tls] = None,
    ):
        super().__init__(timeout)
        self.address = address
        self._name = make_name()
        self._sequence = itertools.count(1)
        failed = ctypes.c_void_p()
        no_shared_memory = not _native.to_flag("shared_memory", shared_memory)
        pointer = lib.client_new(
            address, no_shared_memory, to_native_tls(tls), ctypes.byref(failed)
        )
        if not pointer:
            check_ended(failed.value)
        self._handle = _native.Handle(pointer, lib.client_cancel, lib.client_free)

    def __repr__(self) -> str:
        return "<thriftps.Server: %s%s>" % (
            self.address,
            "" if self._handle is not None else ", closed",
        )

    def _repr_html_(self) -> str:
        """Describes the server in notebooks; makes a call to the server."""
        try:
            return to_html(dict(address=self.address, **self.describe()))
        except errors.ThriftPSError as error:
            return to_html({"address": self.address, "error": str(error)})

    # ---- descriptions of the server ----

    def describe(self, *, timeout: Optional[float] = None) -> Dict[str, Any]:
        """Name, version, services, devices, limits, and the state of the data directory."""
        return self._run(_to_info, None, lib.describe, timeout)

    def metrics(self, *, timeout: Optional[float] = None) -> List[Dict[str, Any]]:
        """Times that the server has measured since the last clear_metrics(), in milliseconds."""
        return self._run(_to_json, None, lib.get_metrics, timeout, False)

    def clear_metrics(self, *, timeout: Optional[float] = None) -> None:
        """Discards the times that metrics() returns."""
        self._run(nothing, None, lib.clear_metrics, timeout)

    def set_log_level(self, levels: str, *, timeout: Optional[float] = None) -> str:
        """Sets the levels of the log, for example "info,net=debug"; returns the previous levels."""
        return self._run(_to_text, None, lib.set_log_level, timeout, levels)

    def forget_push_clients(
        self, tenant: str, idle: float, *, timeout: Optional[float] = None
    ) -> int:
        """Forgets the push ids of clients of a tenant that have sent no push for `idle` seconds.

        "" stands for callers without a tenant. Returns the number of clients. If such a client
        repeats an earlier push, the push is applied again.
        """
        return self._run(_to_number, None, lib.forget_push_clients, timeout, tenant, idle)

    # ---- averaged gradients ----

    def average_async(
        self,
        trainer: int,
        batch: int,
        bucket: int,
        gradient: Any,
        *,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Call[Any]:
        """Sends the gradient of one trainer for a bucket of a batch. When all
        trainers have sent their gradients, the value of the Call is the average.

        trainer   in [0, trainers of the server)
        batch     0 or more; must grow: a greater batch aborts pending calls of smaller batches
        bucket    0 or more, the number of this gradient within the batch
        gradient  an array, or a SparseGradient; None: the trainer takes part with weight 0
        weight    of this gradient in the average; None: 1
        """
        return self._average(
            self._start, _to_average, trainer, batch, bucket, gradient, weight, timeout
        )

    def average(
        self,
        trainer: int,
        batch: int,
        bucket: int,
        gradient: Any,
        *,
        weight: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Like average_async(), but waits: returns an array, or a SparseGradient."""
        return self._average(
            self._run, _to_average, trainer, batch, bucket, gradient, weight, timeout
        )

    def _average(
        self,
        call: Callable[..., Any],
        convert: Callable[[Reply], Any],
        trainer: int,
        batch: int,
        bucket: int,
        gradient: Any,
        weight: Optional[float],
        timeout: Optional[float],
    ) -> Any:
        native, kept = _to_gradient(gradient, weight)
        return call(
            convert,
            kept,
            lib.average_gradient,
            timeout,
            trainer,
            batch,
            bucket,
            ctypes.byref(native),
        )

    def reset(self, *, timeout: Optional[float] = None) -> None:
        """Discards all rounds, the model and the metrics. Pending calls fail with Aborted."""
        self._run(nothing, None, lib.reset_state, timeout)

    # ---- model on the server ----

    def init_model(
        self, parameters: Dict[str, Any], optimizer: Optimizer, *, timeout: Optional[float] = None
    ) -> None:
        """Sets the model, float32 arrays by name. Every trainer may call it. Raises AlreadyExists
        if the model was set before with other parameters or another optimizer.
        """
        views, kept = _to_views(parameters.values())
        names = _native.texts("parameters", parameters)
        self._run(
            nothing,
            kept,
            lib.init_model,
            timeout,
            names,
            views,
            len(views),
            ctypes.byref(optimizer.to_native()),
        )

    def model(self, *, timeout: Optional[float] = None) -> Model:
        """The newest version. Raises NotFound if there is no model."""
        return self._run(_to_model, None, lib.get_model, timeout)

    def update_async(
        self,
        trainer: int,
        gradients: Sequence[Any],
        *,
        version: int = 0,
        timeout: Optional[float] = None,
    ) -> Call[Model]:
        """Contributes to an update. The value is the new Model.

        gradients  one per parameter, in the order of the model
        version    the version of the model for which they were computed; 0: unknown
        """
        return self._update(self._start, trainer, gradients, version, timeout)

    def update(
        self,
        trainer: int,
        gradients: Sequence[Any],
        *,
        version: int = 0,
        timeout: Optional[float] = None,
    ) -> Model:
        """Like update_async(), but waits."""
        return self._update(self._run, trainer, gradients, version, timeout)

    def _update(
        self,
        call: Callable[..., Any],
        trainer: int,
        gradients: Sequence[Any],
        version: int,
        timeout: Optional[float],
    ) -> Any:
        views, kept = _to_views(gradients)
        return call(
            _to_model,
            kept,
            lib.update_and_fetch_model,
            timeout,
            trainer,
            views,
            len(views),
            self._name,
            next(self._sequence),
            version,
        )

    # ---- rendezvous ----

    def put(self, key: str, value: bytes, *, timeout: Optional[float] = None) -> None:
        """Sets the value of a key, and replaces an earlier value."""
        n_bytes = len(value) if isinstance(value, bytes) else 0
        self._run(nothing, None, lib.put, timeout, key, value, n_bytes)

    def get(self, key: str, *, wait: float = 0.0, timeout: Optional[float] = None) -> bytes:
        """The value of a key. Waits up to `wait` seconds until the key is set. Raises NotFound if
        `wait` is 0 and the key is not set.
        """
        if timeout is None:
            timeout = self.timeout + _native.to_number("wait", wait)
        return self._run(_to_bytes, None, lib.get, timeout, key, wait)

    def add(self, key: str, amount: int, *, timeout: Optional[float] = None) -> int:
        """Adds `amount` to the number under the key (0 if the key is not set), and returns the sum.
        A repeat after a lost connection does not add it again.
        """
        return self._run(
            _to_number,
            None,
            lib.add,
            timeout,
            key,
            amount,
            self._name,
            next(self._sequence),
        )

    def remove(self, prefix: str, *, timeout: Optional[float] = None) -> None:
        """Removes every key that begins with the prefix."""
        self._run(nothing, None, lib.remove, timeout, prefix)

    # ---- durability: servers with a data directory ----

    def flush(self, *, timeout: Optional[float] = None) -> int:
        """Waits until all changes whose replies have been sent are on the disk. Returns the LSN
        (log sequence number) up to which all changes are on the disk.
        """
        return self._run(_to_number, None, lib.flush, timeout)

    def snapshot(
        self, *, incremental: bool = False, timeout: Optional[float] = None
    ) -> Dict[str, Any]:
        """Writes a snapshot and describes it. Lookups and pushes continue meanwhile."""
        return self._run(_to_json, None, lib.snapshot, timeout, incremental)

    def restore(
        self,
        snapshots: Sequence[str],
        tables: Sequence[Dict[str, Any]] = (),
        *,
        timeout: Optional[float] = None,
    ) -> Dict[str, Any]:
        """Creates tables from snapshots below the server's --import-dir. Each element of `tables`
        has the arguments of Tables.create() for one table. If it is empty, all tables of the first
        snapshot are created.
        """
        array = (_native.Table * len(tables))(*(_to_table(**each) for each in tables))
        paths = _native.texts("snapshots", snapshots)
        return self._run(_to_json, None, lib.restore, timeout, paths, array, len(array))

    def import_table(
        self,
        files: Sequence[str],
        name: str,
        rows: int,
        dim: int,
        *,
        tensor: str = "",
        timeout: Optional[float] = None,
        **table: Any,
    ) -> Dict[str, Any]:
        """Creates a table from .safetensors or .npy files below the server's --import-dir. The
        other arguments are the same as in Tables.create().
        """
        native = ctypes.byref(_to_table(name, rows, dim, **table))
        paths = _native.texts("files", files)
        return self._run(_to_json, None, lib.import_table, timeout, native, paths, tensor)

    def read_log(
        self,
        cursor: int,
        *,
        max_bytes: int = 1 << 20,
        wait: float = 0.0,
        timeout: Optional[float] = None,
    ) -> Tuple[bytes, Dict[str, Any]]:
        """Returns (records, info): the records of the server's log from LSN `cursor` on, as bytes,
        and a dict with log, next_lsn, durable_lsn and oldest_lsn (see LogBatch in
        thrift/durability.thrift).
        """
        if timeout is None:
            timeout = self.timeout + _native.to_number("wait", wait)
        return self._run(
            _to_log, None, lib.read_log, timeout, cursor, max_bytes, wait
        )

    def lookup_with_lsns(
        self, table: str, ids: Any, *, timeout: Optional[float] = None
    ) -> Tuple[Any, Any]:
        """Rows of a table on this server, with the LSN of each row's last change."""
        view, kept = _arrays.view_of_ids(ids)
        return self._run(
            _to_pair, kept, lib.lookup_rows_with_lsns, timeout, table, ctypes.byref(view)
        )

    def assign(
        self, table: str, ids: Any, values: Any, *, lsn: int = 0, timeout: Optional[float] = None
    ) -> None:
        """Sets rows of a table on this server. With an `lsn`, rows that changed after it are
        not set.
        """
        view, kept = _arrays.view_of_ids(ids)
        rows, kept_rows = _arrays.view(values)
        self._run(
            nothing,
            (kept, kept_rows),
            lib.assign_rows,
            timeout,
            table,
            ctypes.byref(view),
            ctypes.byref(rows),
            lsn,
            self._name,
            next(self._sequence),
        )


# ---- arguments ----


def _to_gradient(gradient: Any, weight: Optional[float]) -> Tuple[_native.Gradient, Any]:
    """Returns (native struct, owner of its memory)."""
    if gradient is None:
        return _native.Gradient(_NONE, 0.0 if weight is None else weight), None
    weight = 1.0 if weight is None else weight
    if isinstance(gradient, SparseGradient):
        ids, kept_ids = _arrays.view_of_ids(gradient.ids)
        values, kept = _arrays.view(gradient.values)
        return _native.Gradient(_SPARSE, weight, _arrays.NO_TENSOR, ids, values, gradient.rows), (
            kept_ids,
            kept,
        )
    dense, kept = _arrays.view(gradient)
    return _native.Gradient(_DENSE, weight, dense), kept


def _to_views(values: Iterable[Any]) -> Tuple[Any, List[Any]]:
    pairs = [_arrays.view(each) for each in values]
    return (_native.TensorView * len(pairs))(*(view for view, _ in pairs)), [
        kept for _, kept in pairs
    ]


def _to_table(
    name: str,
    rows: int,
    dim: int,
    *,
    optimizer: Optional[Optimizer] = None,
    initializer: Optional[Initializer] = None,
    dtype: Any = "float32",
    rounding: str = "nearest",
    device: Optional[str] = None,
    durability: Optional[str] = None,
) -> _native.Table:
    return to_native_table(
        name, rows, dim, dtype, rounding, optimizer, initializer, device, durability, "whole", 0
    )


# ---- replies ----


def _to_json(reply: Reply) -> Any:
    return json.loads(reply.contents.text)


def _to_info(reply: Reply) -> Any:
    info = _to_json(reply)
    if "durability" in info:
        info["durability"]["phase"] = info["durability"]["phase"].lower()
    return info


def _to_text(reply: Reply) -> str:
    return reply.contents.text.decode()


def _to_number(reply: Reply) -> int:
    return reply.contents.number


def _to_bytes(reply: Reply) -> bytes:
    return ctypes.string_at(reply.contents.bytes or b"", reply.contents.n_bytes)


def _to_log(reply: Reply) -> Tuple[bytes, Dict[str, Any]]:
    return _to_bytes(reply), _to_json(reply)


def _to_pair(reply: Reply) -> Tuple[Any, Any]:
    tensors = reply.contents.tensors
    return _arrays.wrap(tensors[0], reply), _arrays.wrap(tensors[1], reply)


def _to_average(reply: Reply) -> Any:
    contents = reply.contents
    if contents.n_tensors == 1:
        return _arrays.wrap(contents.tensors[0], reply)
    ids, values = _to_pair(reply)
    return SparseGradient(ids, values, contents.number)


def _to_model(reply: Reply) -> Model:
    contents = reply.contents
    return Model(
        contents.number,
        {
            contents.names[i].decode(): _arrays.wrap(contents.tensors[i], reply)
            for i in range(contents.n_tensors)
        },
    )
