#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The parameter-server benchmark on PyTorch's own RPC, as a peer.

It does the work of //bench:parameter_server: DDP trainers whose communication hook sends gradient
buckets to an averaging server over torch.distributed.rpc (or all-reduces them over gloo). A batch
of a CUDA trainer ends when its GPU is done. pytorch_world.py describes commands and replies.

CUDA roles follow the CPU roles of their kind in rank; the GPU of a role is its rank modulo the
number of GPUs. Tensors move between GPUs, or within one, by TensorPipe's device maps. A role copies
tensors from and to CPU roles itself. Never run on a GPU so far. `--check` prints the missing
requirements of CUDA roles and ends, with exit code 3, or 0 if nothing is missing.
"""

import json
import os
import sys
import threading
import time

from pytorch_world import World, die_with_parent, free_ports, parse_flags  # before PyTorch

import torch
import torch.distributed as dist

try:
    import torch.distributed.rpc as rpc
except ImportError:
    rpc = None
if rpc is None or not rpc.is_available():
    print(f"peer pytorch: PyTorch {torch.__version__} has no torch.distributed.rpc",
          file=sys.stderr)
    sys.exit(3)

from torch.nn.parallel import DistributedDataParallel

STRAGGLER = "parameter_server_straggler_metric,param_index_straggler"
BATCH = "parameter_server_batch_metric,param_index_batch"
AVERAGE = "method_metric,average computation"


# The device of the role of this process; the CPU for the master.
_device = torch.device("cpu")


def n_trainers(args):
    return args.ntrainer + args.ncudatrainer


def n_servers(args):
    return args.nserver + args.ncudaserver


def device_of(args, rank):
    first = args.ntrainer if rank < n_trainers(args) else n_trainers(args) + args.nserver
    if rank < first or rank >= n_trainers(args) + n_servers(args):
        return torch.device("cpu")
    return torch.device("cuda", rank % torch.cuda.device_count())


def why_no_cuda():
    """The reason why CUDA roles are impossible, or None."""
    if not torch.cuda.is_available() or torch.cuda.device_count() == 0:
        return f"PyTorch {torch.__version__} (CUDA {torch.version.cuda}) finds no GPU"
    return None


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
    """EmbeddingBag (mean over a fixed-length bag), consecutive linear layers, softmax."""

    def __init__(self, num_embeddings, embedding_dim, dense_input_size, dense_output_size,
                 dense_layers_count, sparse):
        super().__init__()
        self.embedding = torch.nn.EmbeddingBag(num_embeddings, embedding_dim, sparse=sparse)
        self.dense = torch.nn.Sequential(
            *[torch.nn.Linear(dense_input_size, dense_output_size)
              for _ in range(dense_layers_count)]
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
    """Adds each gradient as it arrives; the last one of a round completes all calls."""

    def __init__(self, n_trainers):
        self.n_trainers = n_trainers
        self.lock = threading.Lock()
        self.metrics = Metrics()
        # Each call has its own stream, but the sums need a common stream.
        self.stream = torch.cuda.Stream(_device) if _device.type == "cuda" else None
        self.reset()

    def reset(self):
        self.batch = 0
        self.waiting = {}
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

    def fold(self, param_loc, parts):
        """Adds a gradient; returns the average if it was the last of the round, else None."""
        parts = [part.to(_device) if torch.is_tensor(part) else part for part in parts]
        self.take_in(param_loc, unpack_sparse(parts) if len(parts) > 1 else parts[0])
        if len(self.waiting[param_loc]) < self.n_trainers:
            return None
        average_s = time.perf_counter()
        mean = self.average(param_loc)
        self.metrics.add(AVERAGE, average_s)
        return mean

    def fold_on_stream(self, param_loc, parts):
        """The same on the stream of the sums, after the earlier work of the call's stream."""
        current = torch.cuda.current_stream(_device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            mean = self.fold(param_loc, parts)
        for part in parts:
            if torch.is_tensor(part) and part.is_cuda:
                part.record_stream(self.stream)
        current.wait_stream(self.stream)
        return mean

    @staticmethod
    @rpc.functions.async_execution
    def average_gradient(server_rref, batch, param_loc, gradient):
        self = server_rref.local_value()
        parts = gradient if isinstance(gradient, list) else [gradient]
        future = torch.futures.Future(devices=[_device] if self.stream else [])
        with self.lock:
            if self.batch < batch:
                self.batch = batch
                self.waiting.clear()
                self.gradients.clear()
            if param_loc not in self.waiting:
                self.started_s[param_loc] = time.perf_counter()
            self.waiting.setdefault(param_loc, []).append((future, parts[0].is_cuda))
            if len(self.waiting[param_loc]) == self.n_trainers:
                self.metrics.add(STRAGGLER, self.started_s[param_loc])
            mean = (self.fold_on_stream if self.stream else self.fold)(param_loc, parts)
            if mean is not None:
                self.answer(param_loc, mean)
        return future

    def answer(self, param_loc, mean):
        """Each trainer receives the average on the device of its gradient."""
        replies = {}
        for future, is_on_gpu in self.waiting[param_loc]:
            if is_on_gpu not in replies:
                there = mean if is_on_gpu else mean.cpu()
                replies[is_on_gpu] = pack_sparse(there) if there.is_sparse else there
            future.set_result(replies[is_on_gpu])
        self.metrics.add(BATCH, self.started_s[param_loc])

    @staticmethod
    def take_metrics(server_rref):
        return server_rref.local_value().metrics.take()

    @staticmethod
    def reset_state(server_rref):
        server_rref.local_value().reset()


class AverageBatchParameterServer(AverageParameterServer):
    """Keeps all gradients of a round and adds them at its end."""

    def take_in(self, param_loc, gradient):
        self.gradients.setdefault(param_loc, []).append(gradient)

    def average(self, param_loc):
        total = self.gradients[param_loc][0]
        for gradient in self.gradients[param_loc][1:]:
            total += gradient
        return total / float(self.n_trainers)


SERVERS = {c.__name__: c for c in (AverageParameterServer, AverageBatchParameterServer)}


class HookState:
    def __init__(self, group, n_trainers, server, server_is_on_gpu, metrics):
        self.group = group
        self.n_trainers = n_trainers
        self.server = server
        self.goes_through_host = _device.type == "cuda" and not server_is_on_gpu
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
    if state.goes_through_host:
        tensor = tensor.cpu()
    packed = pack_sparse(tensor) if sparse else tensor
    start_s = time.perf_counter()
    future = state.server.rpc_async().average_gradient(state.server, state.batch, bucket.index(),
                                                       packed)

    def done(reply):
        state.metrics.add("hook_future_metric,rpc_" + ("sparse" if sparse else "dense"), start_s)
        value = unpack_sparse(reply.value()) if sparse else reply.value()
        return value.to(_device)

    return future.then(done)


def rpc_hook(state, bucket):
    return send_to_server(state, bucket)


def sparse_rpc_hook(state, bucket):
    return send_to_server(state, bucket) if bucket.buffer().is_sparse else all_reduce(state, bucket)


HOOKS = {"rpc_hook": rpc_hook, "sparse_rpc_hook": sparse_rpc_hook, "allreduce_hook": all_reduce,
         "hybrid_hook": all_reduce}

_group = None


def run_trainer(args, batches, server, server_is_on_gpu):
    """Runs one pass and returns the trainer's metrics."""
    torch.manual_seed(args.seed)
    metrics = Metrics()
    model = DummyModel(**args.model).to(_device)
    state = HookState(_group, n_trainers(args), server, server_is_on_gpu, metrics)
    ddp = DistributedDataParallel(model, process_group=_group)
    batches = [(ids.to(_device), target.to(_device)) for ids, target in batches]
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
            if _device.type == "cuda":
                torch.cuda.synchronize(_device)
            metrics.add("batch_level_metric,batch_all", batch_s)
    return metrics.take()


def run_master(args, commands):
    batches = make_batches(args.data, args.batch_size, args.seed)
    n_equal = len(batches) // n_trainers(args)
    if n_equal == 0:
        sys.exit("peer pytorch: fewer batches than trainers")
    # PyTorch's DDP hangs if the trainers have unequal counts, so the remainder is left out.
    dealt = [batches[r :: n_trainers(args)][:n_equal] for r in range(n_trainers(args))]
    per_server = n_trainers(args) // max(n_servers(args), 1)
    first = n_trainers(args)
    servers = [
        rpc.remote(role_name(args, first + i), SERVERS[args.server], args=(per_server,))
        for i in range(n_servers(args))
    ]
    ready = {"ready": True, "torch": torch.__version__, "blas_threads": torch.get_num_threads(),
             "batches_per_trainer": n_equal}
    commands.send(ready)
    while commands.recv() == "pass":
        futures = []
        for r in range(n_trainers(args)):
            s = r // per_server if servers else None
            arguments = (args, dealt[r], servers[s],
                         s >= args.nserver) if servers else (args, dealt[r], None, False)
            futures.append(rpc.rpc_async(role_name(args, r), run_trainer, args=arguments,
                                         timeout=0))
        trainers = {str(r): f.wait() for r, f in enumerate(futures)}
        taken = {str(first + i): s.rpc_sync().take_metrics(s) for i, s in enumerate(servers)}
        for server in servers:
            server.rpc_sync().reset_state(server)
        commands.send({"trainer": trainers, "server": taken})


def role_name(args, rank):
    if rank < n_trainers(args):
        return f"trainer{rank}"
    return f"server{rank}" if rank < n_trainers(args) + n_servers(args) else "master"


def rpc_options(args, rank):
    options = {"init_method": f"tcp://127.0.0.1:{args.rpc_port}", "rpc_timeout": args.rpc_timeout}
    if args.transport == "tcp":
        has_cuda = args.ncudatrainer + args.ncudaserver > 0
        options.update(_transports=["uv"],
                       _channels=["basic"] + (["cuda_basic"] if has_cuda else []))
    if _device.type == "cuda":
        theirs = {role_name(args, r): device_of(args, r)
                  for r in range(n_trainers(args) + n_servers(args)) if r != rank}
        options["device_maps"] = {name: {_device: there} for name, there in theirs.items()
                                  if there.type == "cuda"}
        options["devices"] = [_device]
    return rpc.TensorPipeRpcBackendOptions(**options)


def run_role(rank, args, commands):
    global _device, _group
    die_with_parent()
    torch.set_num_threads(args.threads)
    if args.ncudatrainer + args.ncudaserver > 0 and why_no_cuda():
        sys.exit(f"peer pytorch: {why_no_cuda()}" if rank == 0 else 1)
    _device = device_of(args, rank)
    if _device.type == "cuda":
        torch.cuda.set_device(_device)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(args.rpc_port)
    if rank < n_trainers(args):
        store = dist.TCPStore("127.0.0.1", args.group_port, n_trainers(args), rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n_trainers(args))
        _group = dist.group.WORLD
    name = role_name(args, rank)
    rpc.init_rpc(name, rank=rank, world_size=n_trainers(args) + n_servers(args) + 1,
                 rpc_backend_options=rpc_options(args, rank))
    if name == "master":
        run_master(args, commands)
    rpc.shutdown()


def check_cuda():
    reason = why_no_cuda()
    if reason:
        print(f"peer pytorch: {reason}", file=sys.stderr)
        sys.exit(3)


def main():
    if sys.argv[1:] == ["--check"]:
        check_cuda()
        return
    args = parse_flags(__doc__, ntrainer=2, nserver=1, ncudatrainer=0, ncudaserver=0,
                       server="AverageParameterServer", ddp_hook="rpc_hook", model="", data="",
                       batch_size=32, epochs=1, seed=0, transport="default")
    args.model, args.data = json.loads(args.model), json.loads(args.data)
    if n_servers(args) and n_trainers(args) % n_servers(args):
        sys.exit("peer pytorch: the trainers must be a multiple of the servers")
    args.rpc_port, args.group_port = free_ports(2)
    World(n_trainers(args) + n_servers(args) + 1, run_role, args).run()


if __name__ == "__main__":
    main()
