#!/usr/bin/env python3
# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Runs the boundary tests against the planted bugs of mutants.py, one bug at a time.

  run_mutants.py prepare TREE WORK              scripts that run the tests of TREE, which is built
  run_mutants.py reach WORK LIST [--marks M]    runs every test without a bug: its time, and the
                                                places of bugs that it reaches; M is a folder of
                                                coverage.py, which then gets its marks
  run_mutants.py run WORK LIST                  runs the tests that reach a bug, the shortest first
  run_mutants.py show LIST                      counts the results

`run` may be stopped at any time (Ctrl-C): LIST has the state, and the next call continues. For each
bug it runs only the tests that reach its place, the shortest first, and stops at the first failure,
which must happen again. A bug whose tests have run for --seconds without a failure stays open: its
result is "not found yet".

The tests run outside of Bazel's sandbox. A test that fails without a bug is not used.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from mutants import read, write

N_BYTES = 4096
HOW = {124: "time", 125: "memory or disk"}
PR_SET_CHILD_SUBREAPER = 36
GIB = 1 << 30
# A bug must not use up the machine.
RESIDENT_BYTES = 4 * GIB
FREE_BYTES = 8 * GIB  # of the disk


# ---- one test -----------------------------------------------------------------------------------


def list_descendants(pid):
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="latin-1") as stat:
                    parents.setdefault(int(stat.read().rpartition(")")[2].split()[1]),
                                       []).append(int(name))
            except OSError:
                pass  # it has ended
    found, pending = [], [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        found += children
        pending += children
    return found


def count_resident_bytes(pids):
    total = 0
    for pid in pids:
        try:
            with open("/proc/%d/statm" % pid, encoding="ascii") as statm:
                total += int(statm.read().split()[1]) * 4096
        except OSError:
            pass
    return total


def run_alone(seconds, script):
    """Runs a script and ends all processes that it has started. Exit status 124: out of time,
    125: out of memory or disk space."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    process = subprocess.Popen([script], stdin=subprocess.DEVNULL, start_new_session=True)
    end, code = time.monotonic() + seconds, None
    while code is None:
        try:
            code = process.wait(0.5 if end - time.monotonic() > 0.5 else 0.1)
        except subprocess.TimeoutExpired:
            if time.monotonic() > end:
                code = 124
            elif count_resident_bytes(list_descendants(os.getpid())) > RESIDENT_BYTES \
                    or shutil.disk_usage(os.environ["MUTANTS_TMP"]).free < FREE_BYTES:
                code = 125
    while True:
        left = list_descendants(os.getpid())
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            if not list_descendants(os.getpid()):
                break
        time.sleep(0.02)
    unmount(os.environ["MUTANTS_TMP"])
    return code if code >= 0 else 128 - code


def unmount(folder):
    """Takes away the file systems that the killed processes of a test have left in its folder."""
    with open("/proc/self/mounts", encoding="utf-8") as mounts:
        places = [line.split()[1] for line in mounts]
    for place in places:
        if place.startswith(folder + "/"):
            subprocess.run(["umount", "-l", place], stderr=subprocess.DEVNULL)


class Work:
    """A folder with the scripts of the tests (tests.json: script by label)."""

    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.scripts = json.loads(read(self.path("tests.json")))

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, label, seconds, environment):
        """(exit status, seconds, the end of the output)"""
        with tempfile.TemporaryDirectory(dir=self.folder) as temporary, \
                tempfile.TemporaryFile(dir=self.folder) as output:
            begin = time.monotonic()
            code = subprocess.run(
                [sys.executable, os.path.abspath(__file__), "alone", str(seconds),
                 self.scripts[label]],
                stdout=output, stderr=subprocess.STDOUT,
                env=dict(os.environ, MUTANTS_TMP=temporary, **environment)).returncode
            duration = time.monotonic() - begin
            output.seek(max(0, output.seek(0, os.SEEK_END) - 4000))
            return code, duration, output.read().decode(errors="replace")


# ---- commands -----------------------------------------------------------------------------------


# Instead of running a test, writes a script that runs it in the same environment. Each run has its
# own folder; the caller's environment chooses the bug.
NOTE = """#!/bin/bash
name=$TEST_TARGET${TEST_SHARD_INDEX:+#$TEST_SHARD_INDEX}
unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE TEST_SHARD_STATUS_FILE TEST_TMPDIR GTEST_TMP_DIR HOME
{
  echo '#!/bin/bash'
  export -p
  echo 'export TEST_TMPDIR="$MUTANTS_TMP" GTEST_TMP_DIR="$MUTANTS_TMP" HOME="$MUTANTS_TMP"'
  printf 'cd %q\\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} > "FOLDER/${name//[^A-Za-z0-9]/_}.sh"
chmod +x "FOLDER/${name//[^A-Za-z0-9]/_}.sh"
echo "$name" > "FOLDER/${name//[^A-Za-z0-9]/_}.name"
"""


def prepare(arguments):
    folder = os.path.abspath(arguments.work)
    os.makedirs(folder, exist_ok=True)
    note = os.path.join(folder, "note")
    with open(note, "w", encoding="utf-8") as file:
        file.write(NOTE.replace("FOLDER", folder))
    os.chmod(note, 0o755)
    bazel = os.path.join(arguments.tree, "bazelw")
    labels = subprocess.run([bazel, "query", "tests(//tests:boundary)"], cwd=arguments.tree,
                            stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    subprocess.run([bazel, "test", "--keep_going", "--strategy=TestRunner=local",
                    "--nocache_test_results", "--test_summary=none", "--run_under=" + note,
                    *labels], cwd=arguments.tree)
    scripts = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".name"):
            scripts[read(os.path.join(folder, name)).strip()] = os.path.join(
                folder, name[:-len("name")] + "sh")
    write_json(os.path.join(folder, "tests.json"), scripts)
    print("%d tests" % len(scripts))


def write_json(path, value):
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    os.rename(path + ".new", path)


def reach(arguments):
    work = Work(arguments.work)
    path = work.path("reached.json")
    known = json.loads(read(path)) if os.path.exists(path) else {}
    numbers = [mutant["number"] for mutant in json.loads(read(arguments.list))["mutants"]]
    lock = threading.Lock()
    environment = {}
    if arguments.marks:
        folder = os.path.abspath(arguments.marks)
        environment = {"LINE_MARKS": folder, "LD_PRELOAD": os.path.join(folder, "line_marks.so")}

    def run(label):
        marks = work.path(re.sub(r"\W+", "_", label) + ".reached")
        with open(marks, "wb") as file:
            file.write(bytes(N_BYTES))
        os.chmod(marks, 0o666)
        code, seconds, output = work.run(label, arguments.seconds, {
            "TPS_MUTANT_REACHED": marks, **environment})
        with open(marks, "rb") as file:
            data = file.read()
        os.remove(marks)
        with lock:
            known[label] = {"code": code, "seconds": round(seconds, 1),
                            "reached": [number for number in numbers if data[number]]}
            if code:
                known[label]["output"] = output
            write_json(path, known)
            print("%s: %d, %.1f s, reaches %d" % (label, code, seconds,
                                                  len(known[label]["reached"])), flush=True)

    # Tests that failed run again.
    todo = [label for label in work.scripts if known.get(label, {"code": 1})["code"]
            and re.search(arguments.only, label)]
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(run, todo))


class Runner:

    def __init__(self, arguments):
        self.arguments, self.work = arguments, Work(arguments.work)
        self.value = json.loads(read(arguments.list))
        self.reached = json.loads(read(self.work.path("reached.json")))
        # Tests that passed with a bug, by its number: they need not run again.
        self.path = self.work.path("passed.json")
        self.passed = json.loads(read(self.path)) if os.path.exists(self.path) else {}
        self.lock = threading.Lock()
        self.is_stopped = False

    def tests_of(self, mutant):
        return sorted((label for label, test in self.reached.items()
                       if test["code"] == 0 and mutant["number"] in test["reached"]),
                      key=lambda label: self.reached[label]["seconds"])

    def fails(self, mutant, label):
        limit = 60 + 6 * self.reached[label]["seconds"]
        return self.work.run(label, limit, {"TPS_MUTANT": str(mutant["number"])})[0]

    def try_test(self, mutant, label):
        """Whether the bug is found by the test."""
        code = self.fails(mutant, label)
        if code and self.fails(mutant, label):
            with self.lock:
                mutant.update(result="found", by=label, how=HOW.get(code, "failure"))
                self.save()
            return True
        with self.lock:
            self.passed.setdefault(str(mutant["number"]), []).append(label)
            mutant["tests_run"] = len(self.passed[str(mutant["number"])])
            self.save()
        return False

    def save(self):
        write(self.arguments.list, self.value)
        write_json(self.path, self.passed)

    def run(self, mutant):
        if self.is_stopped:
            return
        end = time.monotonic() + self.arguments.seconds
        tests = self.tests_of(mutant)
        mutant["tests_that_reach_it"] = len(tests)
        if not tests:
            mutant["result"] = "not reached"
        for label in tests:
            if label in self.passed.get(str(mutant["number"]), ()):
                continue
            if time.monotonic() > end or self.is_stopped:
                mutant["result"] = "not found yet"
                break
            if self.try_test(mutant, label):
                break
        else:
            if tests:
                mutant["result"] = "not found"
        with self.lock:
            self.save()
            print("%d %s:%d %s: %s %s" % (mutant["number"], mutant["file"], mutant["line"],
                                          mutant["change"], mutant["result"],
                                          mutant.get("by", "")), flush=True)

    def has_to_run(self, mutant):
        """A bug that is not found runs again if there are more tests than before."""
        if mutant["result"] in ("not run", "not found yet"):
            return "equivalent" not in mutant
        return mutant["result"] != "found" and "equivalent" not in mutant and (
            set(self.tests_of(mutant)) > set(self.passed.get(str(mutant["number"]), ())))

    def run_all(self):
        todo = [mutant for mutant in self.value["mutants"] if self.has_to_run(mutant)]
        # Bugs of all groups from the beginning.
        todo.sort(key=lambda mutant: (mutant["result"] == "not found yet", mutant["number"] % 40))
        with concurrent.futures.ThreadPoolExecutor(self.arguments.jobs) as pool:
            try:
                list(pool.map(self.run, todo))
            except KeyboardInterrupt:
                self.is_stopped = True  # when the running tests have ended


def show(path):
    mutants = json.loads(read(path))["mutants"]
    results = sorted({mutant["result"] for mutant in mutants})
    for group in sorted({mutant["group"] for mutant in mutants}) + ["all"]:
        of_group = [mutant for mutant in mutants if group in (mutant["group"], "all")]
        counts = {result: sum(mutant["result"] == result for mutant in of_group)
                  for result in results}
        counts["equivalent"] = sum("equivalent" in mutant for mutant in of_group)
        print(group, ", ".join("%s %d" % each for each in counts.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, names in (("prepare", ["tree", "work"]), ("reach", ["work", "list"]),
                        ("run", ["work", "list"]), ("show", ["list"])):
        command = commands.add_parser(name)
        for each in names:
            command.add_argument(each)
        command.add_argument("--marks")
        command.add_argument("--only", default="", help="reach: a regular expression of tests")
        command.add_argument("--jobs", type=int, default=1, help="number of tests at a time")
        command.add_argument("--seconds", type=float, default=600,
                             help="reach: time limit of a test; run: time for a bug")
    alone = commands.add_parser("alone")
    alone.add_argument("seconds", type=float)
    alone.add_argument("script")
    arguments = parser.parse_args()
    if arguments.command == "alone":
        sys.exit(run_alone(arguments.seconds, arguments.script))
    if arguments.command == "prepare":
        prepare(arguments)
    elif arguments.command == "reach":
        reach(arguments)
    elif arguments.command == "run":
        Runner(arguments).run_all()
    else:
        show(arguments.list)


if __name__ == "__main__":
    main()
