# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""thriftps.torch: remote embedding bags train like local ones; DistributedDataParallel averages on
servers."""

import copy
import gc
import io
import os
import re
import tempfile
import unittest
import warnings

import unpacked_wheel  # noqa: F401, makes thriftps importable
import junit
from server_process import WAIT_S, Server

try:
    import torch
    import torch.distributed
    import torch.multiprocessing
except ImportError:
    torch = None

import thriftps

if torch is not None:
    import thriftps.torch as tps

# The folder that must contain PyTorch. If it is not set, any PyTorch is used, and a missing one
# skips the tests.
FOLDER = os.environ.get("PYTORCH_FOLDER")
if FOLDER is not None and (torch is None or not torch.__file__.startswith(FOLDER + "/")):
    raise RuntimeError("%s is not a PyTorch in %s" % (torch, FOLDER))

ROWS, DIM, BAGS, IDS = 200, 8, 16, 5
STEPS = int(os.environ.get("TORCH_TEST_STEPS", "1000"))
LR = 0.05


def unix(folder, name="s"):
    return "unix:" + os.path.join(folder, name)


def make_local(table, mode):
    """A local module with the rows of the table."""
    local = torch.nn.EmbeddingBag(ROWS, DIM, mode=mode, sparse=mode != "max")
    with torch.no_grad():
        local.weight.copy_(torch.from_numpy(table.lookup(range(ROWS)).copy()))
    return local


def make_batches(n, seed=1):
    generator = torch.Generator().manual_seed(seed)
    batches = [torch.randint(ROWS, (BAGS, IDS), generator=generator) for _ in range(n)]
    return [(ids, (ids[:, 0] % 2).float()) for ids in batches]


@unittest.skipIf(torch is None, "PyTorch is not installed (Debian: python3-torch)")
class Bags(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.servers = [Server(listen=unix(folder.name, name)) for name in "ab"]
        for server in cls.servers:
            cls.addClassCleanup(server.__exit__)
        cls.addresses = [server.address for server in cls.servers]
        cls.tables = tps.connect(*cls.addresses)
        cls.addClassCleanup(cls.tables.close)

    def make(self, name, mode="sum", optimizer=thriftps.Adagrad(lr=LR), **more):
        return tps.RemoteEmbeddingBag(
            self.tables,
            name,
            ROWS,
            DIM,
            mode=mode,
            optimizer=optimizer,
            initializer=tps.Normal(seed=3),
            **more
        )

    def train(self, bags, optimizer, batches, prefetches=False):
        """The losses of a classifier on the bags."""
        torch.manual_seed(2)
        dense = torch.nn.Linear(DIM, 1)
        optimizers = [torch.optim.SGD(dense.parameters(), lr=LR)] + optimizer
        losses = []
        for i, (ids, labels) in enumerate(batches):
            if prefetches and i + 1 < len(batches) and i % 3:
                bags.prefetch(batches[i + 1][0])
            for each in optimizers:
                each.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                dense(bags(ids)).squeeze(1), labels
            )
            loss.backward()
            for each in optimizers:
                each.step()
            losses.append(loss.item())
        return torch.tensor(losses)

    def check_curve(self, mode, n_steps, prefetches):
        remote = self.make("curve/%s/%s" % (mode, prefetches), mode)
        local = make_local(remote.table, mode)
        batches = make_batches(n_steps)
        expected = self.train(local, [torch.optim.Adagrad(local.parameters(), lr=LR)], batches)
        found = self.train(remote, [], batches, prefetches)
        difference = (found - expected).abs().max().item()
        print("%s: %d steps, losses differ by %.2g at most" % (mode, n_steps, difference))
        self.assertLess(difference, 1e-6)
        return found

    def test_a_loss_curve_is_that_of_local_training(self):
        losses = self.check_curve("sum", STEPS, prefetches=False)
        self.assertLess(losses[-50:].mean(), losses[:50].mean())

    def test_prefetched_batches_give_the_same_curve(self):
        self.check_curve("mean", STEPS // 4, prefetches=True)

    def test_max(self):
        self.check_curve("max", STEPS // 10, prefetches=False)
        self.check_curve("max", STEPS // 10, prefetches=True)

    def make_max(self, values, **more):
        """A module whose table has these rows."""
        remote = tps.RemoteEmbeddingBag(
            self.tables,
            "max/%d" % len(self.tables.list()),
            ROWS,
            DIM,
            mode="max",
            optimizer=tps.SGD(lr=1.0),
            initializer=tps.Zeros(),
            **more
        )
        remote.table.push(range(ROWS), -values.numpy())
        return remote

    def test_maxima_and_their_gradients_are_those_of_pytorch(self):
        """Small integers give many equal values; bags are empty or have repeated ids."""
        generator = torch.Generator().manual_seed(5)
        values = torch.randint(-1, 3, (ROWS, DIM), generator=generator).float()
        ids = torch.randint(20, (40,), generator=generator)
        offsets = torch.tensor([0, 0, 7, 8, 20, 20, 39, 40])
        local = torch.nn.EmbeddingBag.from_pretrained(values.clone(), freeze=False, mode="max")
        upstream = torch.randint(-8, 9, (len(offsets), DIM), generator=generator).float()
        expected = local(ids, offsets)
        expected.backward(upstream)
        for arguments in (
            dict(shard="whole", server=1),
            dict(shard="range"),
            dict(shard="hash"),
            dict(shard="hash", dtype="float16"),
        ):
            remote = self.make_max(values, **arguments)
            for prefetches in (False, True):
                if prefetches:
                    remote.prefetch(ids)
                pooled = remote(ids, offsets)
                self.assertTrue(torch.equal(pooled, expected))
                if not prefetches:
                    continue
                pooled.backward(upstream)
                tps.step()
                rows = torch.from_numpy(remote.table.lookup(range(ROWS)).astype("f4"))
                self.assertTrue(torch.equal(rows, values - local.weight.grad), arguments)

    def test_only_the_rows_that_hold_maxima_change(self):
        """Weight decay would change any other row of the gradient."""
        values = torch.ones(ROWS, DIM)
        values[3] = 2
        values[4, 0] = 3
        remote = self.make_max(values)
        decaying = tps.RemoteEmbeddingBag(
            self.tables,
            "max/decaying",
            ROWS,
            DIM,
            mode="max",
            optimizer=tps.SGD(lr=1.0, weight_decay=0.5),
            initializer=tps.Uniform(1.0, 1.0),
        )
        for bags in (remote, decaying):
            bags(torch.tensor([[5, 3, 4, 3]])).sum().backward()
        tps.step()
        self.assertEqual(remote.table.lookup([3, 4, 5])[:, 0].tolist(), [2.0, 2.0, 1.0])
        self.assertEqual(remote.table.lookup([3, 4, 5])[:, 1].tolist(), [1.0, 1.0, 1.0])
        # All rows are equal, so the first one holds the maxima.
        self.assertEqual(decaying.table.lookup([3, 4, 5])[:, 0].tolist(), [1.0, 1.0, -0.5])

    def test_maxima_are_those_of_the_forward_pass(self):
        values = torch.zeros(ROWS, DIM)
        values[1] = 1
        remote = self.make_max(values)
        pooled = remote(torch.tensor([[2, 1]]))
        remote.table.push([2], [[-9.0] * DIM])  # another program; row 2 is the largest now
        pooled.sum().backward()
        tps.step()
        self.assertEqual(remote.table.lookup([1, 2])[:, 0].tolist(), [0.0, 9.0])

    def test_nan_is_the_maximum(self):
        nan, inf = float("nan"), float("inf")
        values = torch.zeros(ROWS, DIM)
        values[0:3, 0] = torch.tensor([inf, nan, 1.0])
        values[0:3, 1] = torch.tensor([-inf, -inf, -inf])
        values[0:3, 2] = torch.tensor([nan, inf, nan])
        remote = self.make_max(values)
        ids = torch.tensor([[0, 1, 2]])
        for prefetches in (False, True):
            if prefetches:
                remote.prefetch(ids)
            found = remote(ids)[0, :3].detach()
            torch.testing.assert_close(found, values[:3, :3].amax(0), equal_nan=True)
            torch.testing.assert_close(
                torch.from_numpy(remote.table.lookup_bags([0, 1, 2], [0], "max")[0, :3].copy()),
                found,
                equal_nan=True,
            )
        pooled, maxima = remote.table.lookup_maxima([0, 1, 2], [0])
        self.assertEqual(maxima[0, :3].tolist(), [1, 0, 0])

    def test_outputs_and_gradients_of_weights(self):
        remote = self.make("weights")
        local = make_local(remote.table, "sum")
        ids, offsets = torch.tensor([1, 2, 3, 4, 1], dtype=torch.int32), torch.tensor([0, 2, 2])
        results = []
        for bags in (remote, local):
            weights = torch.tensor([0.5, 2.0, 1.0, -1.0, 3.0], requires_grad=True)
            pooled = bags(ids.to(offsets.dtype), offsets, per_sample_weights=weights)
            pooled.square().sum().backward()
            results.append((pooled.detach(), weights.grad))
        for found, expected in zip(*results):
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        for arguments in ((ids,), (ids.reshape(5, 1), offsets), (ids.float(), offsets)):
            with self.assertRaises((thriftps.InvalidArgument, TypeError)):
                remote(*arguments)
        with self.assertRaises(thriftps.InvalidArgument):
            self.make("means", "mean")(ids, offsets, per_sample_weights=torch.ones(5))

    def test_modules_of_one_backward_pass_are_one_step(self):
        """Adagrad distinguishes one step with a sum from two steps."""
        remote = self.make("shared", optimizer=tps.Adagrad(lr=1.0))
        other = tps.RemoteEmbeddingBag(self.tables, "shared", mode="mean")
        local = make_local(remote.table, "sum")
        optimizer = torch.optim.Adagrad(local.parameters(), lr=1.0)
        ids = torch.tensor([[1, 2], [2, 3]])
        (remote(ids).sum() + 2 * remote(ids).sum() + other(ids).sum()).backward()
        (local(ids).sum() * 3.5).backward()
        optimizer.step()
        tps.step()
        rows = torch.from_numpy(remote.table.lookup(range(5)).copy())
        torch.testing.assert_close(rows, local.weight[:5].detach(), rtol=0, atol=1e-5)

    def test_a_backward_pass_that_fails_pushes_nothing(self):
        remote = self.make("fails", optimizer=tps.SGD(lr=1.0))
        ids = torch.tensor([[1]])
        before = remote.table.lookup([1]).copy()
        leaf = torch.ones(1, DIM, requires_grad=True)

        def fail(_):
            raise RuntimeError("planned")

        leaf.register_hook(fail)
        bags = remote(ids)
        with self.assertRaisesRegex(RuntimeError, "planned"):
            torch.autograd.backward([bags.sum(), leaf.sum() * 1.0])
        gc.collect()
        self.assertEqual(remote.table.lookup([1]).tolist(), before.tolist())
        remote(ids).sum().backward()
        tps.step()
        self.assertEqual(remote.table.lookup([1]).tolist(), (before - 1).tolist())
        with torch.no_grad():
            self.assertFalse(remote(ids).requires_grad)

    def test_errors_of_pushes_are_raised_by_the_next_forward(self):
        remote = self.make("dropped")
        pooled = remote(torch.tensor([[1]]))
        self.tables.drop("dropped")
        pooled.sum().backward()
        with self.assertRaises(thriftps.NotFound):
            remote(torch.tensor([[1]]))

    def test_outputs_may_be_changed_in_place(self):
        remote = tps.RemoteEmbeddingBag(self.tables, "large", ROWS, 1024, mode="sum")
        self.assertEqual(remote(torch.zeros(100, 1, dtype=torch.int64)).mul_(0).abs().sum(), 0)

    def test_a_copy_of_a_module_has_the_same_table(self):
        remote = self.make("copied", optimizer=thriftps.SGD(lr=1.0))
        copied = copy.deepcopy(torch.nn.Sequential(remote))
        ids = torch.tensor([[1, 2]])
        copied(ids).sum().backward()
        self.assertEqual(remote(ids).tolist(), copied(ids).tolist())

    def test_a_new_table_needs_both_sizes(self):
        with self.assertRaisesRegex(thriftps.InvalidArgument, "table half: embedding_dim is None"):
            tps.RemoteEmbeddingBag(self.tables, "half", ROWS)

    def test_state_dict_names_the_table(self):
        remote = self.make("state")
        self.assertIn("'sum'", repr(torch.nn.Sequential(remote)))
        saved = io.BytesIO()
        torch.save(torch.nn.Sequential(remote).state_dict(), saved)
        saved.seek(0)
        state = torch.load(saved)
        self.assertEqual(
            state["0._extra_state"], {"table": "state", "rows": ROWS, "dim": DIM, "lsns": {}}
        )
        torch.nn.Sequential(remote).load_state_dict(state)
        with self.assertRaises(thriftps.InvalidArgument):
            torch.nn.Sequential(self.make("another")).load_state_dict(state)


@unittest.skipIf(torch is None, "PyTorch is not installed (Debian: python3-torch)")
class Durable(unittest.TestCase):

    def test_the_program_of_the_readme(self):
        with tempfile.TemporaryDirectory() as folder, Server(listen=unix(folder)) as server:
            with open(os.environ["README"], encoding="utf-8") as readme:
                program = re.findall(r"^```python\n(.*?)^```$", readme.read(), re.M | re.S)[1]
            names = {}
            exec(program.replace("unix:/run/ps.sock", server.address), names)
            self.assertIn("items", {each["name"] for each in names["tables"].list()})
            names["tables"].close()

    def test_a_server_is_killed_in_the_middle(self):
        with tempfile.TemporaryDirectory() as folder:
            address = unix(folder)
            flags = ["--data-dir=" + os.path.join(folder, "data")]
            process = Server(*flags, listen=address)
            with tps.connect(address) as tables:
                remote = tps.RemoteEmbeddingBag(
                    tables,
                    "kept",
                    ROWS,
                    DIM,
                    mode="sum",
                    durability="commit",
                    optimizer=tps.SGD(lr=1.0),
                    initializer=tps.Zeros(),
                )
                ids = torch.tensor([[1, 2]])
                for i in range(20):
                    if i == 10:
                        process.process.kill()
                        process.wait()
                        process = Server(*flags, listen=address)
                    remote(ids).sum().backward()
                state = remote.get_extra_state()
                self.assertEqual(list(state["lsns"]), [address])
                self.assertEqual(remote.table.lookup([1, 2]).tolist(), [[-20.0] * DIM] * 2)
                remote.set_extra_state(state)
                state["lsns"][address] += 1
                with self.assertWarnsRegex(UserWarning, "restore a newer snapshot"):
                    remote.set_extra_state(state)
            process.__exit__()


def train_ddp(rank, world, address, folder, job, uses_servers):
    """One rank of a job; it writes its parameters."""
    torch.distributed.init_process_group(
        "gloo", init_method="file://%s/meet-%s" % (folder, job), rank=rank, world_size=world
    )
    torch.manual_seed(0)
    # Makes buckets of about 1 KiB, which are renumbered after the first step.
    model = torch.nn.Sequential(*(torch.nn.Linear(16, 16) for _ in range(4)))
    ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.002)
    if uses_servers:
        ddp.register_comm_hook(tps.Averaging(address), tps.averaging_hook)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    for step in range(5):
        optimizer.zero_grad()
        torch.manual_seed(100 * rank + step)
        ddp(torch.randn(4, 16)).square().sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join(folder, "%s-%d" % (job, rank)))
    torch.distributed.destroy_process_group()


@unittest.skipIf(torch is None, "PyTorch is not installed (Debian: python3-torch)")
class Ddp(unittest.TestCase):

    def test_jobs_after_each_other_on_the_same_servers(self):
        with tempfile.TemporaryDirectory() as folder, Server(
            "--ntrainer=2", listen=unix(folder, "a")
        ) as a, Server("--ntrainer=2") as b:
            for job, uses_servers in (("expected", False), ("first", True), ("second", True)):
                torch.multiprocessing.spawn(
                    train_ddp, (2, [a.address, b.address], folder, job, uses_servers), 2
                )
            expected = torch.load(os.path.join(folder, "expected-0"))
            for job in ("first-0", "first-1", "second-0", "second-1"):
                for name, value in torch.load(os.path.join(folder, job)).items():
                    torch.testing.assert_close(value, expected[name], rtol=0, atol=1e-6)
            with thriftps.Server(a.address) as server:
                self.assertEqual(server.get("thriftps.torch/runs"), b"2")

    def test_a_run_by_name(self):
        with Server("--ntrainer=2") as server:
            for run in ("one", "two"):
                with tps.Averaging(server.address, 0, 2, run=run) as a, tps.Averaging(
                    server.address, 1, 2, run=run
                ) as b:
                    for step in range(3):
                        calls = [
                            each.start(torch.full((4,), float(value)), 7, True)
                            for each, value in ((a, 1), (b, 2))
                        ]
                        self.assertEqual(
                            [call.result(WAIT_S).tolist() for call in calls], [[1.5] * 4] * 2
                        )
                    self.assertIn("run %s, step 3" % run, repr(a))
            with thriftps.Server(server.address) as store, self.assertRaises(thriftps.NotFound):
                store.get("thriftps.torch/run/two")


if __name__ == "__main__":
    warnings.filterwarnings("error", module="thriftps")
    print("PyTorch", None if torch is None else torch.__version__)
    junit.main()
