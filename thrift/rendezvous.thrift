// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// A key-value store for the processes of a job. The processes find the addresses of other processes
// in the store. The members of a process group also exchange connection data and NCCL ids through
// the store.

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

/**
 * Keys must match [A-Za-z0-9_.:/-]{1,255}. A value has at most 1 MiB, and a store at most 65,536
 * keys and 256 MiB.
 */
service Rendezvous {
  /** Sets the value of a key, and replaces an earlier value. */
  void put(1: string key (text = "name"), 2: binary value)
      throws (1: node.ServiceError failure) (right = "push")

  /**
   * Returns the value of a key; waits up to timeout_ms milliseconds for the key to be set.
   * DEADLINE_EXCEEDED: it was not set in time. The longest wait is 300,000 ms, so a client that
   * needs to wait longer must repeat the call. With timeout_ms 0 the call does not wait. NOT_FOUND:
   * timeout_ms is 0, and the key is not set. RESOURCE_EXHAUSTED with retry_after_ms: 16,384 calls
   * of all connections or 1024 of this connection are pending. A pending call is cancelled when its
   * connection closes.
   */
  binary get(1: string key (text = "name"), 2: i32 timeout_ms (min = "0"))
      throws (1: node.ServiceError failure) (right = "read", result = "value")

  /**
   * Adds `amount` to the decimal number under the key (0 if the key is not set), and returns the
   * sum. With a push id the addition is applied once.
   */
  i64 add(1: string key (text = "name"), 2: i64 amount,
          3: tensor.PushId push (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "push", result = "sum")

  /** Removes every key that starts with the prefix. The keys of a training pass share a prefix. */
  void remove(1: string prefix (text = "name"))
      throws (1: node.ServiceError failure) (right = "push")
}
