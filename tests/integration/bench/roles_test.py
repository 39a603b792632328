# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Roles that are started one by one, as in fleets: each process finds its place in flags or
environment."""

import signal

import junit
import launcher
import report
from peers import Client
from thrift.Thrift import TException
from thriftps.node.ttypes import ServiceError
from thriftps.rendezvous import Rendezvous

# The ranks after those of the two trainers.
SERVER, MASTER = 2, 3
LONG = (*launcher.TINY, "--batch-size=4", "--epochs=1000000")


class World(launcher.TestCase):

    def setUp(self):
        super().setUp()
        self.port = launcher.free_port()

    def torchrun(self, rank, *flags, size=4):
        return self.start(*flags, RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                          MASTER_PORT=str(self.port))

    def slurm(self, rank, *flags):
        return self.start("--master-port=%d" % self.port, *flags, SLURM_PROCID=str(rank),
                          SLURM_NTASKS="4")

    def by_flags(self, rank, *flags):
        return self.start("--rank=%d" % rank, "--world-size=4", "--master-port=%d" % self.port,
                          *flags)

    def wait_until_training(self):
        """The first trainer, found as roles find each other, has done a step of a pass and
        continues."""
        trainer = launcher.eventually(self.find_trainer, "trainer0 has found its master")
        launcher.eventually(lambda: launcher.steps_done(trainer) > 0, "trainer0 has done a step")

    def find_trainer(self):
        """The address of the trainer0 that the master has accepted; empty before.

        The application of rank 0 is no source: a second process of that rank may overwrite it.
        """
        try:
            with Client("127.0.0.1:%d" % self.port, Rendezvous) as store:
                card = store.get("world/welcome/0", 0).decode()
                return dict(line.split("=", 1) for line in card.splitlines())["address"]
        except (TException, ServiceError):
            return ""

    def check_well(self, roles):
        """All exit with 0; the master prints the report and the others print nothing."""
        *others, master = [role.finish() for role in roles]
        self.assertEqual((master.code, master.stderr), (0, ""), master)
        for result in others:
            self.assertEqual((result.code, result.stdout, result.stderr), (0, "", ""), result)
        return master.stdout

    def end_of(self, role, code, *words):
        result = role.finish()
        self.assertEqual(result.code, code, result)
        for word in words:
            self.assertIn(word, result.stderr)


class OneByOne(World):

    def test_torchrun_environment(self):
        text = self.check_well([self.torchrun(rank, "--smoke") for rank in range(4)])
        self.assertEqual([title for title, _, _ in report.read_report(text)],
                         ["trainer=0", "trainer=1", "all trainer", "server=2", "all server"])
        self.assertIn(" transport=tcp ", text.splitlines()[0])

    def test_a_master_by_flags_and_the_others_by_environment(self):
        master = self.by_flags(MASTER, "--smoke")
        self.check_well([self.torchrun(rank, "--smoke") for rank in (1, 0, 2)] + [master])

    def test_slurm_environment(self):
        self.check_well([self.slurm(rank, "--smoke") for rank in range(4)])

    def test_every_hook(self):
        expected = report.digests(self.run_to_json("--smoke", "--batch-size=4"))
        for hook in report.HOOK_NAMES:
            with self.subTest(hook=hook):
                self.port = launcher.free_port()
                roles = [self.torchrun(rank, "--smoke", "--batch-size=4", "--ddp-hook=" + hook)
                         for rank in range(4)]
                self.assertIn(expected[0] + ", the same on all", self.check_well(roles))

    def test_over_ipv6(self):
        roles = [self.by_flags(rank, "--smoke", "--master-addr=::1", "--ddp-hook=sparse_rpc_hook")
                 for rank in range(4)]
        self.check_well(roles)

    def test_roles_may_come_before_their_master(self):
        others = [self.torchrun(rank, "--smoke") for rank in (0, 1, 2)]
        launcher.eventually(lambda: all(len(role.living()) == 1 for role in others),
                            "the roles are there")
        self.check_well(others + [self.torchrun(MASTER, "--smoke")])

    def test_over_unix_sockets_on_one_machine(self):
        roles = [self.by_flags(rank, "--smoke", "--transport=unix") for rank in range(4)]
        self.check_well(roles)

    def test_a_world_of_one_is_no_world(self):
        # Every shell in a Slurm job has these variables.
        result = self.start("--smoke", SLURM_PROCID="0", SLURM_NTASKS="1").finish()
        self.assertEqual(result.code, 0)
        self.assertIn("metrics for server=2", result.stdout)


    def test_a_master_of_rank_0(self):
        roles = [self.by_flags(rank, "--smoke", "--master-rank=first") for rank in (1, 2, 3, 0)]
        self.assertIn("(rank 0, the first)", self.check_well(roles))


class Trouble(World):

    def test_all_missing_roles_are_named(self):
        self.end_of(self.torchrun(MASTER, "--smoke", "--startup-timeout=1"), 1,
                    "trainer0, trainer1, server2 have not come up in 1 s",
                    "127.0.0.1 is a loopback address")

    def test_a_rank_that_is_started_twice(self):
        roles = [self.torchrun(rank, *LONG) for rank in range(4)]
        self.wait_until_training()
        for rank, name in ((0, "trainer0"), (SERVER, "server2")):
            self.end_of(self.torchrun(rank, *LONG), 1, "this is %s (pid" % name,
                        "rank %d of that world is taken by %s (pid" % (rank, name))
        self.assertTrue(all(role.process.poll() is None for role in roles))

    def test_a_rank_that_is_started_twice_at_once(self):
        roles = [self.torchrun(rank, *LONG) for rank in (0, 0, 1, SERVER, MASTER)]
        self.wait_until_training()
        launcher.eventually(lambda: any(role.process.poll() == 1 for role in roles[:2]),
                            "one of the two has ended")
        self.assertEqual(sorted(role.process.poll() is None for role in roles),
                         [False, True, True, True, True])

    def test_a_role_of_another_world(self):
        master = self.torchrun(MASTER, "--smoke", "--job=blue")
        self.end_of(self.torchrun(0, "--smoke", "--job=red"), 1, "job red", "job blue",
                    "127.0.0.1:%d" % self.port)
        self.check_well([self.torchrun(rank, "--smoke", "--job=blue") for rank in (0, 1, SERVER)]
                        + [master])

    def test_a_role_with_other_flags(self):
        # The master starts last, when all other roles are reachable.
        others = [self.torchrun(rank, "--smoke", "--epochs=2") for rank in (0, SERVER, MASTER)]
        launcher.eventually(self.find_trainer, "the role has found its master")
        bad = self.torchrun(1, "--smoke", "--reduce=sum")
        for role in (bad, others[2]):
            self.end_of(role, 1, "trainer1 (pid", "master (pid",
                        "--epochs=1, the master has --epochs=2",
                        "--reduce=sum, the master has --reduce=mean")
        for role in others[:2]:
            self.end_of(role, 1)

    def test_a_master_that_never_comes(self):
        for rank, name in ((0, "trainer0"), (SERVER, "server2")):
            with self.subTest(rank=rank):
                self.end_of(self.torchrun(rank, "--smoke", "--startup-timeout=1"), 1,
                            "parameter_server: %s: " % name,
                            "no master at 127.0.0.1:%d within 1 s" % self.port)

    def test_a_role_that_never_comes(self):
        others = [self.torchrun(rank, "--smoke") for rank in (0, SERVER)]
        self.end_of(self.torchrun(MASTER, "--smoke", "--startup-timeout=10"), 1,
                    "trainer1 has not come up in 10 s", "127.0.0.1:%d" % self.port)
        for role in others:  # the master informs the other roles
            self.end_of(role, 1, "the run failed: trainer1 has not come up in 10 s")

    def test_a_master_that_is_killed(self):
        roles = [self.torchrun(rank, *LONG) for rank in range(4)]
        self.wait_until_training()
        roles[MASTER].signal(signal.SIGKILL)
        for role in roles[:MASTER]:
            self.end_of(role, 1, "the master has ended")

    def test_a_trainer_that_is_killed(self):
        roles = [self.torchrun(rank, *LONG) for rank in range(4)]
        self.wait_until_training()
        roles[1].signal(signal.SIGKILL)
        self.end_of(roles[MASTER], 1, "trainer1")
        for role in (roles[0], roles[SERVER]):
            self.end_of(role, 1, "the run failed: ", "trainer1")

    def test_a_role_that_is_interrupted_ends_well(self):
        role = self.torchrun(0, "--smoke")
        master = self.torchrun(MASTER, "--smoke")
        launcher.eventually(self.find_trainer, "the role has found its master")
        role.signal(signal.SIGTERM)
        self.end_of(role, 0)
        master.kill()


if __name__ == "__main__":
    junit.main()
