# Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
"""thriftps_server with an HTTP port, and a client for it."""

import http.client
import json

from server_process import WAIT_S, Server


class HttpServer(Server):
    """A server whose second line has the address of its HTTP port. A context manager."""

    def __init__(self, *flags, http="127.0.0.1:0", **more):
        super().__init__("--http=" + http, *flags, **more)
        line = self.process.stdout.readline()
        prefix = "listening on http://"
        if not line.startswith(prefix):
            raise RuntimeError("the server said %r instead of where HTTP is" % line)
        self.http = line[len(prefix):].strip()

    def request(self, method, path, headers=None, body=None):
        """(status, headers, body) of one request."""
        connection = http.client.HTTPConnection(self.http, timeout=WAIT_S)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def get(self, path, status=200):
        """The object of a JSON reply, which must have that status."""
        found, headers, body = self.request("GET", path)
        if found != status:
            raise AssertionError("%s: status %d instead of %d: %r" % (path, found, status, body))
        if headers["Content-Type"] != "application/json":
            raise AssertionError("%s: %s" % (path, headers["Content-Type"]))
        return json.loads(body)


class Events:
    """The stream of /events: pairs of a name and an object. A context manager."""

    def __init__(self, server):
        self._connection = http.client.HTTPConnection(server.http, timeout=WAIT_S)
        self._connection.request("GET", "/events")
        self.response = self._connection.getresponse()

    def __iter__(self):
        fields = {}
        for line in self.response:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif fields:
                yield fields["event"], json.loads(fields["data"])
                fields = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.response.close()
        self._connection.close()
