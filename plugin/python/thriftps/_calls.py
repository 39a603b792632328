# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""In-flight calls: blocking waits, `await`, and calls to which no reference is left."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import itertools
import logging
import os
import select
import threading
import weakref
from typing import Any, Callable, Dict, Generator, Generic, List, Optional, Tuple, TypeVar

from thriftps import errors
from thriftps._native import Function, Handle, clients, lib, to_ns, to_number

T = TypeVar("T")
_Self = TypeVar("_Self", bound="Client")

_log = logging.getLogger("thriftps")

# The longest time for which a wait does not handle signals.
_SLICE_NS = 200_000_000
# The time that a cancelled call may take to end.
_EXIT_NS = 10_000_000_000
_N_TOKENS = 64

_is_exiting = False


@atexit.register
def _cancel_all() -> None:
    """Must run before Python shuts down, because in-flight calls borrow memory of its objects."""
    global _is_exiting
    _is_exiting = True
    for client in list(clients):
        client.cancel()


class Reply:
    """The result of a native call. The native call is freed when the last array that refers to its
    reply is freed.
    """

    __slots__ = ("pointer", "contents")

    def __init__(self, pointer: int, contents: Any):
        self.pointer = pointer
        self.contents = contents  # a native struct, which lives as long as the call

    def check(self) -> "Reply":
        """Raises the error of the call."""
        contents = self.contents
        if contents.code:
            raise errors.from_native(
                contents.code, contents.message.decode("utf-8", "replace"), contents.retry_after_ms
            )
        return self

    def __del__(self, free: Any = lib.call_free) -> None:
        free(self.pointer)


class Call(Generic[T]):
    """A call that was sent. result() waits for its value; in a coroutine, `await call` does.

    A call ends at its deadline at the latest, even if its value is not used. If nothing reads the
    result, an exception is lost. Thread: any.
    """

    __slots__ = ("_pointer", "_kept", "_convert", "_reply", "_lock", "_is_notified", "_callbacks")

    def __init__(self, pointer: int, kept: Any, convert: Callable[[Reply], T]):
        self._pointer = pointer
        self._kept = kept  # memory that the native call borrows
        self._convert = convert
        self._reply: Optional[Reply] = None
        self._lock = threading.Lock()
        self._is_notified = False
        self._callbacks: List[Callable[["Call[T]"], Any]] = []

    def done(self) -> bool:
        """Returns True if the call has ended."""
        return self._reply is not None or self._wait(0)

    def result(self, timeout: Optional[float] = None) -> T:
        """Waits for the value, or raises the call's error. Raises TimeoutError after `timeout`
        seconds (None: the call's own deadline ends the wait).
        """
        if self._reply is None:
            if timeout is None:
                while not self._wait(_SLICE_NS):
                    pass
            elif not self._wait_for(timeout):
                raise TimeoutError("the call has not ended after %g s" % timeout)
        return self._convert(self._reply.check())

    def exception(self) -> Optional[Exception]:
        """Waits for the end of the call. Returns its error, or None if it succeeded."""
        try:
            self.result()
        except errors.ThriftPSError as error:
            return error
        return None

    def add_done_callback(self, callback: Callable[["Call[T]"], Any]) -> None:
        """Calls callback(call) on a thread of this module when the call has ended. If the call has
        already ended, the callback runs at once, on the calling thread. Callbacks must not block.
        Exceptions of callbacks that run on the module's thread are logged.
        """
        with self._lock:
            if self._reply is None:
                self._callbacks.append(callback)
                self._notify(_Watcher.of_process())
                return
        callback(self)

    def __await__(self) -> Generator[Any, None, T]:
        if self._reply is None and not self._wait(0):
            loop = asyncio.get_running_loop()
            future = loop.create_future()
            with self._lock:
                if self._reply is not None:
                    future.set_result(None)
                elif self._is_notified:
                    self._callbacks.append(lambda _: loop.call_soon_threadsafe(_wake, future))
                else:
                    self._callbacks.append(lambda _: _wake(future))
                    self._notify(_Watcher.of_loop(loop))
            yield from future.__await__()
        return self.result()

    def __repr__(self) -> str:
        state = (
            "in flight" if not self.done() else "failed" if self._reply.contents.code else "done"
        )
        return "<thriftps.Call: %s>" % state

    def __del__(self) -> None:
        """A dropped call continues, so its borrowed memory must be kept until it ends."""
        if self._reply is not None or self._is_notified or self._wait(0):
            return
        if _is_exiting:  # the call was cancelled, and no thread can be started now
            self._wait(_EXIT_NS)
            return
        orphan = Call(self._pointer, self._kept, self._convert)
        with orphan._lock:
            orphan._notify(_Watcher.of_process())

    # ---- internal ----

    def _wait(self, timeout_ns: int) -> bool:
        reply = lib.call_wait(self._pointer, timeout_ns)
        if not reply:
            return False
        with self._lock:
            if self._reply is None:
                self._reply = Reply(self._pointer, reply.contents)
                self._kept = None
        return True

    def _wait_for(self, timeout: float) -> bool:
        rest_ns = int(to_number("timeout", timeout) * 1e9)
        while rest_ns > _SLICE_NS:
            if self._wait(_SLICE_NS):
                return True
            rest_ns -= _SLICE_NS
        return self._wait(max(rest_ns, 0))

    def _notify(self, watcher: "_Watcher") -> None:
        """The caller must hold the lock. The watcher then keeps the call until it ends."""
        if not self._is_notified:
            self._is_notified = True
            watcher.watch(self, self._pointer)

    def _ended(self) -> None:
        """Called by the watcher, which may hold the only reference to a dropped call."""
        self._wait(0)
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # the callbacks of other calls must still run
                _log.exception("a callback of %r failed", self)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Watcher:
    """Keeps calls until they end, and notifies them, on its own thread or from an event loop."""

    _process: Optional["_Watcher"] = None
    _loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Watcher] = (
        weakref.WeakKeyDictionary()
    )
    _creation = threading.Lock()

    def __init__(self) -> None:
        self._queue = lib.queue_new()
        if not self._queue:
            raise OSError("no file descriptor for thriftps: see `ulimit -n`")
        self._pid = os.getpid()
        self.descriptor = lib.queue_get_fd(self._queue)
        self._calls: Dict[int, Call[Any]] = {}
        self._tokens = itertools.count(1)
        self._taken = (ctypes.c_uint64 * _N_TOKENS)()

    @classmethod
    def of_process(cls) -> "_Watcher":
        with cls._creation:
            if cls._process is None or cls._process._pid != os.getpid():
                cls._process = cls()
                threading.Thread(target=cls._process._run, name="thriftps", daemon=True).start()
            return cls._process

    @classmethod
    def of_loop(cls, loop: asyncio.AbstractEventLoop) -> "_Watcher":
        watcher = cls._loops.get(loop)
        if watcher is None:
            watcher = cls._loops[loop] = cls()
            loop.add_reader(watcher.descriptor, watcher.take)
        return watcher

    def __del__(self, getpid: Any = os.getpid, unref: Any = lib.queue_unref) -> None:
        if self._pid == getpid():
            unref(self._queue)

    def watch(self, call: Call[Any], pointer: int) -> None:
        token = next(self._tokens)
        self._calls[token] = call
        lib.call_notify(pointer, self._queue, token)

    def take(self) -> None:
        n = lib.queue_take(self._queue, self._taken, _N_TOKENS)
        for i in range(n):
            self._calls.pop(self._taken[i])._ended()

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while True:
            poll.poll()
            self.take()


