// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Attributes of a connection that the client sets: its identity, and the trace context of its
// calls.

include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.session
namespace go thriftps.session
namespace js thriftps.session
namespace rb ThriftPS
namespace perl ThriftPS.Session
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

service Session {
  /**
   * Later calls of this connection have the principal of the token ("token:NAME"), instead of the
   * principal of its certificate or Unix socket. A principal is the name of a client in the rules,
   * quotas and log of a server. UNAUTHENTICATED: the server does not know the token; after the
   * third such failure it closes the connection. UNAVAILABLE: the server has no token file, or it
   * is not a ThriftPS server but another server that serves the plugin.
   */
  void authenticate(1: string token)
      throws (1: node.ServiceError failure) (right = "open", login = "true")

  /**
   * Sets the context of the later calls of this connection, and replaces an earlier context. Known
   * keys are "traceparent" and "tracestate" (W3C Trace Context); other keys are ignored.
   * INVALID_ARGUMENT: more than 16 entries, or more than 4096 bytes in all.
   */
  void set_context(1: map<string,string> context (max_entries = "16", max_bytes = "4096"))
      throws (1: node.ServiceError failure) (right = "open")
}
