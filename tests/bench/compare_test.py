# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""bench/compare with two tiny fake benchmarks: its runs, their order, its output, its exit code."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import junit

COMPARE = os.path.abspath(os.environ["COMPARE"])

# Writes one of the values in the file beside it, the next one in each run. Logs its path and its
# flags.
BENCHMARK = """#!%s
import json, os, sys
here = os.path.dirname(os.path.realpath(__file__))
flags = dict(flag[2:].split("=", 1) for flag in sys.argv[1:] if "=" in flag)
with open(flags["log"], "a") as log:
    log.write(json.dumps([here.split(os.sep + "bazel-bin")[0], sys.argv[1:]]) + "\\n")
with open(flags["log"]) as log:
    n = sum(json.loads(line)[0] == here.split(os.sep + "bazel-bin")[0] for line in log) - 1
with open(os.path.join(here, "figures.json")) as file:
    side = json.load(file)
if side.get("fails"):
    print("fake: " + side["fails"], file=sys.stderr)
    sys.exit(3)
def pick(values):
    return values[n %% len(values)]
figures = [{"name": name, "unit": unit, "p50": pick(values)} for name, unit, values in side["figures"]]
ratios = [{"name": name, "ratio": pick(values), "better": better} for name, better, values in side.get("ratios", [])]
with open(flags["json"], "w") as file:
    json.dump({"schema": 1, "figures": figures, "peers": [], "ratios": ratios}, file)
""" % sys.executable

# Replaces Bazel: "builds" the benchmark of the checkout that contains it.
BAZELW = """#!/bin/sh
echo "$@" >> bazel.log
[ "$1" = build ] || exit 0
[ ! -e broken ] || { echo "ERROR: broken on purpose"; exit 1; }
mkdir -p bazel-bin/bench/fake
cp benchmark.py bazel-bin/bench/fake/fake
cp figures.json bazel-bin/bench/fake/
"""


def write(path, text, executable=False):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755 if executable else 0o644)


