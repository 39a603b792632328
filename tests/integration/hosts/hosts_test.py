# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A world of two trainers, a server and a master on four hosts: its start, refusals at the start,
and its end."""

import time

import hosts
import junit
import launcher

SERVER, MASTER = 2, 3
LONG = (*launcher.TINY, "--batch-size=4", "--epochs=1000000")


class World(hosts.TestCase):
    """Rank N runs on host N + 1, so that the master is on host4."""

    def role(self, rank, *flags, address="10.99.0.4", **more):
        return self.start_on(rank + 1, "--rank=%d" % rank, "--master-addr=" + address, *flags,
                             **more)

    def world(self, *flags, **more):
        return [self.role(rank, *flags, **more) for rank in range(4)]

    def check_well(self, roles):
        results = [role.finish() for role in roles]
        for result in results:
            self.assertEqual((result.code, result.stderr), (0, ""), results)
        self.assertIn("metrics for server=2", results[MASTER].stdout)
        return results[MASTER].stdout

    def check_end(self, role, *words, code=1):
        result = role.finish()
        self.assertEqual(result.code, code, result)
        for word in words:
            self.assertIn(word, result.stderr)
        return result

    def wait_until_training(self, master):
        """The warm-up is over, or its steps are shown."""
        launcher.eventually(lambda: master.progress() or master.process.poll() is not None,
                            "it trains")
        self.assertIsNone(master.process.poll(),
                          master.finish() if master.process.poll() is not None else None)


class Beginning(World):

    def test_it_trains(self):
        for hook in ("rpc_hook", "allreduce_hook"):
            with self.subTest(hook=hook):
                text = self.check_well(self.world("--smoke", "--ddp-hook=" + hook))
                self.assertRegex(text, r"world: job [0-9a-f]{16}, master at 10\.99\.0\.4:29500 "
                                       r"\(rank 3, the last\)")

    def test_an_ipv6_address_in_brackets(self):
        for address in ("[fd99::4]", "fd99::4"):
            for hook in ("rpc_hook", "allreduce_hook"):
                with self.subTest(address=address, hook=hook):
                    text = self.check_well(self.world("--smoke", "--ddp-hook=" + hook,
                                                      address=address))
                    self.assertIn("master at [fd99::4]:29500", text)

    def test_names(self):
        self.check_well(self.world("--smoke", address="host4"))

    def test_a_master_of_rank_0(self):
        # With torchrun, MASTER_ADDR is the host of rank 0.
        roles = [self.start_on(rank + 1, "--smoke", RANK=str(rank), WORLD_SIZE="4",
                               MASTER_ADDR="10.99.0.1", MASTER_PORT="29500",
                               TORCHELASTIC_RUN_ID="none") for rank in range(4)]
        results = [role.finish() for role in roles]
        for result in results:
            self.assertEqual((result.code, result.stderr), (0, ""), results)
        self.assertIn("master at 10.99.0.1:29500 (rank 0, the first)", results[0].stdout)
        self.assertIn("metrics for server=2", results[0].stdout)

    def test_a_master_that_is_on_another_host_than_its_address(self):
        self.check_end(self.role(MASTER, "--smoke", address="10.99.0.1"),
                       "10.99.0.1 is not this host (10.99.0.4", "rank 3, the last, is the master",
                       "--master-rank=first")

    def test_ports_and_addresses_of_a_firewall(self):
        for hook in ("rpc_hook", "allreduce_hook"):
            with self.subTest(hook=hook):
                roles = [self.role(rank, "--ddp-hook=" + hook, "--port-range=31000-31009",
                                   "--bind=" + ("0.0.0.0" if rank == MASTER
                                                else "10.99.0.%d" % (rank + 1)), *LONG)
                         for rank in range(4)]
                self.wait_until_training(roles[MASTER])
                for rank, role in enumerate(roles):
                    address = "0.0.0.0" if rank == MASTER else "10.99.0.%d" % (rank + 1)
                    for host, port in self.listening(role):
                        self.assertEqual(host, address)
                        self.assertIn(port, [29500] if rank == MASTER else range(31000, 31010))
                for role in roles:
                    role.kill()

    def test_a_port_range_that_is_too_small(self):
        taken = "--port-range=31000-31000"
        roles = [self.start_on(1, "--rank=%d" % rank, "--master-addr=10.99.0.1", "--smoke",
                               "--startup-timeout=5", taken)
                 for rank in range(2)]
        codes = []
        for role in roles:
            result = role.finish()
            codes.append("--port-range=31000-31000: no port is left" in result.stderr)
            self.assertEqual(result.code, 1)
        self.assertEqual(sorted(codes), [False, True])

    def listening(self, role):
        """(address, port) of every TCP socket that listens in the role's network namespace."""
        found = []
        for pid in role.living():
            for line in launcher._read("/proc/%d/net/tcp" % pid).decode().splitlines()[1:]:
                local, state = line.split()[1], line.split()[3]
                if state == "0A":
                    address, port = local.split(":")
                    octets = [str(int(address[i:i + 2], 16)) for i in (6, 4, 2, 0)]
                    found.append((".".join(octets), int(port, 16)))
        self.assertTrue(found)
        return sorted(set(found))


