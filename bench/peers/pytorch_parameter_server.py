#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The parameter-server benchmark on PyTorch's own RPC, as a peer to measure against.

Does on CPU what //bench:parameter_server does: DDP trainers whose communication hook sends gradient buckets to an
averaging server over torch.distributed.rpc (or all-reduces them over gloo). Started by the benchmark, one process
for the whole world; it reads one command a line from stdin and answers with one JSON object a line on stdout:

    pass   ->  {"trainer": {"0": {"batch_level_metric,batch_all": [ms, ...], ...}, ...}, "server": {...}}
    quit   ->  ends

The first line it prints, when all processes are up, is {"ready": true, "torch": "1.13.1", ...}.
Everything else goes to stderr. Times are milliseconds of the monotonic clock.
"""

import argparse
import json
import os
import sys
import threading
import time

# Read when torch is loaded. Without them every role says at its end that it ends.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
os.environ.setdefault("GLOG_minloglevel", "2")

import torch
import torch.distributed as dist
import torch.distributed.rpc as rpc
from torch.nn.parallel import DistributedDataParallel

from pytorch_world import World, die_with_parent, free_ports

STRAGGLER = "parameter_server_straggler_metric,param_index_straggler"
BATCH = "parameter_server_batch_metric,param_index_batch"
AVERAGE = "method_metric,average computation"


class Metrics:
    """Lists of milliseconds by "type,name"; thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._samples = {}

    def add(self, name, start_s):
        elapsed_ms = (time.perf_counter() - start_s) * 1e3
        with self._lock:
            self._samples.setdefault(name, []).append(elapsed_ms)

    def take(self):
        with self._lock:
            samples, self._samples = self._samples, {}
        return samples


class DummyModel(torch.nn.Module):
    """EmbeddingBag (mean over a fixed-length bag), linear layers in a row, softmax."""

    def __init__(self, num_embeddings, embedding_dim, dense_input_size, dense_output_size, dense_layers_count, sparse):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(num_embeddings, embedding_dim, sparse=sparse)
        self.dense = torch.nn.Sequential(
            *[torch.nn.Linear(dense_input_size, dense_output_size) for _ in range(dense_layers_count)]
        )

    def forward(self, ids):
        return torch.nn.functional.softmax(self.dense(self.embedding(ids)), dim=1)


def make_batches(data, batch_size, seed):
    """Ids drawn with replacement from a shuffled share of all ids, targets uniform."""
    generator = torch.Generator().manual_seed(seed)
    n_ids = int(data["max_val"] * (100 - data["sparsity_percentage"]) / 100)
    pool = torch.randperm(data["max_val"], generator=generator)[:n_ids]
    shape = (data["sample_count"], data["sample_length"])
    inputs = pool[torch.randint(0, n_ids, shape, generator=generator)]
    targets = torch.randint(0, data["max_val"], (data["sample_count"],), generator=generator)
    return list(zip(inputs.split(batch_size), targets.split(batch_size)))


def pack_sparse(tensor):
    tensor = tensor.coalesce()
    return [tensor.indices(), tensor.values(), tensor.size()]


def unpack_sparse(parts):
    return torch.sparse_coo_tensor(parts[0], parts[1], parts[2]).coalesce()


