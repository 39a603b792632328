# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""Ctrl-C is not lost. Python raises KeyboardInterrupt in whatever code of Python runs next, and
drops it if this is `__del__`, or a callback of a weak reference. So no such code may run."""

import asyncio
import ctypes
import functools
import gc
import os
import signal
import socket
import sys
import tempfile
import unittest
from unittest import mock

import unpacked_wheel  # noqa: F401, makes the next one importable
import junit
from server_process import Server

import thriftps
from thriftps import _calls, _native

try:
    import torch
    import thriftps.torch as tps
except ImportError:
    torch = None

ROWS, DIM = 10, 4
RAISE_SIGINT = functools.partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)


def drop(held):
    """Frees the objects of the list, also those in a cycle, and returns the functions of Python
    that run meanwhile."""
    seen = []

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and "/asyncio/" not in code.co_filename:
            seen.append("%s in %s" % (code.co_name, os.path.basename(code.co_filename)))

    gc.collect()
    sys.setprofile(note)
    try:
        held.clear()
        gc.collect()
    finally:
        sys.setprofile(None)
    return seen


class Finalizers(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have disabled it
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server("--ntrainer=2", listen="unix:" + os.path.join(folder.name, "s"))
        cls.addClassCleanup(cls.server.__exit__)
        cls.address = cls.server.address
        cls.tables = thriftps.connect(cls.address)
        cls.table = cls.tables.create("t", ROWS, DIM, initializer=thriftps.Zeros())
        cls.client = thriftps.Server(cls.address)
        # A server that never answers.
        cls.listener = socket.socket(socket.AF_UNIX)
        cls.addClassCleanup(cls.listener.close)
        cls.listener.bind(os.path.join(folder.name, "mute"))
        cls.listener.listen()
        cls.mute = thriftps.Server("unix:" + os.path.join(folder.name, "mute"))
        cls.addClassCleanup(cls.mute.close)

    def make_closed(self):
        client = thriftps.Server(self.address)
        client.describe()
        client.close()
        return client

    def make_awaited(self):
        """A call whose event loop has gone before the call ended."""
        call = self.mute.average_async(0, 0, 0, [1.0])

        async def wait():
            task = asyncio.ensure_future(self.as_task(call))
            await asyncio.sleep(0)
            task.cancel()

        asyncio.run(wait())
        return call

    @staticmethod
    async def as_task(call):
        return await call

    def list_makers(self):
        yield "array", lambda: self.table.lookup([1])
        yield "ended call", lambda: self.wait_for(self.table.lookup_async([1]))
        yield "call in flight", lambda: self.mute.average_async(0, 0, 0, [1.0])
        yield "awaited call", self.make_awaited
        yield "tables", lambda: thriftps.connect(self.address)
        yield "server", lambda: thriftps.Server(self.address)
        yield "closed server", self.make_closed
        yield "failed call", lambda: self.wait_for(self.table.lookup_async([ROWS]))
        if torch is not None:
            yield "module", lambda: tps.RemoteEmbeddingBag(tps.connect(self.address), "t")
            yield "prefetched batch", self.make_prefetched
            yield "averaging", lambda: tps.Averaging(self.address, 0, 2, run="r")

    def make_prefetched(self):
        module = tps.RemoteEmbeddingBag(self.tables, "t")
        module.prefetch(torch.tensor([[1, 2]]))
        return module

    @staticmethod
    def wait_for(call):
        call.exception()
        return call

    def test_no_code_of_python_runs(self):
        for name, make in self.list_makers():
            for cycle in (False, True):
                with self.subTest(what=name, cycle=cycle):
                    held = [make()]
                    if cycle:
                        held.append([held[0]])
                        held[1].append(held[1])
                    self.assertEqual(drop(held), [])

    def test_an_event_loop_ends(self):
        async def look_up():
            return (await self.table.lookup_async([1])).sum()

        loop = asyncio.new_event_loop()
        self.assertEqual(loop.run_until_complete(look_up()), 0)
        loop.close()
        held = [loop]
        del loop
        self.assertEqual(drop(held), [])
        for _ in range(3):
            self.assertEqual(asyncio.run(look_up()), 0)
        self.assertLessEqual(len(_calls._Watcher._loops), 1)

    def test_a_signal_during_a_finalizer_is_delivered(self):
        """The native function of each finalizer is replaced by raise(SIGINT)."""
        call = self.wait_for(self.table.lookup_async([1]))
        in_flight = self.mute.average_async(0, 0, 0, [1.0])
        client = thriftps.Server(self.address)
        watcher = _calls._Watcher()
        owners = {call: call._reply, in_flight: in_flight, client: client._handle,
                  watcher: watcher}
        classes = {type(owner) for owner in owners.values()}
        self.assertEqual(classes, {_calls.Reply, thriftps.Call, _native.Handle, _calls._Watcher})
        for owner in owners.values():
            owner._free()
            owner._free = RAISE_SIGINT
        owners = owner = None
        for held in [[call], [in_flight], [client], [watcher]]:
            call = in_flight = client = watcher = None
            with self.subTest(what=type(held[0])), self.assertRaises(KeyboardInterrupt):
                held.clear()
                for _ in range(100):  # handles the signal at the latest
                    pass

    def test_the_classes_of_the_package_have_no_other_finalizers(self):
        for name, module in list(sys.modules.items()):
            if name.split(".")[0] == "thriftps":
                for each in vars(module).values():
                    if isinstance(each, type) and each.__module__ == name:
                        finalizer = getattr(each, "__del__", _native.finalizer)
                        self.assertIs(finalizer, _native.finalizer, each)


class Waits(unittest.TestCase):

    def test_an_interrupted_call_continues_and_then_returns_its_memory(self):
        with Server() as server, thriftps.connect(server.address) as tables:
            table = tables.create("t", ROWS, DIM, optimizer=thriftps.SGD(1.0),
                                  initializer=thriftps.Zeros())
            before = set(_calls._borrowed)
            for watcher in (None, OSError, RuntimeError):
                with self.subTest(watcher=watcher):
                    wait = mock.patch.object(_calls.lib, "call_wait", side_effect=KeyboardInterrupt)
                    of_process = mock.patch.object(_calls._Watcher, "of_process",
                                                   side_effect=watcher)
                    with self.assertRaises(KeyboardInterrupt), wait:
                        if watcher is None:
                            table.push([1], [[-1.0] * DIM])
                        else:
                            with of_process:
                                table.push([1], [[-1.0] * DIM])
            while table.lookup([1]).tolist() != [[3.0] * DIM]:
                pass
            while len(set(_calls._borrowed) - before) > 2:  # of the calls that nothing watches
                table.lookup([1])

    def test_memory_of_dropped_calls_returns(self):
        with Server() as server, thriftps.connect(server.address) as tables:
            table = tables.create("t", ROWS, DIM)
            before = set(_calls._borrowed)
            for _ in range(100):
                table.push_async([1], [[0.0] * DIM])
            table.push_async([1], [[0.0] * DIM]).add_done_callback(lambda call: None)
            while set(_calls._borrowed) - before:
                table.lookup([1])


if __name__ == "__main__":
    junit.main()
