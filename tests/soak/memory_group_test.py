# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Both versions of control groups, in trees of files that look like those of a kernel."""

import os
import shutil
import tempfile
import unittest

import memory_group

V1_STAT = """cache 1052672
rss 8388608
rss_huge 2097152
shmem 0
mapped_file 4194304
"""
V2_STAT = """anon 8388608
file 1052672
kernel 2000000
file_mapped 4194304
anon_thp 2097152
"""


class MemoryGroupTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)

    def put(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def get(self, *path):
        with open(os.path.join(self.root, *path)) as file:
            return file.read()

    def make(self):
        """A group in the tree. It is not left, as a tree of files cannot remove one with files."""
        return memory_group.MemoryGroup(3, "group", self.root).__enter__()

    def test_version_1(self):
        self.put("memory/memory.limit_in_bytes", "9223372036854771712\n")
        self.put("unified/cgroup.controllers", "\n")
        self.assertEqual(memory_group.choose_version(self.root), 1)
        group = self.make()
        self.assertEqual(self.get("memory", "group", "memory.limit_in_bytes"), str(3 << 20))
        group.enter()
        self.assertEqual(self.get("memory", "group", "cgroup.procs"), str(os.getpid()))
        self.put("memory/group/memory.stat", V1_STAT)
        self.assertEqual(group.used_mib(), 12)

    def test_version_2(self):
        self.put("cgroup.controllers", "cpuset cpu io memory pids\n")
        self.put("cgroup.subtree_control", "cpu memory\n")
        self.assertEqual(memory_group.choose_version(self.root), 2)
        group = self.make()
        self.assertEqual(self.get("group", "memory.max"), str(3 << 20))
        self.assertEqual(self.get("cgroup.subtree_control"), "cpu memory\n")
        group.enter()
        self.assertEqual(self.get("group", "cgroup.procs"), str(os.getpid()))
        self.put("group/memory.stat", V2_STAT)
        self.assertEqual(group.used_mib(), 12)

    def test_version_2_takes_the_controller_for_its_children(self):
        self.put("cgroup.controllers", "cpu memory\n")
        self.put("cgroup.subtree_control", "\n")
        self.make()
        self.assertEqual(self.get("cgroup.subtree_control"), "+memory")

    def test_version_1_comes_first(self):
        self.put("memory/memory.limit_in_bytes", "1\n")
        self.put("cgroup.controllers", "memory\n")
        self.assertEqual(memory_group.choose_version(self.root), 1)

    def test_the_reason_is_named(self):
        self.assertIn("neither version 1", memory_group.why_not(self.root))
        self.put("cgroup.controllers", "cpu memory_more\n")
        self.assertIn("neither version 1", memory_group.why_not(self.root))
        self.put("cgroup.controllers", "memory\n")
        self.put("cgroup.subtree_control/x", "")
        self.assertIn("cgroup.subtree_control", memory_group.why_not(self.root))


class MachineTest(unittest.TestCase):
    def test_a_group_of_this_machine(self):
        reason = memory_group.why_not()
        if reason:
            self.skipTest(reason)
        name = "thriftps-test-%d" % os.getpid()
        with memory_group.MemoryGroup(64, name) as group:
            self.assertEqual(group.used_mib(), 0)
        self.assertFalse(os.path.exists(group.path))


if __name__ == "__main__":
    unittest.main()
