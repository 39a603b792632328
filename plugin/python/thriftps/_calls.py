# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""In-flight calls: blocking waits, `await`, and calls to which no reference is left."""

from __future__ import annotations

import asyncio
import atexit
import ctypes
import functools
import logging
import os
import select
import threading
import weakref
from typing import Any, Callable, Dict, Generator, Generic, List, Optional, Tuple, TypeVar

from thriftps import errors
from thriftps._native import (
    Function,
    Handle,
    do_nothing,
    finalizer,
    handles,
    lib,
    prune,
    to_ns,
    to_number,
)

T = TypeVar("T")
_Self = TypeVar("_Self", bound="Client")

_log = logging.getLogger("thriftps")

# The longest time for which a wait does not handle signals.
_SLICE_NS = 200_000_000
_N_TOKENS = 64

# The memory that native calls borrow: that of a call in flight by the address of the call, and
# before that by a ticket. Nobody frees the dictionary, because calls may be in flight when Python
# shuts down.
_borrowed: Dict[object, Any] = {}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_borrowed))


@atexit.register
def _cancel_all() -> None:
    """Ends calls that would otherwise go on while Python shuts down."""
    for reference in list(handles):
        handle = reference()
        if handle is not None:
            handle.cancel()


class Reply:
    """The result of a native call. The native call is freed when the last array that refers to its
    reply is freed.
    """

    __slots__ = ("contents", "_free")
    __del__ = finalizer

    def __init__(self, pointer: int, contents: Any):
        self.contents = contents  # a native struct, which lives as long as the call
        self._free = functools.partial(lib.call_free, pointer)

    def check(self) -> "Reply":
        """Raises the error of the call."""
        contents = self.contents
        if contents.code:
            raise errors.from_native(
                contents.code, contents.message.decode("utf-8", "replace"), contents.retry_after_ms
            )
        return self


class Call(Generic[T]):
    """A call that was sent. result() waits for its value; in a coroutine, `await call` does.

    A call ends at its deadline at the latest, even if its value is not used. If nothing reads the
    result, an exception is lost. Thread: any.
    """

    __slots__ = ("_pointer", "_free", "_convert", "_reply", "_lock", "_is_notified", "_callbacks")
    __del__ = finalizer

    def __init__(self, pointer: int, convert: Callable[[Reply], T], watcher: "_Watcher"):
        """A dropped call continues. The watcher of the process frees it when it ends."""
        self._pointer = pointer
        self._free = functools.partial(lib.call_notify, pointer, watcher.queue, pointer)
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

    # ---- internal ----

    def _wait(self, timeout_ns: int) -> bool:
        reply = lib.call_wait(self._pointer, timeout_ns)
        if not reply:
            return False
        with self._lock:
            if self._reply is None:
                self._free = do_nothing
                self._reply = Reply(self._pointer, reply.contents)
                _borrowed.pop(self._pointer, None)
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
    _loops: Dict["weakref.ref[asyncio.AbstractEventLoop]", _Watcher] = {}
    _creation = threading.Lock()

    __del__ = finalizer

    def __init__(self) -> None:
        self.queue = lib.queue_new()
        if not self.queue:
            raise OSError("no file descriptor for thriftps: see `ulimit -n`")
        self._pid = os.getpid()
        self._free = functools.partial(lib.queue_free, self.queue, self._pid)
        self.descriptor = lib.queue_get_fd(self.queue)
        self._calls: Dict[int, Call[Any]] = {}
        self._taken = (ctypes.c_uint64 * _N_TOKENS)()

    @classmethod
    def of_process(cls) -> "_Watcher":
        with cls._creation:
            if cls._process is None or cls._process._pid != os.getpid():
                cls._process = cls()
                cls._process._free = do_nothing  # calls refer to its queue
                threading.Thread(target=cls._process._run, name="thriftps", daemon=True).start()
            return cls._process

    @classmethod
    def of_loop(cls, loop: asyncio.AbstractEventLoop) -> "_Watcher":
        reference = weakref.ref(loop)
        watcher = cls._loops.get(reference)
        if watcher is None:
            prune(cls._loops)
            watcher = cls()
            loop.add_reader(watcher.descriptor, watcher.take)
            cls._loops[reference] = watcher
        return watcher

    def watch(self, call: Call[Any], pointer: int) -> None:
        self._calls[pointer] = call
        lib.call_notify(pointer, self.queue, pointer)

    def take(self) -> None:
        n = lib.queue_take(self.queue, self._taken, _N_TOKENS)
        for pointer in self._taken[:n]:
            call = self._calls.pop(pointer, None)
            if call is not None:
                call._ended()
            else:  # the program dropped it
                _borrowed.pop(pointer, None)
                lib.call_free(pointer)

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        while True:
            poll.poll()
            self.take()


def start(
    convert: Callable[[Reply], T], kept: Any, function: Callable[..., Any], *arguments: Any
) -> Call[T]:
    """Calls the native function, which borrows `kept` until the call ends."""
    watcher = _Watcher.of_process()
    ticket = object()
    _borrowed[ticket] = kept
    pointer = function(*arguments)
    _borrowed[pointer] = kept
    del _borrowed[ticket]
    return Call(pointer, convert, watcher)


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
        try:  # no caller waits; the call continues by itself
            watcher = _Watcher.of_process()
            _borrowed[pointer] = kept
            Call(pointer, convert, watcher)
            del _borrowed[ticket]
        except (OSError, RuntimeError):  # no thread can watch it: its memory is never freed
            pass
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
