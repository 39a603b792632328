// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// What a server with a data directory (--data-dir) does for its operators. Other servers do not
// have this service.

include "embedding_table.thrift"
include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.durability
namespace go thriftps.durability
namespace js thriftps.durability
namespace rb ThriftPS
namespace perl ThriftPS.Durability
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

struct SnapshotInfo {
  1: required string name            // of its folder in snapshots/ of the data directory
  2: i64 lsn                         // every change up to this LSN is in it
  3: i64 end_lsn                     // changes up to this one may be in it; the log has them all
  4: i32 tables
  5: bool model                      // whether there is one
  6: i64 bytes                       // of its files
  7: i32 increments                  // files of changed rows; 0: other programs can read all tables
}

// A part of the log: whole records, one behind the other, without a gap.
struct LogBatch {
  // Identity of the log, 32 hexadecimal digits. If it is another one, the data directory was
  // replaced: LSNs mean other changes, and a follower must begin again.
  1: required string log
  // From the LSN of the cursor on, as runtime/server/log/FORMAT.md describes them byte by byte: a
  // head of 64 bytes with LSN, kind, length and checksums, and a body.
  2: required binary records
  // The next cursor: one more than the LSN of the last record; the cursor if there is none.
  3: i64 next_lsn
  4: i64 durable_lsn  // of the newest record that could be read at that time
  5: i64 oldest_lsn   // of the oldest record that is kept
}

service Durability {
  // Answers when every change that was answered before this call is on the disk, whatever the
  // durability of its table, with the LSN up to which all are. Changes of tables of durability NONE
  // have LSNs, but are not on the disk.
  i64 flush() throws (1: node.ServiceError failure)

  // The changes of this server in their order: records of the log from LSN `cursor` (1 = the first
  // of all) on. LSNs have no gaps, so a follower that keeps the last next_lsn loses no change and
  // gets none twice, also over restarts of the server. Only records on the disk are given: no crash
  // takes them back. A change of a table of durability NONE is a hole: its LSN without a body. At
  // most max_bytes bytes of records, and at most 1 MiB; a longer record comes alone. If the record
  // is not on the disk, the call waits up to wait_ms milliseconds (at most 300,000), and then
  // answers with no records.
  // STALE: the record was deleted because a snapshot has its change; the message names the oldest
  // LSN. A follower must then begin with a snapshot and read from the LSN behind SnapshotInfo.lsn;
  // it must leave out changes that a row of the snapshot has already, by the LSN of the row.
  // INVALID_ARGUMENT: the cursor is beyond the LSN that comes next. RESOURCE_EXHAUSTED with
  // retry_after_ms: no memory for the records, or 1024 calls wait already.
  LogBatch read_log(1: i64 cursor, 2: i32 max_bytes, 3: i32 wait_ms)
      throws (1: node.ServiceError failure)

  // Writes a snapshot of all tables, the model and the push ids, while lookups and pushes go on,
  // and answers when it is complete. The newest ones are kept (--keep-snapshots), with the log from
  // the oldest of them on; older ones are deleted. RESOURCE_EXHAUSTED with retry_after_ms when one
  // is being written.
  //
  // incremental: only rows that have changed since the newest snapshot are written, where that is
  // less than half of a table, and the files of that snapshot are part of the new one. Otherwise
  // every table is written whole, unless nothing has changed.
  SnapshotInfo snapshot(1: bool incremental) throws (1: node.ServiceError failure)

  // Makes tables that the server does not have from snapshots, all of them or none, and answers
  // when they are lasting, with the snapshot that holds them. `snapshots`: paths below the server's
  // --import-dir, without "." and "..", of folders of snapshots, or of data directories, whose
  // newest snapshot is taken; of a table of several shards all of them. `tables`: which ones, with
  // their shard and dtype, which may differ from those in the snapshots; optimizer states are taken
  // over where the kind is the same. Empty: all tables of the first snapshot, as they are there.
  // Tables lie in the memory of the host.
  //
  // A snapshot that was written while pushes went on has rows of different moments between its lsn
  // and its end_lsn. Models and push ids are not read: for these start a server with
  // --restore-from.
  //
  // PERMISSION_DENIED without --import-dir. ALREADY_EXISTS where the server has such a table.
  // RESOURCE_EXHAUSTED where tables do not fit, and with retry_after_ms while another snapshot is
  // being written or read. A client that gives up does not end the work.
  SnapshotInfo restore(1: list<string> snapshots, 2: list<embedding_table.TableSpec> tables)
      throws (1: node.ServiceError failure)

  // Makes one table whose rows come from files of other programs: .safetensors (of several with
  // DCP_SHARDING_INFO each has a part) or .npy, of FLOAT16, BFLOAT16, FLOAT32 or FLOAT64. `files`:
  // paths as above. `tensor`: its name in safetensors; empty: the only matrix, or the table's name
  // with ".weight". The same answers as restore.
  SnapshotInfo import_table(1: embedding_table.TableSpec spec, 2: list<string> files,
                            3: string tensor)
      throws (1: node.ServiceError failure)
}
