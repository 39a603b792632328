# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Runs unittest and writes the cases as JUnit XML to $XML_OUTPUT_FILE, so that a CI counts each of
them."""

import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class _Result(unittest.TextTestResult):
    """Records every case: [id, seconds, kind or None, text]."""

    def __init__(self, *args):
        super().__init__(*args)
        self.cases = []

    def startTest(self, test):
        super().startTest(test)
        self.cases.append([test.id(), time.monotonic(), None, ""])

    def stopTest(self, test):
        super().stopTest(test)
        self.cases[-1][1] = time.monotonic() - self.cases[-1][1]

    def _mark(self, test, kind, text):
        if not self.cases or self.cases[-1][0] != test.id():  # setUpClass and similar
            self.cases.append([test.id(), 0.0, None, ""])
        self.cases[-1][2:] = [kind, text]

    def addError(self, test, err):
        super().addError(test, err)
        self._mark(test, "error", self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._mark(test, "failure", self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._mark(test, "failure", "%s: %s" % (subtest, err[1]))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._mark(test, "skipped", reason)


def _write(cases, path):
    suite = ElementTree.Element("testsuite", name=os.path.basename(sys.argv[0]),
                                tests=str(len(cases)))
    for name, seconds, kind, text in cases:
        group, _, case_name = name.rpartition(".")
        case = ElementTree.SubElement(
            suite, "testcase", classname=group, name=case_name, time="%.3f" % seconds)
        if kind is not None:
            ElementTree.SubElement(case, kind).text = text
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(verbosity=2, resultclass=_Result).run(suite)
    if "XML_OUTPUT_FILE" in os.environ:
        _write(result.cases, os.environ["XML_OUTPUT_FILE"])
    # A skipped class runs no test but counts as cases. A program without any case is an error.
    sys.exit(0 if result.wasSuccessful() and result.cases else 1)
