# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:lookup: its output and its JSON; no process or file remains."""

import json
import os
import re

import junit
import launcher

# The paths are relative to the runfiles, but each run has its own folder.
for _name in ("LD_LIBRARY_PATH", "THRIFTPS_CUDA_LIBRARY"):
    os.environ[_name] = os.path.abspath(os.environ[_name])

LOCAL = ["%s, %s" % (system, threads) for threads in ("1 thread", "2 threads")
         for system in ("pool", "store")]
STEPS = ["step, lookup"] + ["step, lookup + push, " + optimizer
                            for optimizer in ("rowwise-adagrad", "adagrad", "adam")]
# The steps of the benchmark that each peer takes.
STEPS_OF = {"pytorch": [STEPS[0], STEPS[2], STEPS[3]], "fbgemm": STEPS[:3]}
REMOTE = ["lookup, unix", "lookup, unix, 3 clients", "server, unix, a second of its CPU",
          "lookup, tcp", "lookup, tcp, 3 clients", "server, tcp, a second of its CPU"]
PUSH = [name for pattern, clients in (("push 2000 x 64", 4), ("push 1 x 16", 8))
        for transport in ("unix", "tcp")
        for name in ("%s, %s, %d clients" % (pattern, transport, clients),
                     "server, %s, %s, a second of its CPU" % (pattern, transport))]
SMALL = ["%s, %s" % (call, transport) for transport in ("unix", "tcp")
         for call in ("empty call", "lookup of one row", "push of one row")]
ALL = LOCAL + STEPS + REMOTE + PUSH + SMALL


