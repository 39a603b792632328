#!/usr/bin/python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The batch-updating benchmark on PyTorch's own RPC, as a peer.

It does the work of //bench:batch_update on the CPU. Trainers send the gradients of one linear layer
to a server over torch.distributed.rpc. The server applies their mean by SGD and replies to all of
them with the model, as a module. pytorch_world.py describes commands and replies.
"""

import threading
import time

from pytorch_world import World, die_with_parent, free_ports, parse_flags  # before PyTorch

import torch
import torch.distributed.rpc as rpc


class BatchUpdateServer:
    """Owns the model; the last gradient of a round updates it and completes all calls."""

    def __init__(self, args):
        torch.manual_seed(args.seed)
        self.lock = threading.Lock()
        self.n_trainers = args.ntrainer
        self.model = torch.nn.Linear(args.in_features, args.out_features)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr,
                                         momentum=args.momentum)
        self.new_round()

    def new_round(self):
        self.n_arrived = 0
        self.answer = torch.futures.Future()
        for parameter in self.model.parameters():
            parameter.grad = torch.zeros_like(parameter)

    def get_model(self):
        return self.model

    def step(self):
        for parameter in self.model.parameters():
            parameter.grad /= self.n_trainers
        self.optimizer.step()

    @staticmethod
    @rpc.functions.async_execution
    def update_and_fetch_model(server, gradients):
        self = server.local_value()
        with self.lock:
            for parameter, gradient in zip(self.model.parameters(), gradients):
                parameter.grad += gradient
            answer = self.answer
            self.n_arrived += 1
            if self.n_arrived == self.n_trainers:
                self.step()
                self.new_round()
                answer.set_result(self.model)
        return answer


def run_trainer(args, rank, server):
    """Runs one pass and returns its measurements."""
    torch.manual_seed(args.seed * 1000003 + rank)
    loss_function = torch.nn.L1Loss()
    targets = torch.zeros(args.batch_size, args.out_features)
    model = server.rpc_sync().get_model()
    steps_ms = []
    started = time.perf_counter()
    for _ in range(args.batches):
        step_started = time.perf_counter()
        inputs = torch.randn(args.batch_size, args.in_features)
        loss_function(model(inputs), targets).backward()
        model = rpc.rpc_sync(server.owner(), BatchUpdateServer.update_and_fetch_model,
                             args=(server, [parameter.grad for parameter in model.parameters()]))
        steps_ms.append((time.perf_counter() - step_started) * 1e3)
    return {"batch_level_metric,batch_all": steps_ms,
            "pass_level_metric,training": [(time.perf_counter() - started) * 1e3]}


def run_server(args, commands):
    """The server is the master too, as in the original."""
    commands.send({"ready": True, "torch": torch.__version__})
    while commands.recv() == "pass":
        server = rpc.RRef(BatchUpdateServer(args))
        futures = [rpc.rpc_async(f"trainer{rank}", run_trainer, args=(args, rank, server),
                                 timeout=0)
                   for rank in range(args.ntrainer)]
        commands.send({"trainer": {str(rank): future.wait()
                                   for rank, future in enumerate(futures)}})


def run_role(rank, args, commands):
    die_with_parent()
    torch.set_num_threads(args.threads)
    name = f"trainer{rank}" if rank < args.ntrainer else "server"
    rpc.init_rpc(name, rank=rank, world_size=args.ntrainer + 1,
                 rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
                     init_method=f"tcp://127.0.0.1:{args.port}", rpc_timeout=args.rpc_timeout))
    if name == "server":
        run_server(args, commands)
    rpc.shutdown()


def main():
    args = parse_flags(__doc__, ntrainer=3, batches=4, batch_size=20, in_features=100,
                       out_features=30, lr=0.001, momentum=0.9, seed=0)
    args.port, = free_ports(1)
    World(args.ntrainer + 1, run_role, args).run()


if __name__ == "__main__":
    main()