class TestCase(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="compare-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = os.path.join(self.folder, "log")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def build(self, side, figures, ratios=(), package="bench/fake", **more):
        folder = self.path(side, "bazel-bin", package)
        write(os.path.join(folder, "fake"), BENCHMARK, executable=True)
        write(os.path.join(folder, "figures.json"),
              json.dumps(dict(more, figures=figures, ratios=ratios)))

    def run_compare(self, *flags, script=COMPARE, sides=("before", "after"), target="//bench:fake"):
        return subprocess.run([sys.executable, script, *sides, *flags, "--", target,
                               "--log=" + self.log], capture_output=True,
                              text=True, cwd=self.folder, check=False)

    def compare(self, *flags, **options):
        return self.run_compare("--old-dir=" + self.path("old"), "--new-dir=" + self.path("new"),
                                *flags, **options)

    def runs(self):
        with open(self.log, encoding="utf-8") as log:
            return [(os.path.basename(folder), flags) for folder, flags in map(json.loads, log)]


class Compare(TestCase):
    def test_rounds_are_interleaved_and_either_side_is_first_in_turn(self):
        for side in ("old", "new"):
            self.build(side, [["push", "GB/s", [1.0]]])
        self.assertEqual(self.compare("--rounds=3").returncode, 0)
        self.assertEqual([side for side, _ in self.runs()],
                         ["old", "new", "new", "old", "old", "new"])

    def test_ratios_are_above_one_where_new_is_better(self):
        self.build("old", [["rate", "GB/s", [1.0]], ["time", "ms", [2.0]]],
                   [["r", "higher", [2.0]], ["t", "lower", [2.0]]])
        self.build("new", [["rate", "GB/s", [2.0]], ["time", "ms", [1.0]]],
                   [["r", "higher", [4.0]], ["t", "lower", [1.0]]])
        result = self.compare()
        self.assertEqual(result.returncode, 0, result)
        for name, old, new in (("rate", 1, 2), ("time", 2, 1), ("r", 2, 4), ("t", 2, 1)):
            self.assertRegex(result.stdout, r"(?m)^  %s +%s +%s +\S+ +2\.000  2\.000\.\.2\.000 "
                                            r" better$" % (name, old, new))

    def test_median_and_spread_are_of_the_rounds_pairs(self):
        self.build("old", [["rate", "calls/s", [100, 200, 100, 400, 100]]])
        self.build("new", [["rate", "calls/s", [110, 200, 90, 500, 100]]])
        self.assertEqual(self.compare("--json=" + self.path("out.json")).returncode, 0)
        with open(self.path("out.json"), encoding="utf-8") as file:
            row = json.load(file)["rows"][0]
        self.assertEqual((row["name"], row["old"], row["new"], row["ratio"]),
                         ("rate", 100, 110, 1.0))
        self.assertAlmostEqual(row["low"], 0.9)
        self.assertAlmostEqual(row["high"], 1.25)

    def test_a_row_that_is_worse_in_every_round_fails(self):
        self.build("old", [["rate", "GB/s", [1.0]], ["time", "ms", [1.0]]])
        self.build("new", [["rate", "GB/s", [0.96, 0.95]], ["time", "ms", [1.0]]])
        result = self.compare()
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stdout, r"(?m)^  rate .* WORSE$")
        self.assertIn("1 of 2 rows are worse by more than 3 % in every round", result.stdout)
        self.assertEqual(self.compare("--threshold=6").returncode, 0)

    def test_a_row_that_is_worse_within_its_spread_does_not(self):
        self.build("old", [["rate", "GB/s", [1.0]]])
        self.build("new", [["rate", "GB/s", [0.9, 0.9, 1.0, 0.9, 0.9]]])
        result = self.compare()
        self.assertEqual(result.returncode, 0, result)
        self.assertRegex(result.stdout, r"(?m)^  rate .* worse\?$")

    def test_rows_of_one_side_are_listed(self):
        self.build("old", [["both", "ms", [1.0]], ["gone", "ms", [1.0]]])
        self.build("new", [["both", "ms", [1.0]], ["added", "ms", [1.0]]])
        result = self.compare()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("only in old: //bench:fake --log=%s, gone\n" % self.log, result.stdout)
        self.assertIn("only in new: //bench:fake --log=%s, added\n" % self.log, result.stdout)

    def test_what_is_no_measure_of_speed_is_not_judged(self):
        self.build("old", [["loss", "1", [1.0]], ["none", "ms", [0]]])
        self.build("new", [["loss", "1", [9.0]], ["none", "ms", [7]]])
        result = self.compare()
        self.assertEqual((result.returncode, result.stdout.count("not judged")), (0, 2), result)

    def test_a_failing_benchmark_is_named_with_its_last_words(self):
        self.build("old", [["rate", "GB/s", [1.0]]], fails="--op: no such flag")
        self.build("new", [["rate", "GB/s", [1.0]]])
        result = self.compare()
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("failed in old: //bench:fake --log=%s: fake: --op: no such flag" % self.log,
                      result.stdout)
        self.assertEqual(len(self.runs()), 1)  # not tried again, and not run on the other side
        shutil.rmtree(re.search(r"outputs are in (\S+)", result.stderr).group(1))

    def test_one_client_for_two_servers(self):
        for side in ("old", "new"):
            self.build(side, [["push", "GB/s", [1.0]]])
            self.build(side, [], package="plugin/app")
        result = subprocess.run([sys.executable, COMPARE, "a", "b", "--old-dir=" + self.path("old"),
                                 "--new-dir=" + self.path("new"), "--rounds=1", "--client=new",
                                 "--", "//bench:fake", "--log=" + self.log,
                                 "--server={//plugin:fake}"], capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, result)
        self.assertEqual([(who, flags[1]) for who, flags in self.runs()],
                         [("new", "--server="
                           + os.path.realpath(self.path(side, "bazel-bin/plugin/app/fake")))
                          for side in ("old", "new")])

    def test_usage_errors(self):
        for arguments in (("a", "b"), ("a", "b", "--all", "--", "//bench:fake"), ("a",),
                          ("a", "b", "--quick", "--", "//x"),
                          ("a", "b", "--", "transfer"), ("a", "b", "--rounds=0", "--", "//x"),
                          ("nothing", "b", "--", "//bench:fake")):
            with self.subTest(arguments=arguments):
                result = subprocess.run([sys.executable, COMPARE, *arguments], capture_output=True,
                                        text=True, check=False)
                self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertIn("Exit status:", subprocess.run([sys.executable, COMPARE, "--help"],
                                                     capture_output=True, text=True,
                                                     check=False).stdout)


