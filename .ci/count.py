#!/usr/bin/python3
"""Counts the test cases of Bazel runs.

usage: count.py run EVENTS COUNTS
       count.py total [--table] NAME=COUNTS...

`run` reads EVENTS, which `bazel test --build_event_json_file=EVENTS` wrote, and the test.xml files
that it names, and writes COUNTS. It is called right after the run: the next one overwrites the
test.xml files. Cases are those of the XML (GoogleTest writes one); a test without cases counts as
one, and so does a target that does not build.

`total` adds up. A file that is missing counts as one failure, since the run that should have
written it broke down. A test that one run left out, because it is not for its configuration,
counts as skipped once, and only if no other run has it. --table prints a line per run. The last
line is `N passed, N failed`, with `, N skipped` if there are any; the exit code is 1 if a test
failed or none passed.
"""

import json
import os
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree
from collections import Counter

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


def verdict(case):
    if case.find("failure") is not None or case.find("error") is not None:
        return FAILED
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return SKIPPED
    return PASSED


def count_xml(path):
    try:
        return Counter(verdict(case) for case in ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return Counter()


def count_test(result):
    """One attempt at one test."""
    passed = result.get("status") in ("PASSED", "FLAKY")
    counts = Counter()
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            counts = count_xml(urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path))
    if not counts:
        counts[PASSED if passed else FAILED] = 1
    elif not passed and not counts[FAILED]:
        # All cases passed, but the program failed, for example through a leak or a crash in a
        # destructor.
        counts[FAILED] = 1
    return counts


def read_events(path):
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            try:
                yield json.loads(line)
            except ValueError:  # Bazel was stopped while it wrote this line.
                return


def count_run(path):
    """Returns counts, the tests that ran, and those that are not for this machine or
    configuration."""
    if not os.path.exists(path):
        return Counter({FAILED: 1}), [], []
    tests = {}  # the last attempt counts
    counts = Counter()
    left_out = set()
    exit_code = None
    for event in read_events(path):
        identity = event["id"]
        if "testResult" in event:
            key = identity["testResult"]
            tests[key["label"], key.get("run"), key.get("shard")] = count_test(event["testResult"])
        elif event.get("aborted", {}).get("reason") == "SKIPPED":
            # The test is incompatible with this configuration (target_compatible_with).
            label = identity.get("targetCompleted", {}).get("label", "")
            left_out.update([label] if label.endswith("_test") else [])
        elif "targetCompleted" in identity and not event.get("completed", {}).get("success"):
            counts[FAILED] += 1
            print("does not build: " + identity["targetCompleted"]["label"], file=sys.stderr)
        elif "finished" in event:
            exit_code = event["finished"].get("exitCode", {}).get("code", 0)
    for test in tests.values():
        counts += test
    if exit_code != 0 and not counts[FAILED]:
        counts[FAILED] = 1
    return counts, sorted({key[0] for key in tests}), sorted(left_out)


def read_counts(path):
    try:
        with open(path, encoding="utf-8") as run:
            counts, ran, left_out = json.load(run)
            return Counter(counts), set(ran), set(left_out)
    except (OSError, ValueError):
        return Counter({FAILED: 1}), set(), set()


def print_total(runs, with_table):
    if with_table:
        print("%-12s %8s %8s %8s" % ("config", PASSED, FAILED, SKIPPED))
        for name, (run, _, left_out) in runs:
            print("%-12s %8d %8d %8d" % (name, run[PASSED], run[FAILED],
                                         run[SKIPPED] + len(left_out)))
    total = sum((run for _, (run, _, _) in runs), Counter())
    ran = set().union(*(ran for _, (_, ran, _) in runs))
    total[SKIPPED] += len(set().union(*(left_out for _, (_, _, left_out) in runs)) - ran)
    line = "%d passed, %d failed" % (total[PASSED], total[FAILED])
    if total[SKIPPED]:
        line += ", %d skipped" % total[SKIPPED]
    print(line, flush=True)
    return 1 if total[FAILED] or not total[PASSED] else 0


def main(arguments):
    if len(arguments) == 3 and arguments[0] == "run":
        with open(arguments[2], "w", encoding="utf-8") as counts:
            json.dump(count_run(arguments[1]), counts)
        return 0
    if len(arguments) >= 2 and arguments[0] == "total":
        named = [argument.partition("=") for argument in arguments[1:] if argument != "--table"]
        return print_total([(name, read_counts(path)) for name, _, path in named],
                           "--table" in arguments)
    return __doc__


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
