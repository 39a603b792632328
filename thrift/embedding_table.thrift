// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Embedding tables. A server keeps the rows of its tables, looks up rows, combines the rows of
// bags, and updates rows in place. Ids on the wire are always global, with any sharding.

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

/**
 * The function that combines the rows of a bag into one vector. The vector of an empty bag is zero.
 */
enum Pooling {
  SUM = 1,
  /** the sum, divided once by the number of rows */
  MEAN = 2,
  /**
   * The maximum of each column. Servers refuse it with INVALID_ARGUMENT: a client looks up the rows
   * of the bags, finds the maxima, and pushes the gradients of the rows that hold them. The C and
   * Python clients do this. There, the first of equal values wins, and NaN wins over numbers.
   */
  MAX = 3
}

enum InitializerKind {
  ZEROS = 1,
  /** in [low, high]; defaults 0 and 1 */
  UNIFORM = 2,
  /**
   * Uses mean and stdev (defaults 0 and 1). If low or high is set, values outside [low, high] are
   * drawn again.
   */
  NORMAL = 3
}

/**
 * The initial values of the rows. The values of a row depend only on `seed` and the global id of
 * the row, so they do not depend on the sharding.
 */
struct Initializer {
  1: InitializerKind kind (enum_type = "InitializerKind")
  2: optional double low (finite = "true")
  3: optional double high (finite = "true")
  4: optional double mean (finite = "true")
  5: optional double stdev (finite = "true")
  6: optional i64 seed (presence = "always")
}

/**
 * The durability of a change whose reply was sent: whether it survives a restart of the server,
 * with or without a crash. Modes other than NONE need a server with a data directory; other servers
 * refuse them with INVALID_ARGUMENT. In every mode, a table whose creation or deletion was answered
 * exists, or does not exist, after a restart. A lookup may see a push before its reply is sent, and
 * a crash may then undo that push.
 */
enum DurabilityMode {
  /**
   * No guarantee. After a restart, any push may be missing, and push ids are forgotten. The table
   * is as it was created or as the last snapshot has it, plus some later pushes that also changed a
   * table of another mode: the log has one record for all changes of a push.
   */
  NONE = 1,
  /**
   * A crash loses at most the acknowledged pushes of the server's last interval
   * (--durability=interval:MS, default 100 ms). If a push is lost, all later pushes are lost, too.
   * A push that is sent again under its id is applied once.
   */
  INTERVAL = 2,
  /**
   * An acknowledged push is on the disk: neither a crash nor a power failure loses it. A push that
   * is sent again under its id, with or without an earlier reply, is applied once.
   */
  COMMIT = 3
}

/**
 * How updated rows are rounded to FLOAT16 or BFLOAT16. An update reads the rows as FLOAT32,
 * computes in FLOAT32 and rounds each value once. Initial values and assigned values are always
 * rounded to nearest.
 */
enum Rounding {
  /** to the nearest value, ties to even */
  NEAREST = 1,
  /**
   * Up or down at random, so that the expectation of the rounded value is the exact value. Updates
   * that are small compared with the spacing of the row's type are therefore not lost. The random
   * bits depend only on Initializer.seed, the row, the column and the number of the table's step,
   * so results can be repeated and are the same on every device. They differ between a table and
   * its shards by hash. Values that the type can represent do not change. Values beyond its largest
   * finite value are rounded to nearest.
   */
  STOCHASTIC = 2
}

/**
 * A table, or one shard of it. An unsharded table has neither first_row nor shard_count.
 *   By range: the shard has `shard_rows` rows from `first_row` on.
 *   By hash: row r belongs to shard permute(r, rows) mod shard_count. runtime/embedding/sharding.h
 *   defines permute, a bijection of [0, rows), with test vectors. The sizes of the shards differ by
 *   one row at most.
 */
struct TableSpec {
  1: required string name (text = "name")
  /** of the whole table, > 0 */
  2: required i64 rows (min = "1")
  /** > 0 */
  3: required i32 dim
  /** FLOAT32, FLOAT16 or BFLOAT16. Optimizer state is always FLOAT32. */
  4: tensor.DType dtype (enum_type = "DType")
  /** default NORMAL(0, 1), as torch.nn.EmbeddingBag */
  5: optional Initializer initializer
  /** default SGD with learning rate 0.01 */
  6: optional tensor.Optimizer optimizer
  /** of a shard by range */
  7: optional i64 first_row (presence = "explicit")
  /** Set in replies only: memory of the table on this server, optimizer state included. */
  8: optional i64 bytes
  /** of a shard by hash, in [0, shard_count) */
  9: optional i32 shard_index (presence = "explicit")
  10: optional i32 shard_count (presence = "explicit")
  /**
   * Rows of a shard by range; default: up to the end of the table. Replies have it for every shard.
   */
  11: optional i64 shard_rows (presence = "explicit")
  /**
   * The device that computes, e.g. "cuda:0"; default: the server's device. Always set in replies.
   */
  12: optional string device (text = "name")
  /**
   * Only for devices other than "cpu": the rows lie in host memory, where the device reads and
   * writes them. This permits tables that are larger than the memory of the device.
   */
  13: optional bool host_memory
  /** Default: the server's mode. Set in replies of servers with a data directory. */
  14: optional DurabilityMode durability (enum_type = "DurabilityMode")
  /** Default NEAREST. STOCHASTIC is only for FLOAT16 and BFLOAT16. */
  15: optional Rounding rounding (enum_type = "Rounding")
}

