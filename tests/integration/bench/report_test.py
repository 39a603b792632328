# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The output of a run for users and for programs: the originals' titles, rows and columns,
JSON."""

import json
import math
import os
import signal
import statistics

import junit
import launcher
import report

FLAGS = ["--smoke", "--batch-size=4", "--json=out.json"]
N_STEPS = 8  # 64 samples in batches of 4, for 2 trainers


class OneRun(launcher.TestCase):
    """One run, checked in every output format."""

    def setUp(self):
        super().setUp()
        self.output = self.run_to_json(*FLAGS)
        self.result = self.run_well(*FLAGS)
        self.tables = report.read_report(self.result.stdout)

    def test_tables_have_all_names_sorted_and_all_columns(self):
        for title, columns, rows in self.tables:
            names = report.trainer_names("rpc_hook") if "trainer" in title else report.SERVER_NAMES
            with self.subTest(title=title):
                self.assertEqual(columns, report.COLUMNS)
                self.assertEqual(list(rows), names)

    def test_numbers_of_a_row_agree_with_each_other(self):
        for title, _, rows in self.tables:
            for name, (low, high, mean, variance, stdev, p50, p95, p99) in rows.items():
                with self.subTest(title=title, name=name):
                    self.assertTrue(0 < low <= mean <= high and low <= p50 <= p95 <= p99 <= high)
                    self.assertTrue(math.isclose(variance, stdev * stdev, rel_tol=1e-4))

    def test_ends_with_what_training_came_to(self):
        loss, parameters = self.result.stdout.splitlines()[-2:]
        # ln 64 = 4.16
        self.assertRegex(loss, r"^loss of the last step: trainer0 4\.\d+, trainer1 4\.\d+$")
        self.assertRegex(parameters,
                         r"^parameters \(xxh3-128\): [0-9a-f]{32}, the same on all trainers$")
        # The digest is that of another run with the same seed.
        self.assertIn(report.digests(self.output)[0], parameters)

    def test_json_has_the_shape_of_all_benchmarks(self):
        output = self.output
        self.assertEqual((output["schema"], output["benchmark"]), (1, "parameter_server"))
        self.assertRegex(output["version"], r"^\d+\.\d+\.\d+$")
        self.assertTrue({"cpu", "cores", "memory_bytes", "kernel",
                         "machine"} <= set(output["host"]))
        self.assertEqual(output["flags"]["ddp-hook"], "rpc_hook")
        self.assertEqual(output["flags"]["batch-size"], "4")
        self.assertEqual((output["peers"], output["ratios"]), ([], []))
        for figure in output["figures"]:
            self.assertEqual(set(figure), {"name", "unit", "n", "p50", "p95", "p99", "min", "max",
                                           "mean", "samples"})
            self.assertEqual(len(figure["samples"]), figure["n"])
            self.assertEqual((min(figure["samples"]), max(figure["samples"])),
                             (figure["min"], figure["max"]))
            if figure["n"] > 1:
                cuts = statistics.quantiles(figure["samples"], n=100, method="inclusive")
                self.assertAlmostEqual(figure["p50"], cuts[49])
                self.assertAlmostEqual(figure["p95"], cuts[94])
                self.assertAlmostEqual(figure["p99"], cuts[98])

    def test_json_has_every_row_of_the_report(self):
        figures = report.figures(self.output)
        names = {"%s/%s" % (title, name) for title, _, rows in self.tables for name in rows}
        self.assertEqual(set(figures), names | {"trainer=0/loss", "trainer=1/loss"})

    def test_counts_are_those_of_the_work(self):
        figures = report.figures(self.output)
        for name in report.TRAINER_NAMES + report.HOOK_NAMES["rpc_hook"]:
            with self.subTest(name=name):  # one dense and one sparse bucket
                self.assertEqual([figures[rank + name]["n"]
                                  for rank in ("trainer=0/", "trainer=1/", "all trainer/")],
                                 [N_STEPS, N_STEPS, 2 * N_STEPS])
        for name in report.SERVER_NAMES:
            self.assertEqual(figures["server=2/" + name]["n"], 2 * N_STEPS)


class Shapes(launcher.TestCase):

    def test_json_and_head_have_seeds_paths_and_the_real_port(self):
        models = self.write("models.json", json.dumps({"DummyModelSmall": {
            "model_class": "DummyModel", "configurations": {
                "num_embeddings": 64, "embedding_dim": 64, "dense_input_size": 64,
                "dense_output_size": 64, "dense_layers_count": 2, "sparse": True}}}))
        said = ("--torch-seed=7", "--cuda-seed=8", "--filestore=/tmp/store",
                "--model-config-path=" + models)
        flags = self.run_to_json("--smoke", *said)["flags"]
        self.assertEqual((flags["seed"], flags["torch-seed"], flags["cuda-seed"]), ("7", "7", "8"))
        self.assertEqual((flags["filestore"], flags["model-config-path"]), ("/tmp/store", models))
        self.assertGreater(int(flags["master-port"]), 0)
        head, _, rest = self.run_well("--smoke", *said).stdout.partition("\n")
        for flag in said:
            self.assertIn(" " + flag[2:], head)
        self.assertIn("--cuda-seed=8 has no effect", rest)

    def test_torch_seed_is_the_seed(self):
        found = [report.digests(self.run_to_json("--smoke", "--batch-size=4", flag))
                 for flag in ("--seed=7", "--torch-seed=7", "--seed=8")]
        self.assertEqual(found[0], found[1])
        self.assertNotEqual(found[0], found[2])

    def test_servers_are_numbered_by_their_global_rank(self):
        text = self.run_well("--smoke", "--ntrainer=3", "--nserver=2", "--batch-size=8").stdout
        self.assertEqual([title for title, _, _ in report.read_report(text) if "server" in title],
                         ["server=3", "server=4", "all server"])

    def test_a_server_that_owns_nothing_has_an_empty_table(self):
        tables = report.read_report(self.run_well("--smoke", "--nserver=3").stdout)  # two buckets
        self.assertEqual(sorted(len(rows) for title, _, rows in tables
                                if title.startswith("server=")), [0, 3, 3])

    def test_repeats_add_up(self):
        output = self.run_to_json("--smoke", "--repeats=3")
        figures = report.figures(output)
        self.assertEqual(figures["trainer=1/batch_level_metric,batch_all"]["n"], 3)
        # Every pass must start with the initial model.
        self.assertEqual(len(set(figures["trainer=1/loss"]["samples"])), 1)

    def test_files_go_where_the_user_stood(self):
        os.mkdir(os.path.join(self.folder, "stood"))
        self.run_well("--smoke", "--json=out.json",
                      BUILD_WORKING_DIRECTORY=os.path.join(self.folder, "stood"))
        self.assertEqual(os.listdir(os.path.join(self.folder, "stood")), ["out.json"])

    def test_progress_goes_to_stderr_a_line_each_where_that_is_no_terminal(self):
        run = self.start("--smoke", "--batch-size=4", "--epochs=1000000")
        line = launcher.eventually(run.progress, "a line of progress")
        self.assertRegex(line, r"^warm-up: ThriftPS, epoch \d+ of 1000000, step \d+ of 8000000, "
                               r"loss 4\.\d+(; about .* left)?\n$")
        run.signal(signal.SIGINT)
        result = run.finish()
        self.assertNotIn("\033", result.stdout + result.stderr)
        self.assertNotIn("\r", result.stdout + result.stderr)


if __name__ == "__main__":
    junit.main()
