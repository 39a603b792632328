# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Writes the golden data directories of this version of the server, and expected.json:

    ./bazelw run //tests/golden:make_golden -- $PWD/tests/golden/FORMAT

Only for a new format: the directories of a format stay as they are, because later servers must
start on them.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

import workload
from peers import tensor
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import TableSpec
from thriftps.tensor.ttypes import DType, PushId
from workload import GoldenServer

ACCESS = """{"rules": [
  {"principals": ["anonymous"], "rights": ["read", "push", "admin"], "tables": ["*"],
   "tenant": "blue"},
  {"principals": ["token:red"], "rights": ["read", "push", "admin"], "tables": ["red.*"]}]}
"""


def make_token():
    """A token of the tenant, and the line for the file of tokens."""
    printed = subprocess.run([os.environ["THRIFTPS_SERVER"], "--make-token=red," + workload.TENANT],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
    return printed.splitlines()


def begin(server, token):
    """Creates the tables and the model, and drops some of them again."""
    red = server.connect(EmbeddingTable, token)
    red.create_table(TableSpec(workload.TENANT_TABLE, 12, 5, DType.BFLOAT16,
                               optimizer=workload.OPTIMIZERS["adagrad"]))
    red.assign_rows(workload.TENANT_TABLE, workload.ids([3]), tensor([2.5] * 5, [1, 5]), 0,
                    PushId("red", 1))
    for spec in workload.table_specs():
        server.tables.create_table(spec)
    for dim in (4, 2):  # two tables of one name, of which the second stays, with the same push id
        if dim == 2:
            server.tables.drop_table("again")
        server.tables.create_table(TableSpec("again", 10, dim, DType.FLOAT32,
                                             optimizer=workload.OPTIMIZERS["sgd"]))
        server.tables.assign_rows("again", workload.ids([5]), tensor([1.5] * dim, [1, dim]), 0,
                                  PushId("again", 9))
    server.tables.create_table(TableSpec("dropped", 10, 2, DType.FLOAT32))
    server.tables.drop_table("dropped")
    workload.init_model(server, "sgd", "first")
    workload.update_model(server, 0)
    server.trainers[0].reset_state()


def push_four_phases(server, token, optimizer, snapshots):
    """`snapshots`: incremental or not, for the phases after which one is written."""
    begin(server, token)
    workload.init_model(server, optimizer, "second")
    rows = {spec.name: workload.find_rows(server.tables, spec)
            for spec in workload.table_specs()}
    for phase in range(1, 5):
        workload.push_phase(server, rows, phase)
        if phase in snapshots:
            server.durability.snapshot(snapshots[phase])


def check_kept(before, after):
    """A restart must not change the state. The rows of tables without durability may change."""
    kept = {spec.name for spec in workload.table_specs() if workload.is_kept(spec)}
    for key in before:
        if key != "tables":
            assert before[key] == after[key], (key, before[key], after[key])
    for name in kept:
        assert before["tables"][name] == after["tables"][name], name


class Maker:

    def __init__(self, output, folder):
        self.output, self.folder = output, folder
        self.token, line = make_token()
        self.access, self.tokens = self.write("access", ACCESS), self.write("tokens", line + "\n")
        self.expected = {"access": ACCESS, "tokens": line, "token": self.token}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, name):
        return GoldenServer(os.path.join(self.folder, name), self.access, self.tokens)

    def pack(self, name):
        os.remove(os.path.join(self.folder, name, "LOCK"))
        os.remove(os.path.join(self.folder, name, "log", "LOCK"))
        with tarfile.open(os.path.join(self.output, name + ".tar.xz"), "w:xz", preset=9) as archive:
            archive.add(os.path.join(self.folder, name), name, filter=without_owner)

    def describe(self, name, live):
        """The state of a server that starts on a copy, and the state after another phase."""
        copy = os.path.join(self.folder, name + ".copy")
        shutil.copytree(os.path.join(self.folder, name), copy)
        with self.start(name + ".copy") as server:
            started = workload.read_state(server, self.token, 4)
            check_kept(live, started)
            rows = {key: table["row_ids"] for key, table in started["tables"].items()}
            workload.push_phase(server, rows, 5)
            self.expected[name] = {"started": started,
                                   "pushed": workload.read_state(server, self.token, 5)}

    def make(self, name, optimizer, snapshots, is_killed):
        with self.start(name) as server:
            push_four_phases(server, self.token, optimizer, snapshots)
            live = workload.read_state(server, self.token, 4)
            if is_killed:
                server.kill()
        self.pack(name)
        self.describe(name, live)


def without_owner(member):
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main():
    server, output = sys.argv[1:]
    os.environ["THRIFTPS_SERVER"] = os.path.abspath(server)
    os.makedirs(output)
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(os.path.abspath(output), folder)
        maker.make("snapshots", "adam", {1: False, 2: True, 3: True}, is_killed=False)
        maker.make("log", "rowwise", {}, is_killed=True)
        workload.write_json(os.path.join(maker.output, "expected.json"), maker.expected)


if __name__ == "__main__":
    main()
