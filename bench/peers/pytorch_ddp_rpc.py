#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The DDP + RPC benchmark on PyTorch's own RPC, as a peer.

It does the work of //bench:ddp_rpc on the CPU, in the way of PyTorch's benchmark_ddp_rpc.py.
Trainers look up embedding bags on all parameter servers by torch.distributed.rpc, one after
another, and run the dense layers under DDP over gloo. Distributed autograd and DistributedOptimizer
(SGD) update tables and layers. Table gradients are dense as in the original, or sparse with
--sparse. The numbers of trainers and servers, and all values, come from the command line.

The first pass is the warm-up and has --warmup-cycles epochs (with 0, there is no warm-up).
pytorch_world.py describes commands and replies.
"""

import random
import sys
import time

from pytorch_world import World, die_with_parent, free_ports, parse_flags  # before PyTorch

import torch
import torch.distributed as dist
import torch.distributed.autograd as dist_autograd
import torch.distributed.rpc as rpc
from torch import nn, optim
from torch.distributed.optim import DistributedOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

WIDTH = 512


class HybridModel(nn.Module):
    """Bags of all parameter servers as columns, reshaped to the width of the dense layers."""

    def __init__(self, tables):
        super().__init__()
        self.tables = tables
        self.ddp = DDP(nn.Sequential(nn.Linear(WIDTH, 256), nn.Linear(256, 128), nn.ReLU(),
                                     nn.Linear(128, 64), nn.Linear(64, 32), nn.Linear(32, 8)))

    def forward(self, indices, offsets):
        bags = [table.rpc_sync().forward(indices, offsets) for table in self.tables]
        return self.ddp(torch.cat(bags, dim=1).reshape(-1, WIDTH))


def make_table(args, number):
    torch.manual_seed(args.seed + number)
    return nn.EmbeddingBag(args.number_embeddings, args.embedding_dim, mode="sum",
                           sparse=args.sparse)


def list_parameters(table):
    return [rpc.RRef(parameter) for parameter in table.local_value().parameters()]


def draw_batches(rng, args):
    for _ in range(args.batches):
        n = rng.randint(20, 50)
        indices = torch.randint(args.number_embeddings, (n,))
        offsets, start = [], 0
        while start < n:
            offsets.append(start)
            start += rng.randint(1, 10)
        target = torch.randint(8, (len(offsets),)).repeat_interleave(args.number_ps
                                                                     * args.embedding_dim // WIDTH)
        yield indices, torch.tensor(offsets), target, len(offsets)


def run_trainer(args, tables, rank, epochs):
    rng = random.Random(args.seed * 1000003 + rank)
    torch.manual_seed(args.seed)  # the same layers on all ranks, which DDP would also ensure
    model = HybridModel(tables)
    torch.manual_seed(args.seed * 1000003 + rank)
    parameters = []
    for number, table in enumerate(tables):
        parameters.extend(rpc.rpc_sync(f"ps{number}", list_parameters, args=(table,)))
    parameters.extend(rpc.RRef(parameter) for parameter in model.parameters())
    optimizer = DistributedOptimizer(optim.SGD, parameters, lr=args.lr)
    criterion = nn.CrossEntropyLoss()
    times, samples = [], 0
    for _ in range(epochs):
        start = time.perf_counter()
        for indices, offsets, target, n_bags in draw_batches(rng, args):
            samples += n_bags
            with dist_autograd.context() as context:
                loss = criterion(model(indices, offsets), target)
                dist_autograd.backward(context, [loss])
                optimizer.step(context)
        times.append((time.perf_counter() - start) * 1e3)
    return times, samples


def run_pass(args, tables, epochs):
    futures = [rpc.rpc_async(f"trainer{rank}", run_trainer, args=(args, tables, rank, epochs),
                             timeout=0)
               for rank in range(args.number_trainers)]
    results = [future.wait() for future in futures]
    return {"trainer": {str(rank): {"epoch_metric,epoch": result[0]}
                        for rank, result in enumerate(results)},
            "samples": {str(rank): result[1] for rank, result in enumerate(results)}}


def run_master(args, commands):
    tables = [rpc.remote(f"ps{number}", make_table, args=(args, number), timeout=0)
              for number in range(args.number_ps)]
    for table in tables:
        # Waits until the table exists.
        rpc.rpc_sync(table.owner(), list_parameters, args=(table,), timeout=0)
    commands.send({"ready": True, "torch": torch.__version__})
    is_warm_up = args.warmup_cycles > 0
    while commands.recv() == "pass":
        answer = run_pass(args, tables, args.warmup_cycles if is_warm_up else args.epochs)
        is_warm_up = False
        commands.send(answer)


def run_role(rank, args, commands):
    die_with_parent()
    torch.set_num_threads(args.threads)
    n_trainers, n_servers = args.number_trainers, args.number_ps
    if rank < n_trainers:
        name = f"trainer{rank}"
        store = dist.TCPStore("127.0.0.1", args.group_port, n_trainers, rank == 0)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=n_trainers)
    elif rank < n_trainers + n_servers:
        name = f"ps{rank - n_trainers}"
    else:
        name = "master"
    rpc.init_rpc(name, rank=rank, world_size=n_trainers + n_servers + 1,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     init_method=f"tcp://127.0.0.1:{args.rpc_port}", rpc_timeout=args.rpc_timeout))
    if name == "master":
        run_master(args, commands)
    rpc.shutdown()


def main():
    args = parse_flags(__doc__, number_trainers=8, number_ps=8, number_embeddings=300,
                       embedding_dim=64, warmup_cycles=5, epochs=100, batches=10, seed=0, lr=0.05,
                       sparse=False)
    if args.number_ps * args.embedding_dim % WIDTH:
        sys.exit(f"peer pytorch: --number-ps times --embedding-dim must be a multiple of {WIDTH}")
    args.rpc_port, args.group_port = free_ports(2)
    World(args.number_trainers + args.number_ps + 1, run_role, args).run()


if __name__ == "__main__":
    main()
