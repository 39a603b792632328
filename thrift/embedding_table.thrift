// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Embedding tables: rows that are looked up, pooled into bags and updated where they live.
// Ids on the wire are always global, whatever the sharding.

include "tensor.thrift"
include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.embedding_table
namespace go thriftps.embedding_table
namespace js thriftps.embedding_table
namespace rb ThriftPS
namespace perl ThriftPS.EmbeddingTable
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

// How the rows of a bag become one vector. An empty bag gives zeros.
enum Pooling {
  SUM = 1,
  MEAN = 2,      // the sum, divided once by the number of rows
  MAX = 3        // of each column; of equal ones the first in the bag counts, NaN wins
}

enum InitializerKind {
  ZEROS = 1,
  UNIFORM = 2,   // in [low, high]; default [0, 1]
  // mean, stdev (default 0, 1); with low or high, drawn again until it lies within them
  NORMAL = 3
}

// First values of the rows. Each row depends on `seed` and its global id alone, so sharding changes
// nothing.
struct Initializer {
  1: InitializerKind kind
  2: optional double low
  3: optional double high
  4: optional double mean
  5: optional double stdev
  6: optional i64 seed
}

// What an answer promises about a restart of the server, be it a crash or not. It counts for
// servers with a data directory; on others every mode but NONE is refused with INVALID_ARGUMENT. A
// table itself, once created, is there after a restart whatever its mode. Lookups may see a push
// before it is answered, and so one that a crash then undoes.
enum DurabilityMode {
  // nothing. After a restart any pushes may be missing, and the ids of pushes are forgotten: the
  // table is as it was created or as the last snapshot has it, with some of the later pushes that
  // named other tables too
  NONE = 1,
  // a crash loses at most the answered pushes of the server's interval (--durability=interval:MS,
  // 100 ms), the last ones, never one before another that is kept. A push sent again under its id
  // is applied once
  INTERVAL = 2,
  // the answered push is on the disk: a crash or a power cut does not lose it. A push sent again
  // under its id, answered or not, is applied once
  COMMIT = 3
}

// A table, or the part of it that one server holds. Unsharded: neither first_row nor shard_count.
//   By range: `shard_rows` rows from `first_row`.
//   By hash: row r belongs to shard permute(r, rows) mod shard_count. runtime/embedding/sharding.h
//   defines permute, a bijection of [0, rows), with test vectors. Shards differ by one row at most.
struct TableSpec {
  1: required string name
  2: required i64 rows                    // of the whole table, > 0
  3: required i32 dim                     // > 0
  // FLOAT32, FLOAT16 or BFLOAT16; optimizer state is FLOAT32 always
  4: tensor.DType dtype
  5: optional Initializer initializer     // absent = normal(0, 1), as torch.nn.EmbeddingBag
  6: optional tensor.Optimizer optimizer  // absent = SGD with learning rate 0.01
  7: optional i64 first_row               // of a row-range shard
  // answered, not asked: memory held here, optimizer state included
  8: optional i64 bytes
  9: optional i32 shard_index             // of a hash shard, in [0, shard_count)
  10: optional i32 shard_count
  // of a row-range shard; absent = up to the end. Answered for every shard
  11: optional i64 shard_rows
  // that works on the rows, e.g. "cuda:0"; absent = the server's default. Answered always
  12: optional string device
  // of a device but "cpu": rows lie in the host's memory, and the device reads and writes them
  // there, for tables larger than its own
  13: optional bool host_memory
  // absent = the server's. Answered by servers with a data directory
  14: optional DurabilityMode durability
}

struct BagQuery {
  1: required string table
  2: required tensor.Tensor indices       // INT64 [nnz], each in [0, rows)
  3: required tensor.Tensor offsets       // INT64 [bags], ascending, the first 0, none above nnz
  4: Pooling pooling
  5: optional tensor.Tensor weights       // FLOAT32 [nnz], with SUM only
}

struct BagGradient {
  1: required BagQuery query
  2: required tensor.Tensor gradient      // of the pooled output, FLOAT32 [bags, dim]
}

struct RowsWithLsns {
  1: required tensor.Tensor rows  // [n, dim] of the table's dtype
  // INT64 [n]: of each row's last change, or of the table's creation
  2: required tensor.Tensor lsns
}

// Nothing is changed by a call that fails. Lookups see each row as it was before or after any
// update, never in between.
service EmbeddingTable {
  // Makes a table and fills its rows. OK when there is one of the same specification,
  // ALREADY_EXISTS when it differs, RESOURCE_EXHAUSTED when the memory bound of the server, or the
  // device's memory, would be passed, NOT_FOUND when there is no such device. Tables on a device
  // are FLOAT32; what they answer has the bits of those on the CPU. When a device is lost, its
  // tables answer UNAVAILABLE; others live on.
  void create_table(1: TableSpec spec) throws (1: node.ServiceError failure)

  // In the order of their names.
  list<TableSpec> list_tables() throws (1: node.ServiceError failure)
  void drop_table(1: string table) throws (1: node.ServiceError failure)

  // One answer a query, each FLOAT32 [bags, dim]: rows are added in the order of their indices, in
  // FLOAT32.
  list<tensor.Tensor> lookup_bags(1: list<BagQuery> queries) throws (1: node.ServiceError failure)

  // The rows themselves, [n, dim] of the table's dtype, in the order of the indices.
  tensor.Tensor lookup_rows(1: string table, 2: tensor.Tensor indices) throws (1: node.ServiceError failure)

  // One step of the table's optimizer for the rows named; duplicates are added up first, in the
  // order given. Values are FLOAT32 or of the table's dtype. No rows at all is a step too:
  // optimizers that count steps (ADAM) count it. With a push id the step is taken once, however
  // often the call is sent.
  void apply_row_gradients(1: string table, 2: tensor.SparseTensor gradient, 3: tensor.PushId push)
      throws (1: node.ServiceError failure)

  // Spreads the gradients of pooled outputs back to the rows of their bags: SUM gives each row of a
  // bag the bag's gradient (times its weight), MEAN divided by the number of rows, MAX to the row
  // that is the maximum now. Then one step a table, as in apply_row_gradients, whatever the number
  // of its gradients in the list.
  void apply_bag_gradients(1: list<BagGradient> gradients, 2: tensor.PushId push)
      throws (1: node.ServiceError failure)

  // lookup_rows with the LSN (durability.thrift) of each row's last change, row and LSN of one
  // moment. Only for tables in the host's memory of servers with a data directory, else
  // INVALID_ARGUMENT.
  RowsWithLsns lookup_rows_with_lsns(1: string table, 2: tensor.Tensor indices)
      throws (1: node.ServiceError failure)

  // Sets rows to `values` [n, dim], FLOAT32 or of the table's dtype; of a row that is named twice
  // the last value counts. Their optimizer state stays, and it is no step of the optimizer. With an
  // `lsn` of this server, a row that has changed after it keeps what it has, which is newer: values
  // that were read at an LSN can be written back, or loaded from a snapshot, while pushes go on. 0
  // = every row is set. With a push id it is done once. INVALID_ARGUMENT for tables on devices, and
  // with an `lsn` where lookup_rows_with_lsns is refused.
  void assign_rows(1: string table, 2: tensor.Tensor indices, 3: tensor.Tensor values, 4: i64 lsn,
                   5: tensor.PushId push)
      throws (1: node.ServiceError failure)
}