class AverageParameterServer:
    """Adds each gradient as it arrives; the last one of a round divides and answers everybody."""

    def __init__(self, n_trainers):
        self.n_trainers = n_trainers
        self.lock = threading.Lock()
        self.metrics = Metrics()
        self.reset()

    def reset(self):
        self.batch = 0
        self.futures = {}
        self.gradients = {}
        self.started_s = {}
        self.metrics.take()

    def take_in(self, param_loc, gradient):
        if param_loc in self.gradients:
            self.gradients[param_loc] += gradient
        else:
            self.gradients[param_loc] = gradient

    def average(self, param_loc):
        total = self.gradients[param_loc]
        return total / float(self.n_trainers)

    @staticmethod
    @rpc.functions.async_execution
    def average_gradient(server_rref, batch, param_loc, gradient):
        self = server_rref.local_value()
        if isinstance(gradient, list):
            gradient = unpack_sparse(gradient)
        future = torch.futures.Future()
        with self.lock:
            if self.batch < batch:
                self.batch = batch
                self.futures.clear()
                self.gradients.clear()
            if param_loc not in self.futures:
                self.started_s[param_loc] = time.perf_counter()
            self.take_in(param_loc, gradient)
            waiting = self.futures.setdefault(param_loc, [])
            waiting.append(future)
            if len(waiting) == self.n_trainers:
                started_s = self.started_s[param_loc]
                self.metrics.add(STRAGGLER, started_s)
                average_s = time.perf_counter()
                mean = self.average(param_loc)
                self.metrics.add(AVERAGE, average_s)
                if mean.is_sparse:
                    mean = pack_sparse(mean)
                for one in waiting:
                    one.set_result(mean)
                self.metrics.add(BATCH, started_s)
        return future

    @staticmethod
    def take_metrics(server_rref):
        return server_rref.local_value().metrics.take()

    @staticmethod
    def reset_state(server_rref):
        server_rref.local_value().reset()


class AverageBatchParameterServer(AverageParameterServer):
    """Keeps all gradients of a round and adds them up at its end."""

    def take_in(self, param_loc, gradient):
        self.gradients.setdefault(param_loc, []).append(gradient)

    def average(self, param_loc):
        total = self.gradients[param_loc][0]
        for gradient in self.gradients[param_loc][1:]:
            total += gradient
        return total / float(self.n_trainers)


SERVERS = {c.__name__: c for c in (AverageParameterServer, AverageBatchParameterServer)}


class HookState:
    def __init__(self, group, n_trainers, server, metrics):
        self.group = group
        self.n_trainers = n_trainers
        self.server = server
        self.metrics = metrics
        self.batch = -1


def all_reduce(state, bucket):
    tensor = bucket.buffer()
    kind = "sparse" if tensor.is_sparse else "dense"
    if tensor.is_sparse:
        tensor = tensor.coalesce()
    start_s = time.perf_counter()
    work = dist.all_reduce(tensor / state.n_trainers, group=state.group, async_op=True)

    def done(future):
        state.metrics.add(f"hook_future_metric,gloo_{kind}_allreduce", start_s)
        return future.value()[0]

    return work.get_future().then(done)


def send_to_server(state, bucket):
    tensor = bucket.buffer()
    sparse = tensor.is_sparse
    packed = pack_sparse(tensor) if sparse else tensor
    start_s = time.perf_counter()
    future = state.server.rpc_async().average_gradient(state.server, state.batch, bucket.index(), packed)

    def done(reply):
        state.metrics.add("hook_future_metric,rpc_" + ("sparse" if sparse else "dense"), start_s)
        value = reply.value()
        return unpack_sparse(value) if sparse else value

    return future.then(done)


def rpc_hook(state, bucket):
    return send_to_server(state, bucket)


def sparse_rpc_hook(state, bucket):
    return send_to_server(state, bucket) if bucket.buffer().is_sparse else all_reduce(state, bucket)


HOOKS = {"rpc_hook": rpc_hook, "sparse_rpc_hook": sparse_rpc_hook, "allreduce_hook": all_reduce,
         "hybrid_hook": all_reduce}

_group = None