_borrowed: Dict[object, Any] = {}


def start(
    convert: Callable[[Reply], T], kept: Any, function: Callable[..., Any], *arguments: Any
) -> Call[T]:
    """Calls the native function, which borrows `kept` until the call ends."""
    ticket = object()
    _borrowed[ticket] = kept
    call = Call(function(*arguments), kept, convert)
    del _borrowed[ticket]
    return call


def run(
    convert: Callable[[Reply], T], kept: Any, function: Callable[..., Any], *arguments: Any
) -> T:
    """Equivalent to start().result(), but faster."""
    ticket = object()
    _borrowed[ticket] = kept
    pointer = function(*arguments)
    reply = None
    try:
        while not reply:
            reply = lib.call_wait(pointer, _SLICE_NS)
    except BaseException:
        Call(pointer, kept, convert)  # no caller waits; the call continues by itself
        del _borrowed[ticket]
        raise
    del _borrowed[ticket]
    return convert(Reply(pointer, reply.contents).check())


def check_ended(pointer: Optional[int]) -> None:
    """Raises the error of a native call that has ended, and frees it."""
    Reply(pointer, lib.call_wait(pointer, 0).contents).check()


def nothing(_: Reply) -> None:
    """The conversion of a reply without a value."""


class Client:
    """A context manager with a handle, and the calls through this handle."""

    _handle: Optional[Handle] = None

    def __init__(self, timeout: float):
        to_ns("timeout", timeout)
        self.timeout = timeout

    def close(self) -> None:
        """Ends in-flight calls with Aborted. The object must not be used afterwards."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.cancel()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(
        self,
        call: Callable[..., Any],
        convert: Callable[[Reply], Any],
        kept: Any,
        function: Function,
        timeout: Optional[float],
        arguments: Tuple[Any, ...],
    ) -> Any:
        handle = self._handle
        if handle is None:
            raise errors.Aborted("the client is closed")
        if not handle.is_of_this_process():
            raise RuntimeError(
                "thriftps.%s was created before fork(): create one in each process"
                % type(self).__name__
            )
        seconds = self.timeout if timeout is None else timeout
        converted = function.convert((handle.pointer, *arguments, seconds))
        return call(convert, (handle, kept, converted), function.native, *converted)

    def _run(
        self,
        convert: Callable[[Reply], Any],
        kept: Any,
        function: Function,
        timeout: Optional[float],
        *arguments: Any,
    ) -> Any:
        return self._begin(run, convert, kept, function, timeout, arguments)

    def _start(
        self,
        convert: Callable[[Reply], Any],
        kept: Any,
        function: Function,
        timeout: Optional[float],
        *arguments: Any,
    ) -> Any:
        return self._begin(start, convert, kept, function, timeout, arguments)
