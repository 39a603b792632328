# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A memory control group of the version, 1 or 2, that the machine has.

version 1: a folder in ROOT/memory, with memory.limit_in_bytes
version 2: a folder in ROOT, with memory.max; ROOT/cgroup.controllers must have "memory", and
           ROOT/cgroup.subtree_control must have it or take it

ROOT is where control groups are mounted. If both versions are there (version 2 in ROOT/unified),
the memory controller belongs to version 1.
"""

import os

ROOT = "/sys/fs/cgroup"
MIB = 1 << 20


def _words(path):
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


def choose_version(root=ROOT):
    """1 or 2; 0: there is no memory controller."""
    if os.path.exists(os.path.join(root, "memory", "memory.limit_in_bytes")):
        return 1
    return 2 if "memory" in _words(os.path.join(root, "cgroup.controllers")) else 0


def parse_used_bytes(version, stat):
    """The memory of a group without the page cache, which the kernel reclaims by itself; `stat` is
    the text of memory.stat."""
    values = dict(line.split() for line in stat.splitlines())
    anonymous, mapped = ("rss", "mapped_file") if version == 1 else ("anon", "file_mapped")
    return int(values[anonymous]) + int(values.get(mapped, 0))


def why_not(root=ROOT):
    """The reason why no group can be made here, or None."""
    if choose_version(root) == 0:
        return ("neither version 1 (memory/memory.limit_in_bytes) nor version 2 (\"memory\" in "
                "cgroup.controllers) of memory control groups is in " + root)
    try:
        with MemoryGroup(64, "thriftps-probe-%d" % os.getpid(), root):
            return None
    except OSError as error:
        return "no memory control group: %s" % error


class MemoryGroup:
    """A group, which processes enter by themselves. A context manager."""

    def __init__(self, mib, name, root=ROOT):
        self.version = choose_version(root)
        self.root = root
        self.path = os.path.join(root, "memory", name) if self.version == 1 else os.path.join(
            root, name)
        self.mib = mib

    def _write(self, name, text):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(text)

    def _give_controller_to_children(self):
        path = os.path.join(self.root, "cgroup.subtree_control")
        if "memory" not in _words(path):
            with open(path, "w") as file:
                file.write("+memory")

    def _limit(self):
        self._write("memory.limit_in_bytes" if self.version == 1 else "memory.max",
                    str(self.mib * MIB))
        if self.version == 2 and os.path.exists(os.path.join(self.path, "memory.swap.max")):
            self._write("memory.swap.max", "0")

    def __enter__(self):
        if self.version == 2:
            self._give_controller_to_children()
        os.mkdir(self.path)
        try:
            self._limit()
        except OSError:
            os.rmdir(self.path)
            raise
        return self

    def __exit__(self, *_):
        os.rmdir(self.path)

    def enter(self):
        """Moves the calling process into the group."""
        self._write("cgroup.procs", str(os.getpid()))

    def used_mib(self):
        with open(os.path.join(self.path, "memory.stat")) as stat:
            return parse_used_bytes(self.version, stat.read()) / MIB