struct BagQuery {
  1: required string table (text = "name")
  /** INT64 [nnz], each in [0, rows) */
  2: required tensor.Tensor indices
  /** INT64 [bags], ascending, starts with 0, none above nnz */
  3: required tensor.Tensor offsets
  4: Pooling pooling (enum_type = "Pooling")
  /** FLOAT32 [nnz]; only with SUM */
  5: optional tensor.Tensor weights
}

struct BagGradient {
  1: required BagQuery query
  /** of the pooled output, FLOAT32 [bags, dim] */
  2: required tensor.Tensor gradient
}

struct RowsWithLsns {
  /** [n, dim] of the table's dtype */
  1: required tensor.Tensor rows
  /**
   * INT64 [n], the LSN (log sequence number, the number of a change on this server) of each row's
   * last change, or of the table's creation.
   */
  2: required tensor.Tensor lsns
}

/**
 * A call that fails has no effect. A lookup returns each row as it was before or after an update,
 * never a partly updated row.
 */
service EmbeddingTable {
  /**
   * Creates a table and initializes its rows. The call also succeeds if the table exists with the
   * same specification. A table on a device gives the same bits as a table on the CPU. If a device
   * is lost, calls on its tables fail with UNAVAILABLE; other tables are not affected.
   *
   * ALREADY_EXISTS: the table exists with another specification. RESOURCE_EXHAUSTED: the table
   * exceeds the server's memory limit or the memory of the device. NOT_FOUND: there is no such
   * device.
   */
  void create_table(1: TableSpec spec)
      throws (1: node.ServiceError failure) (right = "admin", lane = "long")

  /** Returns the tables of this server in the order of their names. */
  list<TableSpec> list_tables()
      throws (1: node.ServiceError failure) (right = "read", lane = "long", result = "tables")
  /** Deletes a table, its rows and its optimizer state. NOT_FOUND: there is no such table. */
  void drop_table(1: string table (text = "name"))
      throws (1: node.ServiceError failure) (right = "admin", lane = "long")

  /**
   * Returns one tensor per query, FLOAT32 [bags, dim]. Rows are added in FLOAT32, in the order of
   * their indices.
   */
  list<tensor.Tensor> lookup_bags(1: list<BagQuery> queries)
      throws (1: node.ServiceError failure) (right = "read", result = "outputs")

  /** Returns the rows themselves, [n, dim] of the table's dtype, in the order of the indices. */
  tensor.Tensor lookup_rows(1: string table (text = "name"), 2: tensor.Tensor indices)
      throws (1: node.ServiceError failure) (right = "read", result = "rows")

  /**
   * Applies one step of the table's optimizer to the rows of the gradient. Duplicate indices are
   * added up first, in their order. The values must be FLOAT32 or of the table's dtype. A gradient
   * without rows is also a step, and optimizers that count steps (ADAM) count it. If a push id is
   * set, the step is applied once, even if the call is sent several times.
   */
  void apply_row_gradients(1: string table (text = "name"), 2: tensor.SparseTensor gradient,
                           3: tensor.PushId push (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "push", command = "true")

  /**
   * Propagates gradients of pooled outputs back to the rows of their bags. With SUM, each row of a
   * bag receives the gradient of the bag, times the weight of the row. With MEAN, each row receives
   * the gradient divided by the number of rows. Then each table takes one step, as in
   * apply_row_gradients, even if several gradients of the list name it. UNAVAILABLE: if a device was
   * lost after some tables had taken their step, the message names these tables. A repeat with the
   * same push id is then not applied, and gets the same error.
   */
  void apply_bag_gradients(1: list<BagGradient> gradients,
                           2: tensor.PushId push (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "push", command = "true")

  /**
   * Returns the rows as lookup_rows does, and for each row the LSN of its last change (see
   * RowsWithLsns); the row and its LSN are consistent with each other. INVALID_ARGUMENT: the table
   * is not in host memory, or the server has no data directory.
   */
  RowsWithLsns lookup_rows_with_lsns(1: string table (text = "name"), 2: tensor.Tensor indices)
      throws (1: node.ServiceError failure) (right = "read", retry = "always", result = "rows")

  /**
   * Sets rows to `values` [n, dim], FLOAT32 or of the table's dtype. If an index occurs more than
   * once, its last value wins. Optimizer state is unchanged, and the call does not count as a step.
   * With a push id it is applied once.
   *
   *   lsn  an LSN of this server, or 0. A row that changed after this LSN keeps its value, because
   *        it is newer. A client can thus write back values that it read at an LSN, or load a
   *        snapshot, while pushes continue. With 0, the call sets every row.
   *
   * INVALID_ARGUMENT: the table is on a device, or `lsn` is not 0 and lookup_rows_with_lsns would
   * be refused.
   */
  void assign_rows(1: string table (text = "name"), 2: tensor.Tensor indices,
                   3: tensor.Tensor values, 4: i64 lsn (min = "0", presence = "optional"),
                   5: tensor.PushId push (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "push", retry = "push, lsn", command = "true")
}
