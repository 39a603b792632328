# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""//bench:durability: its output and its JSON; no process or file remains."""

import json
import os
import shutil

import junit
import launcher

MODES = ("no data directory", "none", "interval", "commit")
TIMES = (" p50", " p99", " p99.9", " longest")
PUSH = ["push %s" % mode for mode in MODES]
LOOKUP = ["%s %s" % (what, when) for when in ("without a snapshot", "during a snapshot")
          for what in ("lookup", "push beside lookups")]
HAS_FIO = shutil.which("fio") is not None
NO_FIO = "limits of the disk: fio is not installed; apt-get install fio"


class Durability(launcher.TestCase):
    program = os.path.abspath(os.environ["DURABILITY"])

    def measure(self, *flags, **environment):
        """The JSON of a small run, whose table shows the same figures."""
        result = self.run_world("--smoke", "--disk=.", "--json=out.json", *flags, **environment)
        self.assertEqual(result.code, 0, result)
        with open(os.path.join(self.folder, "out.json"), encoding="utf-8") as file:
            output = json.load(file)
        self.assertEqual((output["schema"], output["benchmark"]), (1, "durability"))
        for figure in output["figures"]:
            self.assertGreaterEqual(figure["p50"], 0)
        for ratio in output["ratios"]:
            self.assertAlmostEqual(ratio["ratio"], ratio["ours"] / ratio["peer"])
            self.assertIn("\n%s " % ratio["name"], result.stdout)
        return output, result

    def names(self, output):
        return {figure["name"] for figure in output["figures"]}

    def ratios(self, output):
        return {ratio["name"] for ratio in output["ratios"]}

    def test_all_parts_stand_beside_their_limits(self):
        output, result = self.measure()
        names, ratios = self.names(output), self.ratios(output)
        for name in PUSH + LOOKUP:
            self.assertLessEqual({name} | {name + time for time in TIMES}, names)
        self.assertLessEqual({"replay", "snapshot", "snapshot memory", "restore",
                              "push commit memory", "push commit log / received",
                              "restart of an empty server"}, names)
        self.assertLessEqual({"push commit / none", "push none / no data directory",
                              "replay / push commit", "lookup p99.9 during a snapshot / without"},
                             ratios)
        peers = {peer["name"] for peer in output["peers"]}
        for peer, of_peer in (("fio", {"snapshot / fio", "restore / fio", "push commit / fio"}),
                              ("RocksDB synced", {"push commit / RocksDB synced"}),
                              ("torch.save", {"snapshot / torch.save"})):
            self.assertEqual(of_peer & ratios, of_peer if peer in peers else set())
        self.assertEqual("fio" in peers, HAS_FIO)
        self.assertEqual(NO_FIO in result.stdout, not HAS_FIO)

    def test_what_is_missing_is_named(self):
        os.mkdir(os.path.join(self.folder, "empty"))
        output, result = self.measure("--only=snapshot", PATH=os.path.join(self.folder, "empty"),
                                      THRIFTPS_PYTHON="/bin/false")
        self.assertLessEqual({"snapshot", "restore"}, self.names(output))
        self.assertEqual((output["peers"], output["ratios"]), ([], []))
        for reason in (NO_FIO,
                       "torch.save: PyTorch is not installed; apt-get install python3-torch"):
            self.assertIn("durability: not measured: %s\n" % reason, result.stderr)
            self.assertIn("\nnot measured: %s\n" % reason, result.stdout)

    def test_parts_alone(self):
        output, _ = self.measure("--only=restart", "--repeats=3")
        self.assertEqual([(f["name"], f["n"]) for f in output["figures"]],
                         [("restart of an empty server", 3)])

    def test_a_run_that_does_not_fit_is_a_line(self):
        for flag, words in (("--bytes=1099511627776 --disk=.",
                             "GiB are free, and the run needs about 41"),
                            ("--disk=nowhere", "--disk=nowhere: cannot write there: No such file"),
                            ("--only=everything", "--only=everything"), ("--bytes=5", "--bytes=5"),
                            ("--rows=3", "--rows=3"), ("--seconds=0", "--seconds=0")):
            result = self.run_world(*flag.split())
            self.assertEqual((result.code, result.stderr.count("\n")), (2, 1), result)
            self.assertIn(words, result.stderr)
        result = self.run_world("--smoke", "--disk=.", "--only=push", "--no-peers",
                                "--server-binary=/bin/false")
        self.assertEqual(result.code, 1, result)
        self.assertIn("server (pid", result.stderr)

    def test_ctrl_c(self):
        self.check_interrupt("--smoke", "--disk=.", "--only=push", "--no-peers", "--repeats=1000",
                             n_processes=1)


if __name__ == "__main__":
    junit.main()
