// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The key-value store that the master serves: roles find each other here, and process groups and
// NCCL ids meet here.

include "tensor.thrift"
include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.rendezvous
namespace go thriftps.rendezvous
namespace js thriftps.rendezvous
namespace rb ThriftPS
namespace perl ThriftPS.Rendezvous
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

// Keys match [A-Za-z0-9_.:/-]{1,255}; values are at most 1 MiB; a store holds at most 65,536 keys
// and 256 MiB.
service Rendezvous {
  // Sets a key; a second put of it replaces the value.
  void put(1: string key, 2: binary value) throws (1: node.ServiceError failure)

  // Waits until the key is there. DEADLINE_EXCEEDED after timeout_ms, but at most after 300,000, so
  // that a client which may wait longer must ask again; 0 = does not wait (NOT_FOUND).
  // RESOURCE_EXHAUSTED with retry_after_ms if 16,384 calls wait already, or 1024 of the connection.
  // A call stops waiting when its connection closes.
  binary get(1: string key, 2: i32 timeout_ms) throws (1: node.ServiceError failure)

  // Adds to the decimal number under the key (absent = 0) and answers with the sum.
  // With the same push id it is applied once.
  i64 add(1: string key, 2: i64 amount, 3: tensor.PushId push) throws (1: node.ServiceError failure)

  // Removes every key that starts with the prefix; every pass has a key prefix of its own.
  void remove(1: string prefix) throws (1: node.ServiceError failure)
}
