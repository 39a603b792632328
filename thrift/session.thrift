// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// What a client says about its connection: who it is, and what its calls belong to.

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
  // Later calls of this connection are made in the name that belongs to the token. A name from a
  // certificate or a Unix socket is replaced. UNAUTHENTICATED: the server does not know the token;
  // after the third such call of a connection the server closes it. UNAVAILABLE: the server has no
  // token file, or connections are not its own.
  void authenticate(1: string token) throws (1: node.ServiceError failure)

  // Later calls of this connection belong to this context, which replaces an earlier one. Keys in
  // use: "traceparent" and "tracestate" (W3C Trace Context); others are ignored. INVALID_ARGUMENT:
  // more than 16 entries, or 4096 bytes in all.
  void set_context(1: map<string,string> context) throws (1: node.ServiceError failure)
}
