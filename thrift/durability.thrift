// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// What a server with a data directory (--data-dir) does for its operators. Other servers do not have this service.

include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.durability
namespace go thriftps.durability
namespace js thriftps.durability
namespace rb ThriftPS
namespace perl ThriftPS
namespace php ThriftPS
namespace rs thriftps.durability
namespace netstd ThriftPS

struct SnapshotInfo {
  1: required string name            // of its folder in snapshots/ of the data directory
  2: i64 lsn                         // every change up to this LSN is in it
  3: i64 end_lsn                     // changes up to this one may be in it; the log has them all
  4: i32 tables
  5: bool model                      // whether there is one
  6: i64 bytes                       // of its files
}

service Durability {
  // Answers when every change that was answered before this call is on the disk, whatever the durability of its table, with the
  // LSN up to which all are. Changes of tables of durability NONE have LSNs, but are not on the disk.
  i64 flush() throws (1: node.ServiceError failure)

  // Writes a snapshot of all tables, the model and the push ids, while lookups and pushes go on, and answers when it is complete.
  // The newest ones are kept (--keep-snapshots), with the log from the oldest of them on; older ones are deleted. RESOURCE_EXHAUSTED
  // with retry_after_ms when one is being written.
  SnapshotInfo snapshot() throws (1: node.ServiceError failure)
}