class Results(TestCase):
    """--results, with a copy of the script beside its files."""

    def setUp(self):
        super().setUp()
        self.script = self.path("bench", "compare")
        os.makedirs(self.path("bench"))
        shutil.copy(COMPARE, self.script)

    def write_results(self, *rows):
        write(self.path("bench", "results.json"), json.dumps({
            "processors": {"Old": "Old CPU, 1 core", "New": "New CPU, 2 cores"},
            "benchmarks": [{"title": "Fake", "command": "//bench:fake -- FLAGS", "unit": "GB/s",
                            "text": "A test.", "rows": rows}]}))

    def run_results(self, *files):
        return subprocess.run([sys.executable, self.script, "--results", *files],
                              capture_output=True, text=True, check=False)

    def read_rows(self):
        with open(self.path("bench", "RESULTS.md"), encoding="utf-8") as file:
            return re.findall(r"^\| (?!figure|---)(.*) \|$", file.read(), re.MULTILINE)

    def test_the_tables_of_the_tree_are_those_of_its_json(self):
        folder = os.path.dirname(COMPARE)
        shutil.copy(os.path.join(folder, "results.json"), self.path("bench"))
        self.assertEqual(self.run_results().returncode, 0)
        with open(self.path("bench", "RESULTS.md"), encoding="utf-8") as file:
            expected = file.read()
        with open(os.path.join(folder, "RESULTS.md"), encoding="utf-8") as file:
            self.assertEqual(file.read(), expected, "run bench/compare --results")

    def test_a_run_replaces_whole_rows_of_its_processor(self):
        row = {"figure": "push", "flags": "--a=1", "commit": "c0", "value": 1, "limit": 2,
               "peer": 0.5, "ratio": 2.0}
        self.write_results(dict(row, processor="Old", source=["//bench:fake --a=1", "push"]),
                           dict(row, processor="New", source=["//bench:fake --a=1", "push"]),
                           dict(row, processor="New", figure="by hand"))
        run = {"commit": "c1", "processor": "New CPU", "rows": [
            {"command": "//bench:fake --a=1", "name": "push", "new": 3},
            {"command": "//bench:fake --a=2", "name": "push", "new": 4}]}
        write(self.path("run.json"), json.dumps(run))
        for _ in range(2):  # the second time, nothing changes
            self.assertEqual(self.run_results(self.path("run.json")).returncode, 0)
            self.assertEqual(sorted(self.read_rows()), [
                "by hand `--a=1` | New | c0 | 1 | 2 | 0.5 | 2",
                "push `--a=1` | New | c1 | 3 | | |",
                "push | Old | c0 | 1 | 2 | 0.5 | 2"])

    def test_a_run_on_an_unknown_processor_is_refused(self):
        self.write_results()
        write(self.path("run.json"), json.dumps({"commit": "c", "processor": "Z80", "rows": []}))
        result = self.run_results(self.path("run.json"))
        self.assertEqual(result.returncode, 2)
        self.assertIn("no kind of processor that occurs in \"Z80\"", result.stderr)

    def test_the_json_of_a_comparison_can_be_taken(self):
        for side in ("old", "new"):
            self.build(side, [["push", "GB/s", [1.0]]])
        self.assertEqual(self.compare("--json=" + self.path("run.json")).returncode, 0)
        with open(self.path("run.json"), encoding="utf-8") as file:
            run = json.load(file)
        self.write_results({"figure": "push", "flags": "", "commit": "c0", "processor": "New",
                            "value": 9, "limit": None, "peer": None, "ratio": None,
                            "source": [run["rows"][0]["command"], "push"]})
        write(self.path("run.json"), json.dumps(dict(run, processor="New CPU")))
        self.assertEqual(self.run_results(self.path("run.json")).returncode, 0)
        self.assertEqual(self.read_rows(), ["push | New | after | 1"])


