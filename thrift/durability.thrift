// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Operations on a server with a data directory (--data-dir). Other servers do not have this
// service. An LSN (log sequence number) is the number of a change in the log of one server.

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
  /** of its folder in snapshots/ of the data directory */
  1: required string name (text = "name")
  /** the snapshot contains every change up to this LSN */
  2: i64 lsn
  /** it may also contain some changes after `lsn`, up to this LSN; the log has all of them */
  3: i64 end_lsn
  /** The fields 4 to 7 are 0 or FALSE unless a rule gives the caller `admin` for all tables. */
  4: i32 tables
  /** whether it contains a model */
  5: bool model
  /** size of its files */
  6: i64 bytes
  /** files of changed rows; 0: other programs can read all tables */
  7: i32 increments
}

/** A range of the log: whole, consecutive records. */
struct LogBatch {
  /**
   * Identity of the log, 32 hexadecimal digits: the id of the data directory. If it changes, the
   * directory was replaced. LSNs then refer to other changes, and a follower must start again from
   * a snapshot. A copy of a directory keeps the id. If an older copy of the whole directory was
   * restored, LSNs may refer to other changes although the identity is the same.
   */
  1: required string log (text = "name")
  /**
   * Records from the requested LSN (`cursor` of read_log) on, as defined in
   * runtime/server/log/FORMAT.md: a header of 64 bytes with LSN, kind, length and checksums, and a
   * body.
   */
  2: required binary records
  /**
   * The next cursor: the LSN of the last record plus one, or the requested cursor if there is no
   * record.
   */
  3: i64 next_lsn
  /** the newest record that could be read at that time */
  4: i64 durable_lsn
  /** the oldest record that is kept */
  5: i64 oldest_lsn
}

service Durability {
  /**
   * Waits until the disk has every change whose reply was sent before this call, even if the table
   * has the durability INTERVAL. Returns the LSN up to which all changes are on the disk. Changes
   * of tables with the durability NONE have LSNs, but are not written to the disk.
   */
  i64 flush()
      throws (1: node.ServiceError failure) (right = "push", retry = "always", result = "lsn")

  /**
   * Returns the changes of this server in their order: records of the log from LSN `cursor` on (the
   * first LSN is 1). LSNs have no gaps. A follower that stores the last next_lsn therefore loses no
   * change and receives none twice, even if the server restarts. The call returns only records that
   * are on the disk, which no crash can undo. The record of a change of a table of durability NONE
   * has an LSN and no body.
   *
   * The reply has at most max_bytes bytes of records, and at most 1 MiB; a longer record comes
   * alone. If the record at the cursor is not on the disk yet, the call waits up to wait_ms
   * milliseconds (at most 300,000) and then returns no records.
   *
   * STALE: the record was deleted because a snapshot contains its change; the message gives the
   * oldest LSN. The follower must then start with a snapshot, and read from the LSN after
   * SnapshotInfo.lsn. It must skip a change of a row if the row's LSN in the snapshot shows that
   * the row already contains the change. INVALID_ARGUMENT: the cursor is beyond the next LSN.
   * RESOURCE_EXHAUSTED with retry_after_ms: there is no memory for the records, or 1024 calls are
   * pending.
   */
  LogBatch read_log(1: i64 cursor, 2: i32 max_bytes (min = "0"), 3: i32 wait_ms (min = "0"))
      throws (1: node.ServiceError failure) (right = "read", retry = "always", result = "batch")

  /**
   * Writes a snapshot of all tables, the model and the push ids, and returns when it is complete.
   * Lookups and pushes continue meanwhile. The server keeps the newest snapshots (--keep-snapshots)
   * and the log from the oldest kept snapshot on. It deletes older snapshots and the log before
   * them. RESOURCE_EXHAUSTED with retry_after_ms: another snapshot is being written.
   *
   * incremental: the snapshot has only the rows that changed since the newest snapshot, together
   * with the files of that snapshot. A table is written whole if its increments would exceed half
   * of its size, or if it has --snapshot-increments increments. FALSE: every table is written
   * whole.
   */
  SnapshotInfo snapshot(1: bool incremental (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "admin", result = "info")

  /**
   * Creates tables from snapshots, either all of them or none. Returns when the tables are durable,
   * with the snapshot that contains them. The tables lie in host memory.
   *
   *   snapshots  paths below the server's --import-dir, without "." and "..". Each is the folder of
   *              a snapshot or a data directory, whose newest snapshot is then used. For a sharded
   *              table, the list must name the snapshots of all of its shards.
   *   tables     the tables to create. Shard and dtype may differ from those in the snapshots. The
   *              optimizer state is restored if the kind of optimizer is the same. An empty list
   *              restores all tables of the snapshots, each as it is in the first snapshot that has
   *              it.
   *
   * If pushes were running while a snapshot was written, its rows are from different points between
   * its lsn and its end_lsn. The call does not restore models and push ids; to restore those, start
   * a server with --restore-from.
   *
   * INVALID_ARGUMENT: a path is wrong, a table has another size in a snapshot, or a row is in two
   * snapshots. NOT_FOUND: there is no such path, snapshot or table. PERMISSION_DENIED: the server
   * has no --import-dir. ALREADY_EXISTS: the server has such a table. RESOURCE_EXHAUSTED: the
   * tables do not fit; with retry_after_ms, another snapshot is being written or read. If the
   * client does not wait for the reply, the server nevertheless completes the work.
   */
  SnapshotInfo restore(1: list<string> snapshots,
                       2: list<embedding_table.TableSpec> tables (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "admin", result = "info")

  /**
   * Creates one table whose rows come from files of other programs, of FLOAT16, BFLOAT16, FLOAT32
   * or FLOAT64. The reply and the errors are those of restore.
   *
   *   files   paths as in restore, of .safetensors or .npy files. If several safetensors files have
   *           the metadata DCP_SHARDING_INFO (of torch.distributed.checkpoint), each of them holds
   *           a part of the tensor.
   *   tensor  name of the tensor in safetensors; "" = the only matrix, or the name of the table
   *           with ".weight"
   */
  SnapshotInfo import_table(1: embedding_table.TableSpec spec, 2: list<string> files,
                            3: string tensor (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "admin", result = "info")
}
