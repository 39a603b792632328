# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The fake server of the console tests replies as the real one: its JSON has the shapes of
plugin/http/API.md."""

import unittest

import junit
import shapes
import stand_in
import stand_in_data

PATHS = ("/connections", "/flags", "/rounds", "/slow", "/status", "/tables", "/version")


class Shapes(unittest.TestCase):

    def setUp(self):
        self.server = stand_in.StandIn("")
        self.addCleanup(self.server.server_close)

    def check(self, value, name):
        self.assertIsNone(shapes.find_difference(value, shapes.SHAPES[name]), name)

    def test_of_a_busy_server(self):
        for path in PATHS:
            self.check(self.server.answer(path, {}), path)

    def test_of_the_last_page(self):
        for path in ("/connections", "/tables"):
            self.check(self.server.answer(path, {"after": ["900"]}), path)

    def test_of_an_idle_server(self):
        self.server.is_empty = True
        for path in PATHS:
            self.check(self.server.answer(path, {}), path)

    def test_of_events(self):
        self.check(stand_in_data.HELLO, "hello")
        for number in range(100):
            self.check(stand_in_data.sample(number, 3600 + number), "sample")


if __name__ == "__main__":
    junit.main()