def run_trainer(args, rank, batches, server):
    """One pass; answers with the trainer's metrics."""
    torch.manual_seed(args.seed)
    metrics = Metrics()
    model = DummyModel(**args.model)
    state = HookState(_group, args.ntrainer, server, metrics)
    ddp = DistributedDataParallel(model, process_group=_group)
    ddp.register_comm_hook(state, HOOKS[args.ddp_hook])
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(ddp.parameters(), 1e-4)
    for _ in range(args.epochs):
        for ids, target in batches:
            state.batch += 1
            batch_s = time.perf_counter()
            optimizer.zero_grad()
            forward_s = time.perf_counter()
            loss = criterion(ddp(ids), target)
            metrics.add("forward_metric,forward_pass", forward_s)
            backward_s = time.perf_counter()
            loss.backward()
            metrics.add("backward_metric,backward", backward_s)
            optimizer.step()
            metrics.add("batch_level_metric,batch_all", batch_s)
    return metrics.take()


def run_master(args, commands):
    batches = make_batches(args.data, args.batch_size, args.seed)
    n_equal = len(batches) // args.ntrainer
    if n_equal == 0:
        sys.exit("peer pytorch: fewer batches than trainers")
    # PyTorch's DDP hangs on unequal counts: what does not divide is left out here.
    dealt = [batches[r :: args.ntrainer][:n_equal] for r in range(args.ntrainer)]
    per_server = args.ntrainer // max(args.nserver, 1)
    servers = [
        rpc.remote(f"server{args.ntrainer + i}", SERVERS[args.server], args=(per_server,)) for i in range(args.nserver)
    ]
    ready = {"ready": True, "torch": torch.__version__, "blas_threads": torch.get_num_threads(),
             "batches_per_trainer": n_equal}
    commands.send(ready)
    while commands.recv() == "pass":
        futures = [
            rpc.rpc_async(f"trainer{r}", run_trainer,
                          args=(args, r, dealt[r], servers[r // per_server] if servers else None), timeout=0)
            for r in range(args.ntrainer)
        ]
        trainers = {str(r): f.wait() for r, f in enumerate(futures)}
        taken = {str(args.ntrainer + i): s.rpc_sync().take_metrics(s) for i, s in enumerate(servers)}
        for server in servers:
            server.rpc_sync().reset_state(server)
        commands.send({"trainer": trainers, "server": taken})


def run_role(rank, args, commands):
    global _group
    die_with_parent()
    torch.set_num_threads(args.threads)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(args.rpc_port)
    world = args.ntrainer + args.nserver + 1
    options = {"rpc_timeout": args.rpc_timeout}
    if args.transport == "tcp":
        options.update(_transports=["uv"], _channels=["basic"])
    if rank < args.ntrainer:
        name = f"trainer{rank}"
        store = dist.TCPStore("127.0.0.1", args.group_port, args.ntrainer, rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=args.ntrainer)
        _group = dist.group.WORLD
    elif rank < args.ntrainer + args.nserver:
        name = f"server{rank}"
    else:
        name = "master"
    rpc.init_rpc(name, rank=rank, world_size=world,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     init_method=f"tcp://127.0.0.1:{args.rpc_port}", **options))
    if name == "master":
        run_master(args, commands)
    rpc.shutdown()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ntrainer", type=int, default=2)
    parser.add_argument("--nserver", type=int, default=1)
    parser.add_argument("--server", choices=sorted(SERVERS), default="AverageParameterServer")
    parser.add_argument("--ddp-hook", choices=sorted(HOOKS), default="rpc_hook")
    parser.add_argument("--model", type=json.loads, required=True, help="JSON object: the model's arguments")
    parser.add_argument("--data", type=json.loads, required=True, help="JSON object: the data set's arguments")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rpc-timeout", type=float, default=60)
    parser.add_argument("--transport", choices=["default", "tcp"], default="default",
                        help="default: shared memory and process_vm_readv where possible")
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads a process")
    args = parser.parse_args()
    if args.nserver and args.ntrainer % args.nserver:
        sys.exit("peer pytorch: --ntrainer must be a multiple of --nserver")
    args.rpc_port, args.group_port = free_ports(2)
    World(args.ntrainer + args.nserver + 1, run_role, args).run()


if __name__ == "__main__":
    main()
