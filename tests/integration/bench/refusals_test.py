# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Impossible runs are refused with one line that names the flag and the reason. The exit code is 2
if nothing was started, else 1."""

import json
import os
import socket

import junit
import launcher

# Flags, and words that the error line must contain.
FLAGS = [
    ("--bogus", "--bogus", "--help"),
    ("stray", "stray", "--help"),
    ("--ntrainer=two", "--ntrainer", "two"),
    ("--ntrainer=0", "--ntrainer=0", "at least one"),
    ("--ntrainer=-1", "--ntrainer=-1", "0 to"),
    ("--nserver=0", "--nserver=0", "rpc_hook", "allreduce_hook"),
    ("--epochs=0", "--epochs=0"),
    ("--batch-size=0", "--batch-size=0"),
    ("--rpc-timeout=0", "--rpc-timeout=0"),
    ("--master-port=65536", "--master-port=65536", "65535"),
    ("--bucket-cap-mib=0", "--bucket-cap-mib"),
    ("--bucket-cap-mib=nan", "--bucket-cap-mib=nan", "finite"),
    ("--first-bucket-mib=-1", "--first-bucket-mib=-1", "above 0"),
    ("--piece-kib=-2", "--piece-kib=-2", "0 to"),
    ("--learning-rate=-1", "--learning-rate=-1", "from 0 up"),
    ("--learning-rate=inf", "--learning-rate=inf", "finite"),
    ("--repeats=0", "--repeats=0", "1 to"),
    ("--rank=-1", "--rank=-1", "0 to 3"),
    ("--master-port=-1", "--master-port=-1", "0 to"),
    ("--job=", "--job=", "1 to 64"),
    ("--job=a/b", "--job=a/b", "A-Z"),
    ("--master-rank=2", "--master-rank=2", "first or last"),
    ("--master-addr=[::1", "--master-addr=[::1", "IPv6"),
    ("--bind=[]", "--bind=[]", "IPv6"),
    ("--port-range=9", "--port-range=9", "FIRST-LAST"),
    ("--port-range=10-9", "--port-range=10-9"),
    ("--port-range=1-65536", "--port-range=1-65536"),
    ("--torch-seed=3 --seed=4", "--torch-seed=3", "--seed=4"),
    ("--trainer=DdpRpcTrainer", "--trainer", "DdpRpcTrainer", "known: DdpTrainer"),
    ("--trainer=BatchUpdateTrainer", "--trainer", "BatchUpdateTrainer", "known: DdpTrainer"),
    ("--transport=pigeon", "--transport=pigeon", "unix", "tcp"),
    ("--reduce=max", "--reduce=max", "mean", "sum"),
    ("--partition=rows", "--partition=rows", "size", "trainers"),
    ("--compress=zip", "--compress", "zip", "none, fp16, bf16, topk"),
    ("--compress=fp16:2", "--compress", "fp16", "no argument"),
    ("--compress=topk", "--compress", "topk:0.01"),
    ("--compress=topk:0", "--compress", '"0"', "topk:0.01"),
    ("--compress=topk:1.01", "--compress", "1.01", "at most 1"),
    ("--compress=topk:0.1x", "--compress", "0.1x"),
    ("--compress=fp16 --peer=pytorch", "--compress=fp16", "--peer"),
    ("--peer=horovod", "--peer=horovod", "pytorch"),
    ("--ncudatrainer=1", "--ncudatrainer", "CUDA"),
    ("--ncudaserver=1", "--ncudaserver", "CUDA"),
    ("--partition=trainers --nserver=3", "--partition=trainers", "servers"),
    ("--data=Imagenet", "Imagenet", "DummyData"),
    ("--model=Resnet", "Resnet", "DummyModelSparse"),
    ("--trainer=Nobody", "--trainer", "Nobody", "DdpTrainer"),
    ("--server=Nobody", "--server", "Nobody",
     "AverageParameterServer, AverageBatchParameterServer"),
    ("--ddp-hook=Nobody", "--ddp-hook", "Nobody",
     "allreduce_hook, hybrid_hook, rpc_hook, sparse_rpc_hook"),
    ("--hook-state=Nobody", "--hook-state", "Nobody", "BasicHookState"),
    ("--create-ddp-model=Nobody", "--create-ddp-model", "Nobody", "basic_ddp_model"),
    ("--create-criterion=Nobody", "--create-criterion", "Nobody", "cel"),
    ("--iteration-step=Nobody", "--iteration-step", "Nobody", "basic_iteration_step"),
    ("--preprocess-data=Nobody", "--preprocess-data", "Nobody", "preprocess_dummy_data"),
    ("--backend=mpi", "--backend", "mpi", "gloo"),
    ("--json=/nonexistent/out.json", "--json", "/nonexistent", "No such file"),
    ("--data-config-path=/nonexistent.json", "/nonexistent.json", "No such file"),
    ("--data-config-path=/dev/zero", "/dev/zero", "not a regular file"),
    ("--model-config-path=/nonexistent.json", "/nonexistent.json"),
    ("--server-config-path=/nonexistent.json", "/nonexistent.json"),
    ("--trainer-config-path=/nonexistent.json", "/nonexistent.json"),
    ("--rank=1 --world-size=9", "--world-size=9", "2 trainers, 1 servers and one master make 4"),
    ("--rank=4", "--rank=4", "0 to 3"),
]

# A file for --model-config-path, and words of the error line.
MODEL_FILES = [
    ("", "models.json"),
    ("{", "models.json", "models.json:1"),
    ("[]", "models.json", "object"),
    ("{}", "models.json", "DummyModelSmall"),
    ('{"Other": {}, "DummyModelTiny": {}}', "DummyModelSmall", "Other, DummyModelTiny"),
    ('{"DummyModelSmall": 3}', "DummyModelSmall", "object"),
    ('{"DummyModelSmall": {"model_class": "DummyModel"}}', "configurations"),
    ('{"DummyModelSmall": {"configurations": {}}}', "model_class"),
    ('{"DummyModelSmall": {"model_class": "Resnet", "configurations": {}}}', "Resnet",
     "DummyModel"),
]

# Arguments of DummyModel that only the trainers' code can refuse, and words of the error line.
MODEL_ARGUMENTS = [
    ({"num_embeddings": "many"}, "num_embeddings", "integer"),
    ({"num_embeddings": -1}, "num_embeddings", "-1"),
    ({"layers": 3}, "layers"),
    ({"embedding_dim": 32}, "32", "64"),
    ({"num_embeddings": 10}, "10"),
]

SMALL = {"num_embeddings": 64, "embedding_dim": 64, "dense_input_size": 64, "dense_output_size": 64,
         "dense_layers_count": 2, "sparse": True}


class Refusals(launcher.TestCase):

    def test_flags(self):
        for flags, *words in FLAGS:
            with self.subTest(flags=flags):
                result = self.run_world("--smoke", *flags.split())
                self.assert_refused(result, *words)
                self.assertEqual(result.stdout, "")

    def test_model_files(self):
        for text, *words in MODEL_FILES:
            with self.subTest(text=text):
                path = self.write("models.json", text)
                self.assert_refused(self.run_world("--smoke", "--model-config-path=" + path),
                                    *words)

    def test_model_arguments(self):
        for arguments, *words in MODEL_ARGUMENTS:
            entry = {"model_class": "DummyModel", "configurations": {**SMALL, **arguments}}
            path = self.write("models.json", json.dumps({"DummyModelSmall": entry}))
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_world("--smoke", "--model-config-path=" + path),
                                    *words)

    def test_data_arguments(self):
        for change, word in (({"sparsity_percentage": 100}, "sparsity_percentage"),
                             ({"max_val": 0}, "max_val"), ({"sample_count": 0}, "sample_count"),
                             ({"colour": 1}, "colour")):
            arguments = {"max_val": 64, "sample_count": 64, "sample_length": 16,
                         "sparsity_percentage": 20, **change}
            entry = {"data_class": "DummyData", "configurations": arguments}
            path = self.write("data.json", json.dumps({"DummyDataSmall": entry}))
            with self.subTest(change=change):
                self.assert_refused(self.run_world("--smoke", "--data-config-path=" + path), word,
                                    code=2)

    def test_arguments_that_a_class_does_not_take(self):
        path = self.write("more.json", '{"AverageParameterServer": {"lock_count": 1}, '
                                       '"DdpTrainer": {"epochs": 10}}')
        self.assert_refused(self.run_world("--smoke", "--server-config-path=" + path), "lock_count")
        self.assert_refused(self.run_world("--smoke", "--trainer-config-path=" + path), "epochs")
        self.run_well("--smoke", "--server=AverageBatchParameterServer",
                      "--server-config-path=" + path)

    def test_a_class_that_a_configuration_misspells(self):
        path = self.write("more.json", '{"AverageParameterSrver": {}}')
        for flag in ("--server-config-path", "--trainer-config-path"):
            self.assert_refused(self.run_world("--smoke", "%s=%s" % (flag, path)), path,
                                '"AverageParameterSrver"', "AverageParameterServer", "DdpTrainer")

    def test_a_backend_that_needs_a_device(self):
        result = self.run_world("--smoke", "--backend=nccl", "--ddp-hook=allreduce_hook")
        self.assert_refused(result, "--backend", "nccl", "CUDA", "gloo")
        self.assertEqual(result.stdout, "")
        self.run_well("--smoke", "--backend=nccl")  # rpc_hook uses no group

    def test_a_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assert_refused(self.run_world("--smoke", "--master-port=%d" % port),
                                "127.0.0.1:%d" % port, "in use", code=1)

    def test_a_host_that_is_none(self):
        self.assert_refused(self.run_world("--smoke", "--master-addr=no.such.host.invalid"),
                            "no.such.host.invalid", code=1)

    def test_a_tmpdir_too_long_for_sockets(self):
        folder = os.path.join(self.folder, "x" * 100)
        os.mkdir(folder)
        self.assert_refused(self.run_world("--smoke", TMPDIR=folder), "TMPDIR", "--transport=tcp",
                            code=1)
        self.assertEqual(os.listdir(folder), [])
        self.run_well("--smoke", "--transport=tcp", TMPDIR=folder)

    def test_numbers_of_the_environment(self):
        self.assert_refused(self.run_world("--smoke", RANK="first", WORLD_SIZE="4"), "RANK=first")
        self.assert_refused(self.run_world("--smoke", RANK="1", WORLD_SIZE="4",
                                           MASTER_PORT="tcp://10.0.0.1:1"),
                            "MASTER_PORT=tcp://10.0.0.1:1")
        self.assert_refused(self.run_world("--smoke", RANK="1", WORLD_SIZE="7"), "--world-size=7")


if __name__ == "__main__":
    junit.main()