class Refusals(World):

    def test_flags_that_differ(self):
        for flag, words in (("--reduce=sum", "--reduce=sum, the master has --reduce=mean"),
                            ("--learning-rate=0.5",
                             "--learning-rate=0.5, the master has --learning-rate=0.0001"),
                            ("--no-shared-memory",
                             "--no-shared-memory=true, the master has --no-shared-memory=false")):
            with self.subTest(flag=flag):
                roles = [self.role(rank, "--smoke", "--startup-timeout=10",
                                   *([flag] if rank == SERVER else []))
                         for rank in range(4)]
                for rank in (SERVER, MASTER):
                    self.check_end(roles[rank], "server2 (pid", "on host3)", "master (pid",
                                   "on host4)", words)
                for role in roles[:SERVER]:  # late roles find no master
                    self.check_end(role)

    def test_the_roles_of_another_run(self):
        first = self.world(*LONG)
        self.wait_until_training(first[MASTER])
        for rank, name in ((0, "trainer0"), (1, "trainer1"), (SERVER, "server2")):
            second = self.role(rank, *LONG)
            self.check_end(second, "this is %s (pid" % name,
                           "rank %d of that world is taken by %s (pid" % (rank, name),
                           "on host%d) at 10.99.0.%d:" % (rank + 1, rank + 1), "--job")
        self.check_end(self.role(MASTER, *LONG), "10.99.0.4:29500", "in use")
        for role in first:
            self.assertIsNone(role.process.poll(), "the first world goes on")

    def test_a_role_of_another_job(self):
        master = self.role(MASTER, "--smoke", "--job=blue")
        self.check_end(self.role(0, "--smoke", "--job=red"), "job red", "10.99.0.4:29500",
                       "master (pid", "job blue")
        self.check_well([self.role(0, "--smoke", "--job=blue"), self.role(1, "--smoke"),
                         self.role(SERVER, "--smoke"), master])

    def test_a_host_whose_own_name_is_loopback(self):
        # The hosts file is like that of Debian's installer.
        roles = [self.role(rank, "--smoke", "--startup-timeout=5", address="host4",
                           names={"host4": "127.0.1.1"} if rank == MASTER else {})
                 for rank in range(4)]
        self.check_end(roles[MASTER],
                       "parameter_server: master: host4 is 127.0.1.1 here (see /etc/hosts)",
                       "--master-addr=ADDRESS", "(10.99.0.4, fd99::4)",
                       "trainer0, trainer1, server2 have not come up")
        for role in roles[:MASTER]:
            self.check_end(role, "no master at host4:29500 (10.99.0.4) within 5 s",
                           "Connection refused", "loopback")

    def test_a_role_that_serves_on_loopback(self):
        # On the master's own host, its name is a loopback address.
        here = {"host4": "127.0.1.1"}
        master = self.start_on(4, "--smoke", "--rank=3", "--master-addr=host4", "--bind=0.0.0.0",
                               names=here)
        server = self.start_on(4, "--smoke", "--rank=2", "--master-addr=host4", names=here)
        roles = [self.role(rank, "--smoke", address="host4") for rank in (0, 1)]
        for role in (master, server, *roles):
            self.check_end(role, "server2 on host4 serves at 127.0.",
                           "which trainer1 on host2 cannot reach", "host4 is loopback there",
                           "--bind=ADDRESS")


class Ends(World):

    def test_a_server_that_is_lost_is_named(self):
        roles = self.world(*LONG)
        self.wait_until_training(roles[MASTER])
        self.kill(roles[SERVER])
        result = self.check_end(roles[MASTER], "server2 at 10.99.0.3:")
        for role in roles[:SERVER]:
            self.check_end(role, "the run failed: ", "server2 at 10.99.0.3:")
        self.assertEqual(result.stderr.count("\n"), 1, result)

    def test_roles_that_are_cut_off(self):
        roles = self.world("--rpc-timeout=10", *LONG)
        self.wait_until_training(roles[MASTER])
        start = time.monotonic()
        self.unplug(2)
        self.check_end(roles[1],
                       "trainer1: the master at 10.99.0.4:29500 has not replied for 15 s")
        self.check_end(roles[MASTER], "trainer")
        for role in (roles[0], roles[SERVER]):
            self.check_end(role, "the run failed: ", "trainer")
        self.assertLess(time.monotonic() - start, 90)  # not the three minutes of TCP

    def test_a_master_that_is_cut_off(self):
        roles = self.world(*LONG)
        self.wait_until_training(roles[MASTER])
        start = time.monotonic()
        self.unplug(4)
        for role in roles[:MASTER]:
            self.check_end(role, "the master at 10.99.0.4:29500 has not replied for 15 s")
        self.assertLess(time.monotonic() - start, 90)


if __name__ == "__main__":
    junit.main()
