# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""A ThriftPS server as a process."""

import os
import signal
import subprocess

WAIT_S = 60


class Server:
    """thriftps_server with these flags, on a free port. A context manager."""

    def __init__(self, *flags, listen="127.0.0.1:0"):
        self.process = subprocess.Popen(
            [
                os.path.abspath(os.environ["THRIFTPS_SERVER"]),
                "--listen=" + listen,
                "--log-level=warning",
                *flags,
            ],
            stdout=subprocess.PIPE,
            text=True,
            # The thread sanitizer would sleep for a second at the end of each server.
            env=dict(os.environ, TSAN_OPTIONS="atexit_sleep_ms=0"),
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError("the server said %r instead of where it listens" % line)
        self.address = line[len("listening on ") :].strip()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """The exit code."""
        code = self.process.wait(WAIT_S)
        self.process.stdout.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.terminate()
        code = self.wait()
        if code != 0:
            raise RuntimeError("the server ended with exit code %d" % code)
