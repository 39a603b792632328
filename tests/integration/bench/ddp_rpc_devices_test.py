# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:ddp_rpc with dense layers and tables on devices (tests/runtime/fake_device): the
parameters have the bits of the CPU."""

import os

import junit
import launcher
import report

# The paths are relative to the runfiles, but each run has its own folder.
for _name in ("LD_LIBRARY_PATH", "THRIFTPS_CUDA_LIBRARY"):
    os.environ[_name] = os.path.abspath(os.environ[_name])


class DdpRpcDevices(launcher.TestCase):

    def digest(self, *flags):
        found = report.digests(self.run_to_json("--smoke", "--number-trainers=1", *flags))
        self.assertEqual(len(found), 1)
        return found[0]

    def test_layers_and_tables(self):
        expected = self.digest()
        for trainer, table in (("cuda", "cpu"), ("cpu", "cuda"), ("cuda", "cuda"),
                               ("cuda:1", "cuda/host")):
            with self.subTest(trainer=trainer, table=table):
                self.assertEqual(expected, self.digest("--trainer-device=" + trainer,
                                                       "--table-device=" + table))

    def test_optimizers_of_tables(self):
        for optimizer in ("adagrad", "rowwise-adagrad", "adam", "ftrl"):
            with self.subTest(optimizer=optimizer):
                self.assertEqual(self.digest("--optimizer=" + optimizer),
                                 self.digest("--optimizer=" + optimizer, "--trainer-device=cuda",
                                             "--table-device=cuda"))

    def test_two_trainers_agree(self):
        found = report.digests(self.run_to_json("--smoke", "--trainer-device=cuda",
                                                "--table-device=cuda"))
        self.assertEqual((len(found), len(set(found))), (2, 1), found)

    def test_results_of_64_kib_may_stay_on_the_device(self):
        wide = ("--embedding-dim=16384", "--number-embeddings=50")
        on_device = ("--trainer-device=cuda", "--table-device=cuda")
        expected = self.digest(*wide)
        for flags in (on_device, on_device + ("--host-lookups",),
                      ("--trainer-device=cuda:1", "--table-device=cuda:0")):
            with self.subTest(flags=flags):
                self.assertEqual(expected, self.digest(*wide, *flags))


if __name__ == "__main__":
    junit.main()
