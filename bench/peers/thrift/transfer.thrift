// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The calls of //bench:transfer for every system. On the wire, Tensor equals the struct of
// thrift/tensor.thrift.

namespace c_glib TpsPeer
namespace cpp thriftps.peer

struct Tensor {
  1: i32 dtype
  2: required list<i64> shape
  3: optional binary data
}

service Transfer {
  void push(1: Tensor tensor)
  Tensor pull(1: i64 n_bytes)
  Tensor echo(1: Tensor tensor)
  void clear_metrics()          // a small call, as in the Node service
}