class Lookup(launcher.TestCase):
    program = os.path.abspath(os.environ["LOOKUP"])

    def measure(self, *flags, **environment):
        """The JSON of a small run, whose table shows the same figures."""
        result = self.run_well("--smoke", "--threads=2", "--clients=3", "--json=out.json", *flags,
                               **environment)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.stdout = result.stdout
        self.assertEqual((output["schema"], output["benchmark"]), (1, "lookup"))
        for figure in output["figures"]:
            self.assertIn("\n" + figure["name"], result.stdout)
            self.assertGreater(figure["p50"], 0)
        for ratio in output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])
        return output

    def measure_with(self, *peers, **environment):
        """As measure(). Also returns a list of the peers whose libraries are installed."""
        flag = peers[0] if len(peers) == 1 else "both"
        output = self.measure("--peer=" + flag, *environment.pop("flags", ()), **environment)
        present = [peer["name"] for peer in output["peers"] if peer["name"] != "gather"]
        facts = output.get("facts", {})
        self.assertEqual(present, [name for name in peers if name + " is left out" not in facts])
        return output, present

    def write_python(self, name, flags):
        """Returns the path of a Python that runs with additional flags."""
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nexec /usr/bin/python3 %s "$@"\n' % flags)
        os.chmod(path, 0o755)
        return path

    def test_bags_stand_next_to_their_limit_and_rows_come_by_rpc(self):
        output = self.measure("--calls=7", "--repeats=2")
        self.assertEqual([figure["name"] for figure in output["figures"]], ALL)
        samples = {figure["name"]: figure["n"] for figure in output["figures"]}
        self.assertEqual((samples["pool, 1 thread"], samples["lookup, unix"]), (2, 14))
        self.assertEqual([peer["name"] for peer in output["peers"]], ["gather"])
        compared = [name for name in REMOTE[::3] + SMALL if not name.startswith("empty")]
        self.assertEqual([ratio["name"] for ratio in output["ratios"]],
                         [name + " / gather" for name in LOCAL]
                         + [name + " / empty call" for name in compared])

    def test_rows_of_every_type_come_by_rpc(self):
        for dtype in ("float32", "float16", "bfloat16"):
            output = self.measure("--only=remote", "--calls=2", "--remote-dtype=" + dtype)
            self.assertEqual([figure["name"] for figure in output["figures"]], REMOTE)
            self.assertEqual(output["flags"]["remote-dtype"], dtype)

    def test_pytorch_comes_to_the_same_sums(self):
        output, present = self.measure_with(
            "pytorch", flags=("--only=local", "--dim=5", "--bag-length=3"))
        self.assertCountEqual(
            [ratio["name"] for ratio in output["ratios"]],
            [name + " / " + peer for name in LOCAL for peer in ["gather"] + present])

    def test_peers_make_the_same_steps(self):
        flags = ("--only=step", "--dim=8", "--repeats=2", "--ids=zipf")
        output, present = self.measure_with("pytorch", "fbgemm", flags=flags)
        self.assertEqual([figure["name"] for figure in output["figures"]], STEPS)
        self.assertEqual({figure["n"] for figure in output["figures"]}, {2})
        self.assertCountEqual(
            [ratio["name"] for ratio in output["ratios"]],
            [name + " / " + peer for peer in present for name in STEPS_OF[peer]])
        self.assertEqual((output["flags"]["steps"], output["flags"]["peer"]), ("3", "both"))

    def test_a_peer_without_its_library_is_left_out(self):
        python = self.write_python("bare_python", "-S -s")
        for peer in "pytorch", "fbgemm":
            for part in "local", "step":
                output, present = self.measure_with(peer, flags=("--only=" + part,),
                                                    THRIFTPS_PYTHON=python)
                self.assertEqual(present, [])
                reason = output["facts"][peer + " is left out"]
                self.assertIn("torch" if peer == "pytorch" else "fbgemm_gpu", reason)
                self.assertIn("\n%s is left out: %s\n" % (peer, reason), self.stdout)

    def test_skewed_ids_come_to_the_same_sums(self):
        output, _ = self.measure_with("pytorch", flags=("--ids=zipf", "--exponent=1.2"))
        self.assertEqual([figure["name"] for figure in output["figures"]], ALL)
        self.assertEqual((output["flags"]["ids"], output["flags"]["exponent"]), ("zipf", "1.2"))

    def test_pushes_reach_the_table_of_any_server_that_is_named(self):
        server = os.path.abspath(os.environ["THRIFTPS_SERVER"])
        self.assertEqual([figure["name"] for figure in self.measure(
            "--only=push", "--server-binary=" + server)["figures"]], PUSH)
        result = self.run_world("--smoke", "--only=push", "--server-binary=/bin/false")
        self.assertEqual((result.code, result.stderr.count("\n")), (1, 1), result)
        self.assertIn("server (pid", result.stderr)

    def test_tables_may_be_on_a_device(self):
        output = self.measure("--device=cuda:1")
        self.assertEqual([figure["name"] for figure in output["figures"]], ALL)
        self.measure("--device=cuda/host", "--only=local")
        result = self.run_world("--smoke", "--device=cuda:7")
        self.assertEqual(result.code, 1, result)
        self.assertIn('unknown device "cuda:7"; known: cpu, cuda:0, cuda:1', result.stderr)

    def test_results_may_stay_on_the_device_of_their_caller(self):
        flags = ("--to-device", "--device=cuda:1", "--steps=3", "--repeats=2")
        for part in ("--only=step",), ():
            output = self.measure(*flags, *part)
            names = [figure["name"] for figure in output["figures"]]
            self.assertEqual([name for name in names if "cuda:1" in name],
                             ["step, lookup to cuda:1 through the host", "step, lookup to cuda:1"])
            fact = output["facts"]["lookups to the device"]
            there, everything = re.match(
                r"(\d+) of (\d+) results stayed in memory of cuda:1$", fact).groups()
            self.assertGreater(int(there), 0)
            self.assertEqual(int(everything), 3 * 3)  # a warm-up and two rounds
            self.assertIn("\n%s\n" % fact, self.stdout)

    def test_without_the_device_there_is_a_line(self):
        result = self.run_world("--smoke", "--only=step", "--to-device", "--device=cuda:7")
        self.assertEqual((result.code, result.stderr.count("\n")), (1, 1), result)
        self.assertIn('--to-device: unknown device "cuda:7"', result.stderr)

    def test_a_bad_flag_is_a_line(self):
        for flag in ("--bogus", "--bags=0", "--only=neither", "--peer=nobody", "--seconds=0",
                     "--device=a b", "--ids=2000", "--exponent=0", "--remote-ids=0", "--steps=0",
                     "--peer=torch"):
            self.assert_bad_flag(flag)
        for flags in ((), ("--device=cuda", "--only=push"), ("--device=cuda", "--bags=3")):
            self.assert_bad_flag("--to-device", *flags, word="--to-device")

    def test_a_peer_that_cannot_run_is_named(self):
        for peer in "pytorch", "fbgemm", "both":
            result = self.run_world("--smoke", "--only=local", "--peer=" + peer,
                                    THRIFTPS_PYTHON="/bin/false")
            self.assertEqual(result.code, 1, result)
            self.assertIn("python3-torch", result.stderr)

    def test_ctrl_c(self):
        self.check_interrupt("--smoke", "--repeats=1000", n_processes=1)


if __name__ == "__main__":
    junit.main()