class Commits(TestCase):
    """With a repository of two commits and a stand-in for Bazel."""

    def setUp(self):
        super().setUp()
        self.repository = self.path("repository")
        write(self.path("repository", "bazelw"), BAZELW, executable=True)
        write(self.path("repository", "benchmark.py"), BENCHMARK, executable=True)
        write(self.path("repository", ".gitignore"), "/bazel-bin\n/bazel.log\n")
        os.makedirs(self.path("repository", "bench"))
        shutil.copy(COMPARE, self.path("repository", "bench", "compare"))
        self.git("init", "--quiet")
        self.commit([["push", "GB/s", [2.0]]])
        self.commit([["push", "GB/s", [1.0]]])

    def git(self, *arguments):
        subprocess.run(["git", "-C", self.repository, "-c", "user.name=test", "-c",
                        "user.email=test@localhost", *arguments], check=True,
                       capture_output=True, env=dict(os.environ, GIT_CONFIG_GLOBAL="/dev/null",
                                                     GIT_CONFIG_SYSTEM="/dev/null"))

    def commit(self, figures, **files):
        write(self.path("repository", "figures.json"), json.dumps({"figures": figures}))
        for name, text in files.items():
            write(self.path("repository", name), text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=x")

    def compare_commits(self, *flags, sides):
        return self.run_compare("--cache=" + self.path("cache"), "--rounds=1", *flags, sides=sides,
                                script=self.path("repository", "bench", "compare"))

    def test_two_commits_are_built_and_kept(self):
        result = self.compare_commits(sides=("HEAD~1", "HEAD"))
        self.assertEqual(result.returncode, 1, result)
        self.assertRegex(result.stdout, r"(?m)^  push +2 +1 +GB/s +0\.500 .* WORSE$")
        self.assertEqual(len(os.listdir(self.path("cache"))), 2)
        for commit in os.listdir(self.path("cache")):
            with open(self.path("cache", commit, "bazel.log"), encoding="utf-8") as log:
                self.assertEqual(log.read(), "build -c opt //bench:fake\nshutdown\n")
        # The second comparison reuses both builds.
        self.assertEqual(self.compare_commits(sides=("HEAD~1", "HEAD")).returncode, 1)

    def test_clean_leaves_no_checkout(self):
        self.assertEqual(self.compare_commits("--clean", sides=("HEAD~1", "HEAD")).returncode, 1)
        self.assertEqual(os.listdir(self.path("cache")), [])

    def test_the_working_tree_is_a_side(self):
        write(self.path("repository", "figures.json"),
              json.dumps({"figures": [["push", "GB/s", [3.0]]]}))
        result = self.compare_commits(sides=("HEAD", self.repository))
        self.assertRegex(result.stdout, r"(?m)^  push +1 +3 +GB/s +3\.000 ")

    def test_a_broken_build_is_a_failure(self):
        self.commit([], broken="")
        result = self.compare_commits(sides=("HEAD~1", "HEAD"))
        self.assertEqual((result.returncode, result.stdout), (2, ""), result)
        self.assertIn("ERROR: broken on purpose", result.stderr)
        shutil.rmtree(os.path.dirname(re.search(r"is in (\S+)", result.stderr).group(1)))


if __name__ == "__main__":
    junit.main()
