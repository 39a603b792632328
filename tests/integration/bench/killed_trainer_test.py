# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A trainer is killed during a round. The server continues, the others learn the missing trainer,
the next run succeeds.

The server is a standalone thriftps_server, the trainers are the benchmark's own processes, and this
test takes the part of a master.
"""

import json
import signal
import struct

import junit
import launcher
import peers
from peers import Client
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.parameter_server import ParameterServer
from thriftps.rendezvous import Rendezvous
from thriftps.tensor.ttypes import DType, Tensor
from thriftps.trainer import Trainer
from thriftps.trainer.ttypes import ServerAddress, TrainBatch, TrainSpec, TrainState

N = 3
DEADLINE_S = 10  # longer than a round on a busy machine
MODEL = {"model_class": "DummyModel", "configurations": {
    "num_embeddings": 64, "embedding_dim": 64, "dense_input_size": 64, "dense_output_size": 64,
    "dense_layers_count": 2, "sparse": True}}


def int64(values, shape):
    return Tensor(dtype=DType.INT64, shape=shape, data=struct.pack("<%dq" % len(values), *values))


def batch(rank, i):
    ids = [(rank * 31 + i * 7 + j * 5) % 64 for j in range(4 * 16)]
    return TrainBatch(input=int64(ids, [4, 16]),
                      target=int64([(rank + i + j) % 64 for j in range(4)], [4]))


class KilledTrainer(launcher.TestCase):

    def setUp(self):
        super().setUp()
        self.server = peers.Server("--ntrainer=%d" % N, "--rpc-timeout=%d" % DEADLINE_S)
        self.addCleanup(self.server.__exit__)
        self.port = self.server.address.rpartition(":")[2]
        with Client(self.server.address, Rendezvous) as store:
            store.put("world/master", b"job=killed\n")

    def start_trainer(self, rank):
        with Client(self.server.address, Rendezvous) as store:
            store.remove("world/role/%d" % rank)
            store.remove("world/welcome/%d" % rank)
        return self.start("--rank=%d" % rank, "--ntrainer=%d" % N, "--master-port=" + self.port)

    def find_trainer(self, rank):
        with Client(self.server.address, Rendezvous) as store:
            card = store.get("world/role/%d" % rank, launcher.WAIT_S * 1000)
            store.put("world/welcome/%d" % rank, card)
            return dict(line.split("=", 1) for line in card.decode().splitlines())["address"]

    def train(self, rank, name, epochs):
        spec = TrainSpec(
            pass_name=name, rank=rank, world_size=N, model_config=json.dumps(MODEL),
            batches=[batch(rank, i) for i in range(8)], steps_per_epoch=8, epochs=epochs, seed=7,
            trainer="DdpTrainer", trainer_config="", backend="gloo",
            preprocess_data="preprocess_dummy_data", create_criterion="cel",
            create_ddp_model="basic_ddp_model", hook_state="BasicHookState", ddp_hook="rpc_hook",
            iteration_step="basic_iteration_step",
            servers=[ServerAddress(rank=N, address=self.server.address)],
            partition_by_trainer=False, first_bucket_mib=1, bucket_cap_mib=25, learning_rate=0.1,
            rpc_timeout_ms=DEADLINE_S * 1000, rendezvous=self.server.address, reduce="mean")
        with Client(self.find_trainer(rank), Trainer) as calls:
            calls.train(spec)

    def status(self, rank):
        with Client(self.find_trainer(rank), Trainer) as calls:
            return calls.status()

    def end_of_pass(self, rank):
        return launcher.eventually(
            lambda: (lambda s: s if s.state != TrainState.RUNNING else None)(self.status(rank)),
            "the pass ends")

    def start_pass(self, name, epochs):
        with Client(self.server.address, ParameterServer) as calls:
            calls.reset_state()
        for rank in range(N):
            self.train(rank, name, epochs)

    def check_whole_pass(self, name):
        """Runs a pass of all trainers, which must succeed; returns their final parameters."""
        self.start_pass(name, 2)
        ends = [self.end_of_pass(rank) for rank in range(N)]
        self.assertEqual([end.state for end in ends], [TrainState.SUCCEEDED] * N, ends)
        found = {end.parameters_digest for end in ends}
        self.assertEqual(len(found), 1)
        return found.pop()

    def kill_in_mid_pass(self, name, victim):
        """The others must learn from the server who is missing. A trainer that only reached a
        deadline of its own could not name it."""
        self.start_pass(name, 1000000)
        for rank in range(N):
            launcher.eventually(lambda r=rank: self.status(r).steps_done > 0,
                                "trainer%d trains" % rank)
        victim.signal(signal.SIGKILL)
        victim.finish()
        for end in [self.end_of_pass(rank) for rank in (0, 2)]:
            self.assertEqual(end.state, TrainState.FAILED)
            self.assertEqual(end.error_code, ErrorCode.DEADLINE_EXCEEDED, end.message)
            self.assertIn("missing: trainer 1", end.message)

    def test_the_others_learn_who_is_missing_and_the_next_run_works(self):
        trainers = [self.start_trainer(rank) for rank in range(N)]
        before = self.check_whole_pass("before")
        self.kill_in_mid_pass("killed", trainers[1])
        # The server and the other trainers continue. A new trainer replaces the killed one.
        trainers[1] = self.start_trainer(1)
        self.assertEqual(self.check_whole_pass("after"), before)

    def test_a_push_for_the_round_that_ended_is_told_so_at_once(self):
        gradient = peers.dense([1, 2])
        with peers.Waiting(self.server.address, 0, 5, 0, gradient) as waiting, \
                Client(self.server.address, ParameterServer) as late:
            with self.assertRaises(ServiceError) as raised:
                waiting.wait()
            self.assertEqual(raised.exception.code, ErrorCode.DEADLINE_EXCEEDED)
            self.assertIn("missing: trainers 1, 2", raised.exception.message)
            with self.assertRaises(ServiceError) as raised:
                late.average_gradient(1, 5, 0, gradient)
            self.assertEqual(raised.exception.code, ErrorCode.DEADLINE_EXCEEDED)


if __name__ == "__main__":
    junit.main()
