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
  // Later calls of this connection run under the name that the token proves. This name replaces a
  // name from a certificate or a Unix socket. UNAUTHENTICATED: the server does not know the token.
  // The server closes the connection after the third such call. UNAVAILABLE: the server has no
  // token file, or another program's server serves the connection.
  void authenticate(1: string token) throws (1: node.ServiceError failure)

  // Sets the context of the later calls of this connection, and replaces an earlier context. Known
  // keys are "traceparent" and "tracestate" (W3C Trace Context); other keys are ignored.
  // INVALID_ARGUMENT: more than 16 entries, or more than 4096 bytes in all.
  void set_context(1: map<string,string> context) throws (1: node.ServiceError failure)
}
