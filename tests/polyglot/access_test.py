# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""The rights of principals: every method of the contract with every kind of principal, plain and
encrypted."""

import glob
import json
import os
import re
import signal
import ssl
import subprocess
import tempfile

import junit
from chunks_test import chunk, cut
from peers import ErrorTest, Server, sparse, tensor
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.protocol.TMultiplexedProtocol import TMultiplexedProtocol
from thrift.protocol.THeaderProtocol import THeaderProtocol
from thrift.Thrift import TMessageType, TType
from thrift.transport import TSocket, TSSLSocket, TTransport
from thrift.transport.THeaderTransport import THeaderClientType
from thriftps.chunks import Chunks
from thriftps.durability import Durability
from thriftps.embedding_table import EmbeddingTable
from thriftps.embedding_table.ttypes import BagGradient, BagQuery, Pooling, TableSpec
from thriftps.node import Node
from thriftps.node.ttypes import ErrorCode, ServiceError
from thriftps.session import Session
from thriftps.tensor.ttypes import DType, Optimizer, OptimizerKind, PushId

READ, PUSH, ADMIN = 1, 2, 4
ANY, OPEN = READ | PUSH | ADMIN, 8

# The right that each method requires: new methods must be added.
RIGHTS = {
    "Chunks": dict(
        begin_transfer=ANY, put_chunk=ANY, run_transfer=ANY, get_chunk=ANY, end_transfer=ANY),
    "Durability": dict(
        flush=PUSH, read_log=READ, snapshot=ADMIN, restore=ADMIN, import_table=ADMIN),
    "EmbeddingTable": dict(
        create_table=ADMIN, list_tables=READ, drop_table=ADMIN, lookup_bags=READ, lookup_rows=READ,
        lookup_rows_with_lsns=READ, apply_row_gradients=PUSH, apply_bag_gradients=PUSH,
        assign_rows=PUSH),
    "Memory": dict(
        open_segment=ANY, release_segments=ANY, close_segments=ANY, open_lookup_segment=ANY),
    "Node": dict(
        describe=ANY, get_metrics=READ, clear_metrics=ADMIN, reload_certificates=ADMIN,
        reload_access=ADMIN, set_log_level=ADMIN, forget_push_clients=ADMIN),
    "ParameterServer": dict(
        average_gradient=PUSH, reset_state=ADMIN, init_model=PUSH, get_model=READ,
        update_and_fetch_model=PUSH),
    "Rendezvous": dict(put=PUSH, get=READ, add=PUSH, remove=PUSH),
    "Session": dict(authenticate=OPEN, set_context=OPEN),
    "Trainer": dict(train=ADMIN, status=READ, cancel=ADMIN),
}

PRINCIPALS = {"reader": READ, "pusher": PUSH, "trainer": READ | PUSH, "admin": ADMIN, "owner": ANY,
              "nobody": 0}
REFUSED = (ErrorCode.PERMISSION_DENIED, ErrorCode.UNAUTHENTICATED)
PROGRAM = os.path.abspath(os.environ["THRIFTPS_SERVER"])

SERVICE = re.compile(r"^service\s+(\w+)\s*\{(.*?)^\}", re.DOTALL | re.MULTILINE)
METHOD = re.compile(r"^\s*(?:oneway\s+)?[\w.]+(?:\s*<[^()]*>)?\s+(\w+)\s*\(", re.MULTILINE)


def list_methods():
    """The methods of all services of the IDL."""
    methods = []
    for path in sorted(glob.glob("thrift/*.thrift")):
        with open(path, encoding="utf-8") as file:
            code = re.sub(r"//[^\n]*|/\*.*?\*/", "", file.read(), flags=re.DOTALL)
        for service, body in SERVICE.findall(code):
            methods += [(service, method) for method in METHOD.findall(body)]
    return methods


def names_of_rights(rights):
    names = {READ: "read", PUSH: "push", ADMIN: "admin"}
    return [name for bit, name in names.items() if rights & bit]


def lines_of_manual(begin, end):
    with open("OPERATING.md", encoding="utf-8") as file:
        return re.search(r"<!-- %s.*?-->\n(.*?)<!-- %s -->" % (begin, end), file.read(),
                         re.DOTALL).group(1)


def list_names(wire):
    return sorted(table.name for table in wire.of(EmbeddingTable).list_tables())


def write_call(protocol, name):
    """A call without arguments."""
    protocol.writeMessageBegin(name, TMessageType.CALL, 1)
    protocol.writeFieldStop()
    protocol.writeMessageEnd()


def read_failure(protocol):
    """The failure in a reply; see Wire.call()."""
    found = None
    _, kind, _ = protocol.readMessageBegin()
    exception = kind == TMessageType.EXCEPTION
    protocol.readStructBegin()
    while True:
        _, field_type, number = protocol.readFieldBegin()
        if field_type == TType.STOP:
            break
        if exception and number == 1:
            found = ("exception", protocol.readString())
        elif number == 1 and not exception:
            failure = ServiceError.read(protocol)
            found = (failure.code, failure.message)
        else:
            protocol.skip(field_type)
    protocol.readMessageEnd()
    return found or (None, "")


class Wire:
    """A connection for calls of any method without arguments. A context manager."""

    def __init__(self, address, token=None, tls=None):
        host, _, port = address.rpartition(":")
        socket = (TSocket.TSocket(unix_socket=address[5:]) if address.startswith("unix:")
                  else TSSLSocket.TSSLSocket(host, int(port), ssl_context=tls) if tls
                  else TSocket.TSocket(host, int(port)))
        socket.setTimeout(60000)
        self.transport = TTransport.TFramedTransport(socket)
        self.protocol = TBinaryProtocol(self.transport)
        self.token = token

    def __enter__(self):
        self.transport.open()
        if self.token is not None:
            self.of(Session).authenticate(self.token)
        return self

    def __exit__(self, *_):
        self.transport.close()

    def of(self, service):
        """The generated client of that service."""
        name = service.__name__.rsplit(".", 1)[-1]
        return service.Client(TMultiplexedProtocol(self.protocol, name))

    def call(self, name):
        """(code, message) of the failure; code None: none, "exception": a TApplicationException."""
        write_call(self.protocol, name)
        self.transport.flush()
        return read_failure(self.protocol)

    def call_in_chunks(self, name, transfer):
        """The same for a call through the service Chunks. The failure is that of the transfer if it
        has one."""
        memory = TTransport.TMemoryBuffer()
        write_call(TBinaryProtocol(memory), name)
        chunks, parts = self.of(Chunks), cut(memory.getvalue())
        try:
            chunks.begin_transfer(transfer, len(memory.getvalue()), len(parts))
            for index in range(len(parts)):
                chunks.put_chunk(chunk(transfer, parts, index))
            answer = chunks.run_transfer(transfer)
            chunks.end_transfer(transfer)
        except ServiceError as failure:
            return failure.code, failure.message
        return read_failure(TBinaryProtocol(TTransport.TMemoryBuffer(answer.message)))


def expected(rights, anonymous, service, method):
    if method not in RIGHTS.get(service, {}):
        raise AssertionError("add %s.%s to RIGHTS of access_test.py" % (service, method))
    needed = RIGHTS[service][method]
    if needed == OPEN or rights & needed:
        return None
    return ErrorCode.UNAUTHENTICATED if anonymous else ErrorCode.PERMISSION_DENIED


class AccessTest(ErrorTest):

    def setUp(self):
        self.folder = tempfile.mkdtemp(dir=os.environ.get("TEST_TMPDIR"))
        self.tokens = {}
        self.make_tokens(*PRINCIPALS)
        self.write_rules([
            {"principals": ["token:" + name], "rights": names_of_rights(rights), "tables": ["*"]}
            for name, rights in PRINCIPALS.items() if rights])

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def write_rules(self, rules):
        self.write("rules.json", json.dumps({"rules": rules}, indent=1))

    def make_tokens(self, *names):
        lines = []
        for name in names:
            made = subprocess.run([PROGRAM, "--make-token=" + name], check=True,
                                  stdout=subprocess.PIPE, text=True).stdout
            self.tokens[name], line = made.splitlines()
            lines.append(line)
        self.write("tokens", "\n".join(lines) + "\n")

    def server(self, *flags, **more):
        return Server(*self.files(), *flags, **more)

    def files(self):
        return ["--access-file=" + self.path("rules.json"), "--token-file=" + self.path("tokens")]

    def tls_flags(self, with_clients):
        """A server with certificates from the documented commands."""
        lines = lines_of_manual("lines for the shell: begin", "lines for the shell: end")
        subprocess.run(["/bin/sh", "-ec", lines], cwd=self.folder, check=True,
                       stderr=subprocess.DEVNULL)
        flags = ["--tls=required", "--tls-cert=" + self.path("server.pem"),
                 "--tls-key=" + self.path("server.key")]
        return flags + (["--tls-ca=" + self.path("ca.pem")] if with_clients else [])

    def context(self, with_certificate=False):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if with_certificate:
            context.load_cert_chain(self.path("client.pem"), self.path("client.key"))
        return context

    def wire(self, server, name=None, tls=None):
        return Wire(server.address, self.tokens[name] if name else None, tls)


class Matrix(AccessTest):

    def check_row(self, wire, rights, anonymous=False):
        n_cells = 0
        for service, method in list_methods():
            name = "%s:%s" % (service, method)
            wanted = expected(rights, anonymous, service, method)
            self.check_cell(wire.call(name), wanted, name, rights)
            if service == "ParameterServer":  # the default service: connections need not multiplex
                self.check_cell(wire.call(method), wanted, method, rights)
            n_cells += 1
        self.assertEqual(n_cells, sum(len(methods) for methods in RIGHTS.values()))

    def check_cell(self, failure, wanted, name, rights):
        code, message = failure
        where = "%s with %s: %s" % (name, names_of_rights(rights), message)
        if wanted is None:
            self.assertNotIn(code, REFUSED, where)
            self.assertNotEqual(code, "exception", where)
        else:
            self.assertEqual(code, wanted, where)

    def check_all(self, server, tls=None):
        with self.wire(server, tls=tls) as wire:
            self.check_row(wire, 0, anonymous=True)
        for name, rights in PRINCIPALS.items():
            with self.subTest(name), self.wire(server, name, tls) as wire:
                self.check_row(wire, rights)

    def test_every_cell_plain(self):
        with self.server("--data-dir=" + self.path("data")) as server:
            self.check_all(server)

    def test_every_cell_encrypted(self):
        flags = self.tls_flags(with_clients=False)
        with self.server("--data-dir=" + self.path("data"), *flags) as server:
            self.check_all(server, self.context())

    def test_every_cell_in_chunks(self):
        """A call in a transfer needs the same right as the call itself."""
        methods = [(service, method) for service, method in list_methods()
                   if service not in ("Chunks", "Memory", "Session")]  # methods of a connection
        with self.server("--data-dir=" + self.path("data")) as server:
            for name, rights in PRINCIPALS.items():
                with self.subTest(name), self.wire(server, name) as wire:
                    for i, (service, method) in enumerate(methods):
                        wanted = expected(rights, False, service, method)
                        failure = wire.call_in_chunks("%s:%s" % (service, method),
                                                      "%s%032d" % (name, i))
                        self.check_cell(failure, wanted, "%s:%s" % (service, method), rights)

    def test_one_way_calls_need_the_right(self):
        """A call without a reply has no effect without its right."""
        drop = TTransport.TMemoryBuffer()
        protocol = TMultiplexedProtocol(TBinaryProtocol(drop), "EmbeddingTable")
        EmbeddingTable.Client(protocol).send_drop_table("kept")
        message = bytearray(drop.getvalue())
        message[3] = TMessageType.ONEWAY
        with self.server("--log-file=" + self.path("log")) as server, \
                self.wire(server, "owner") as owner, self.wire(server, "trainer") as trainer:
            owner.of(EmbeddingTable).create_table(spec("kept"))
            trainer.transport.write(message)
            trainer.transport.flush()
            self.assertEqual(list_names(trainer), ["kept"])  # processed after the other call
            owner.transport.write(message)
            owner.transport.flush()
            while list_names(owner):
                pass
        with open(self.path("log"), encoding="utf-8") as log:
            self.assertRegex(log.read(), "access_refused principal=token:trainer .*drop_table")

    def test_rows_of_certificates(self):
        flags = self.tls_flags(with_clients=True)
        with self.server("--data-dir=" + self.path("data"), *flags) as server:
            tls = self.context(with_certificate=True)
            for rights in (0, READ, PUSH, ADMIN):
                rule = {"principals": ["spiffe://fleet/client"], "rights": names_of_rights(rights)}
                self.write_rules([rule] if rights else [])
                server.process.send_signal(signal.SIGHUP)
                with Wire(server.address, tls=tls) as wire:
                    self.await_right(wire, rights)
                    self.check_row(wire, rights)

    def await_right(self, wire, rights):
        """Waits until the rules have been read again, with a harmless call for each right."""
        probes = {READ: "Node:get_metrics", PUSH: "Rendezvous:put", ADMIN: "Trainer:cancel"}
        while any((wire.call(name)[0] in REFUSED) == bool(rights & right)
                  for right, name in probes.items()):
            pass

    def test_rows_of_users(self):
        short = tempfile.TemporaryDirectory()  # the path of a socket has at most 107 bytes
        self.addCleanup(short.cleanup)
        listen = "unix:" + os.path.join(short.name, "socket")
        uid = "uid:%d" % os.getuid()
        for rights in (READ, PUSH | ADMIN):
            self.write_rules([{"principals": [uid], "rights": names_of_rights(rights)}])
            with self.server("--data-dir=" + self.path("data%d" % rights), listen=listen) as server:
                with Wire(server.address) as wire:
                    self.check_row(wire, rights)


def spec(name):
    return TableSpec(name=name, rows=4, dim=2, dtype=DType.FLOAT32,
                     optimizer=Optimizer(OptimizerKind.SGD, 0.1))


def create_when_live(wire, name):
    """Creates a table, after a server that has just started has read its data directory."""
    while True:
        try:
            return wire.of(EmbeddingTable).create_table(spec(name))
        except ServiceError as failure:
            if failure.code != ErrorCode.UNAVAILABLE:
                raise


class Tables(AccessTest):
    """Every way to a table, for a principal that may use only the tables "mine.*"."""

    def setUp(self):
        super().setUp()
        self.write_rules([
            {"principals": ["token:" + name], "rights": names_of_rights(ANY), "tables": [tables]}
            for name, tables in (("owner", "*"), ("trainer", "mine.*"))])

    def calls(self, wire, name):
        """All calls that name a table."""
        tables, durability = wire.of(EmbeddingTable), wire.of(Durability)
        ids = tensor([0], dtype=DType.INT64)
        rows = tensor([1.0, 2.0], [1, 2])
        query = BagQuery(table=name, indices=ids, offsets=ids, pooling=Pooling.SUM)
        gradient = sparse([0], [1.0, 2.0], 4, 2).sparse
        return {
            "create_table": lambda: tables.create_table(spec(name)),
            "lookup_rows": lambda: tables.lookup_rows(name, ids),
            "lookup_rows_with_lsns": lambda: tables.lookup_rows_with_lsns(name, ids),
            "lookup_bags": lambda: tables.lookup_bags([query]),
            "apply_row_gradients": lambda: tables.apply_row_gradients(
                name, gradient, PushId("client", 1)),
            "apply_bag_gradients": lambda: tables.apply_bag_gradients(
                [BagGradient(query, rows)], PushId("client", 2)),
            "assign_rows": lambda: tables.assign_rows(name, ids, rows, 0, PushId("client", 3)),
            "restore": lambda: durability.restore(["nothing"], [spec(name)]),
            "import_table": lambda: durability.import_table(spec(name), ["nothing"], ""),
            "drop_table": lambda: tables.drop_table(name),
        }

    def outcome(self, call):
        try:
            call()
        except ServiceError as failure:
            return failure.code, failure.message
        return None, ""

    def test_every_method_of_tables_is_called(self):
        methods = set(RIGHTS["EmbeddingTable"]) - {"list_tables"}  # it names no table
        self.assertEqual(methods - set(self.calls(Wire("unix:none"), "")), set(),
                         "add these methods to calls() of access_test.py")

    def test_a_forbidden_table_is_as_one_that_is_not_there(self):
        with self.server("--data-dir=" + self.path("data")) as server:
            with self.wire(server, "owner") as wire:
                for name in ("yours.1", "mine.1"):
                    create_when_live(wire, name)
            with self.wire(server, "trainer") as wire:
                there, not_there = self.calls(wire, "yours.1"), self.calls(wire, "yours.2")
                for method in there:
                    code, message = self.outcome(there[method])
                    self.assertEqual(code, ErrorCode.PERMISSION_DENIED, method)
                    code, other = self.outcome(not_there[method])
                    self.assertEqual(code, ErrorCode.PERMISSION_DENIED, method)
                    self.assertEqual(message.replace("yours.1", "yours.2"), other)
                    code, message = self.outcome(self.calls(wire, "mine.1")[method])
                    if method not in ("restore", "import_table"):  # the server has no --import-dir
                        self.assertNotIn(code, REFUSED, message)
                self.assertEqual(list_names(wire), [])
                wire.of(EmbeddingTable).create_table(spec("mine.2"))
                self.assertEqual(list_names(wire), ["mine.2"])
                durability = wire.of(Durability)
                self.assert_fails(ErrorCode.PERMISSION_DENIED,
                                  lambda: durability.read_log(1, 100, 0), "table *")
                self.assert_fails(ErrorCode.PERMISSION_DENIED,
                                  lambda: durability.restore(["nothing"], []), "table *")
                self.assert_fails(ErrorCode.PERMISSION_DENIED,
                                  lambda: wire.of(Node).forget_push_clients("default", 0),
                                  "table *")
            with self.wire(server, "owner") as wire:
                self.assertEqual(list_names(wire), ["mine.2", "yours.1"])
                wire.of(Durability).read_log(1, 100, 0)
                wire.of(Node).forget_push_clients("default", 0)

    def test_totals_are_for_those_who_may_read_all_tables(self):
        with self.server("--data-dir=" + self.path("data")) as server:
            with self.wire(server, "owner") as wire:
                create_when_live(wire, "yours.1")
                info, snapshot = wire.of(Node).describe(), wire.of(Durability).snapshot(False)
                self.assertGreater(info.table_bytes, 0)
                self.assertGreater(info.durability.bytes, 0)
                self.assertEqual(snapshot.tables, 1)
                self.assertGreater(snapshot.bytes, 0)
            with self.wire(server, "trainer") as wire:
                info, snapshot = wire.of(Node).describe(), wire.of(Durability).snapshot(False)
                self.assertEqual((info.table_bytes, info.max_table_bytes), (None, None))
                self.assertEqual((info.durability.bytes, info.durability.end_bytes), (0, None))
                self.assertEqual((snapshot.tables, snapshot.bytes), (0, 0))
                self.assertGreater(snapshot.lsn, 0)

    def transfer(self, wire, name, message):
        chunks, parts = wire.of(Chunks), cut(message)
        chunks.begin_transfer(name, len(message), len(parts))
        for index in range(len(parts)):
            chunks.put_chunk(chunk(name, parts, index))
        return chunks

    def drop(self, table):
        """The message of a call that drops the table."""
        memory = TTransport.TMemoryBuffer()
        protocol = TMultiplexedProtocol(TBinaryProtocol(memory), "EmbeddingTable")
        EmbeddingTable.Client(protocol).send_drop_table(table)
        return memory.getvalue()

    def test_chunks_are_no_way_around(self):
        with self.server() as server, self.wire(server, "owner") as owner, \
                self.wire(server, "trainer") as trainer:
            owner.of(EmbeddingTable).create_table(spec("yours.1"))
            answer = self.transfer(trainer, "t" * 32, self.drop("yours.1")).run_transfer("t" * 32)
            memory = TTransport.TMemoryBuffer(answer.message)
            client = EmbeddingTable.Client(TBinaryProtocol(memory))
            self.assert_fails(ErrorCode.PERMISSION_DENIED, client.recv_drop_table)
            # A principal must not see the transfer of another principal.
            self.transfer(owner, "o" * 32, self.drop("yours.1"))
            chunks = trainer.of(Chunks)
            self.assert_fails(ErrorCode.NOT_FOUND, lambda: chunks.run_transfer("o" * 32))
            chunks.end_transfer("o" * 32)
            self.assert_fails(ErrorCode.ALREADY_EXISTS,
                              lambda: chunks.begin_transfer("o" * 32, 100, 1))
            owner.of(Chunks).run_transfer("o" * 32)
            self.assertEqual(owner.of(EmbeddingTable).list_tables(), [])


class Tokens(AccessTest):

    def test_unknown_methods_look_like_forbidden_ones(self):
        with self.server() as server, self.wire(server, "nobody") as nobody, \
                self.wire(server) as anonymous:
            for wire in (nobody, anonymous):
                code, message = wire.call("EmbeddingTable:drop_table")
                self.assertEqual(wire.call("EmbeddingTable:drop_tables"),
                                 (code, message.replace("drop_table", "drop_tables")))
                self.assertIn(code, REFUSED)
            with self.wire(server, "owner") as owner:
                self.assertEqual(owner.call("EmbeddingTable:drop_tables")[0], "exception")

    def test_they_do_for_callers_with_some_rights(self):
        with self.server() as server:
            for principal in ("reader", "pusher", "trainer", "admin"):
                with self.wire(server, principal) as wire:
                    for service, methods in RIGHTS.items():
                        for method, right in methods.items():
                            if right & (PRINCIPALS[principal] | OPEN):
                                continue
                            code, message = wire.call("%s:%s" % (service, method))
                            self.assertEqual(code, ErrorCode.PERMISSION_DENIED, method)
                            self.assertEqual(wire.call("%s:%s_it" % (service, method)),
                                             (code, message.replace(method, method + "_it", 1)))

    def test_three_wrong_tokens_close_the_connection(self):
        with self.server("--log-file=" + self.path("log")) as server:
            with self.wire(server, "reader") as wire:
                session = wire.of(Session)
                for _ in range(3):
                    self.assert_fails(ErrorCode.UNAUTHENTICATED,
                                      lambda: session.authenticate("tps_wrong"))
                with self.assertRaises((TTransport.TTransportException, OSError)):
                    while True:
                        wire.call("Node:describe")
            with self.wire(server, "reader") as wire:
                self.assertEqual(wire.call("Node:describe")[0], None)
        self.assertRegex(self.read("log"), " tokens_refused peer=127[^ ]* failures=3\n")

    def test_reloads_by_signal_are_logged(self):
        with self.server("--log-file=" + self.path("log"), "--log-level=info") as server:
            server.process.send_signal(signal.SIGHUP)
            self.await_line(" access_reloaded ")
            self.write("rules.json", "no rules")
            server.process.send_signal(signal.SIGHUP)
            self.await_line(" access_unchanged reason=")
        self.assertIn(self.path("rules.json"), self.await_line(" access_unchanged reason="))

    def await_line(self, text):
        while True:
            for line in self.read("log").splitlines():
                if text in line:
                    return line

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def test_headers_carry_tokens(self):
        with self.server() as server:
            host, _, port = server.address.rpartition(":")
            socket = TSocket.TSocket(host, int(port))
            socket.setTimeout(60000)
            protocol = THeaderProtocol(socket, [THeaderClientType.HEADERS])
            tables = EmbeddingTable.Client(TMultiplexedProtocol(protocol, "EmbeddingTable"))
            protocol.trans.open()

            def call_with(value):
                protocol.trans.set_header(b"authorization", value)
                return tables.list_tables()

            self.assert_fails(ErrorCode.UNAUTHENTICATED, tables.list_tables)
            self.assert_fails(ErrorCode.PERMISSION_DENIED,
                              lambda: call_with(b"Bearer " + self.tokens["nobody"].encode()))
            for name in ("reader", "reader", "owner"):
                self.assertEqual(call_with(b"Bearer " + self.tokens[name].encode()), [])
            self.assert_fails(ErrorCode.UNAUTHENTICATED, lambda: call_with(b"Basic dTpw"))
            for _ in range(3):
                self.assert_fails(ErrorCode.UNAUTHENTICATED, lambda: call_with(b"Bearer tps_wrong"))
            with self.assertRaises((TTransport.TTransportException, OSError, EOFError)):
                call_with(b"Bearer " + self.tokens["owner"].encode())
            protocol.trans.close()

    def test_revoked_tokens_end_with_the_next_call(self):
        with self.server() as server, self.wire(server, "reader") as reader, \
                self.wire(server, "admin") as admin:
            self.assertEqual(reader.call("EmbeddingTable:list_tables")[0], None)
            with open(self.path("tokens"), encoding="utf-8") as file:
                lines = [line for line in file if not line.startswith("reader ")]
            self.write("tokens", "".join(lines))
            admin.of(Node).reload_access()
            self.assertEqual(reader.call("EmbeddingTable:list_tables")[0],
                             ErrorCode.UNAUTHENTICATED)
            self.write("rules.json", '{ "rules": [\n { "principals": 7 } ] }')
            failure = self.assert_fails(ErrorCode.INVALID_ARGUMENT, admin.of(Node).reload_access)
            self.assertEqual(failure.message, self.path("rules.json")
                             + ':2: "principals" must be a non-empty array of strings')
            self.assertEqual(admin.call("Node:clear_metrics")[0], None)  # the old rules still apply

    def test_without_tokens_none_is_taken(self):
        with Server() as server, Wire(server.address) as wire:
            session = wire.of(Session)
            self.assert_fails(ErrorCode.UNAVAILABLE, lambda: session.authenticate("tps_any"))
            self.assertEqual(wire.call("EmbeddingTable:list_tables")[0], None)

    def test_no_token_is_ever_written(self):
        """The token must not appear in the log at its most verbose level, in errors, metrics or
        descriptions."""
        with open(self.path("log"), "w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                [PROGRAM, "--listen=127.0.0.1:0", "--log-level=debug", *self.files()],
                stdout=subprocess.PIPE, stderr=log, text=True)
            address = process.stdout.readline()[len("listening on "):].strip()
            texts = []
            for name in PRINCIPALS:
                with Wire(address, self.tokens[name]) as wire:
                    for call in ("Node:get_metrics", "Node:describe", "EmbeddingTable:drop_table",
                                 "Trainer:cancel"):
                        texts.append(str(wire.call(call)))
                    wrong = self.tokens[name][:-1] + "_"
                    with self.assertRaises(ServiceError) as raised:
                        wire.of(Session).authenticate(wrong)
                    texts.append(raised.exception.message)
            process.send_signal(signal.SIGHUP)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(60), 0)
            process.stdout.close()
            log.seek(0)
            text = log.read()
        self.assertIn("access_refused principal=token:nobody", text)
        self.assertRegex(text, "request_failed [^\n]* principal=token:nobody code=")
        self.assertRegex(text, "admin_call principal=token:admin [^\n]*outcome=OK")
        for token in self.tokens.values():
            self.assertNotIn(token[:-1], text + "".join(texts))


class Exposure(AccessTest):

    def refusal(self, *flags):
        done = subprocess.run([PROGRAM, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def test_other_hosts_need_rules(self):
        for listen in ("0.0.0.0:0", "[::]:0"):
            message = self.refusal("--listen=127.0.0.1:0", "--listen=" + listen)
            for word in (listen, "--access-file", "--insecure"):
                self.assertIn(word, message)
        with Server("--insecure", listen="0.0.0.0:0"):
            pass
        for listen in ("localhost:0", "127.1.2.3:0"):
            with Server(listen=listen):
                pass

    def test_tokens_must_not_travel_in_the_clear(self):
        self.assertIn("--tls=required", self.refusal("--listen=0.0.0.0:0", *self.files()))
        with self.server("--insecure", listen="0.0.0.0:0"):
            pass
        with Server(self.files()[0], listen="0.0.0.0:0"):  # no rule has a token
            pass


if __name__ == "__main__":
    junit.main()
