// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// The service that every ThriftPS process serves, in any role. It reports the identity, the state
// and the metrics of the process, and changes some settings of the running process. This file also
// defines ServiceError, the only exception of the contract.

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.node
namespace go thriftps.node
namespace js thriftps.node
namespace rb ThriftPS
namespace perl ThriftPS.Node
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

/**
 * The reason for the failure of a call. Later versions may add values above 12: a client must treat
 * an unknown value like INTERNAL.
 */
enum ErrorCode {
  /**
   * The request is wrong and will be refused again if it is repeated. The message names the
   * argument.
   */
  INVALID_ARGUMENT = 1,
  /** there is no such table or key */
  NOT_FOUND = 2,
  /** the name is in use with another specification */
  ALREADY_EXISTS = 3,
  /** older than the state that the server still remembers or allows */
  STALE = 4,
  /** the push id was used before with other bytes */
  DUPLICATE = 5,
  /** other participants were late; the message names the missing ones */
  DEADLINE_EXCEEDED = 6,
  /** A limit on size, number, memory or disk space was reached; see retry_after_ms. */
  RESOURCE_EXHAUSTED = 7,
  /**
   * The server is shutting down or recovering, a device was lost, changes are refused because a
   * write to the disk failed, or the call would have to wait where waiting is impossible; see
   * retry_after_ms.
   */
  UNAVAILABLE = 8,
  /** a newer batch or a reset ended the round that this call waited for */
  ABORTED = 9,
  UNAUTHENTICATED = 10,
  PERMISSION_DENIED = 11,
  /** a defect of the server */
  INTERNAL = 12
} (open = "true")

/**
 * Every method of every service declares this exception, so that an old client cannot mistake a
 * failure for a success.
 */
exception ServiceError {
  1: ErrorCode code (enum_type = "ErrorCode")
  2: required string message
  /** Set if a retry can succeed: the time that the client should wait first, in milliseconds. */
  3: optional i32 retry_after_ms (presence = "explicit")
  /**
   * Set if the reply is too long for a frame: the server keeps it under this name, and the client
   * may fetch it in chunks (see chunks.thrift).
   */
  4: optional string transfer (text = "name")
}

/**
 * Statistics of one metric over all of its samples since the last clear_metrics(). All times are in
 * milliseconds.
 */
struct MetricSummary {
  /** group, e.g. "parameter_server_batch_metric" */
  1: string type (presence = "required")
  /** e.g. "param_index_batch" */
  2: string name (presence = "required")
  3: i64 count (presence = "required")
  4: double min_ms (presence = "required")
  5: double max_ms (presence = "required")
  6: double mean_ms (presence = "required")
  /** of the sample (n - 1); absent if count < 2 */
  7: optional double stdev_ms
  8: double p50_ms (presence = "required")
  9: double p95_ms (presence = "required")
  10: double p99_ms (presence = "required")
  /** float64, little-endian, the newest 65,536, oldest first */
  11: optional binary samples_ms
}

/** The state of durability in a server with a data directory. */
enum DurabilityPhase {
  /**
   * The server is replaying its log. All calls of EmbeddingTable and ParameterServer fail with
   * UNAVAILABLE and retry_after_ms.
   */
  RECOVERING = 1,
  LIVE = 2,
  /**
   * The disk has no room: changes fail with RESOURCE_EXHAUSTED, lookups work. The server returns to
   * LIVE by itself when there is room again.
   */
  FULL = 3,
  /** A write to the disk failed: changes fail with UNAVAILABLE until the server is restarted. */
  READ_ONLY = 4,
  /**
   * The log cannot be replayed: all calls fail with UNAVAILABLE, and the message gives the reason.
   */
  FAILED = 5
} (open = "true")

struct DurabilityInfo {
  1: DurabilityPhase phase (enum_type = "DurabilityPhase")
  /**
   * An LSN is the number of a command in the log (log sequence number). RECOVERING and FAILED: the
   * last command that has been replayed. Other phases: the last command that is on the disk.
   */
  2: i64 lsn
  /**
   * RECOVERING and FAILED: the last command to replay. Other phases: the last command that was
   * admitted.
   */
  3: i64 end_lsn
  /**
   * RECOVERING and FAILED: bytes of the snapshot and the log that were read. Other phases: bytes of
   * the log that were written since the start. 0, and end_bytes is absent, unless the caller may
   * read all tables.
   */
  4: i64 bytes
  /** bytes of the snapshot and the log to read */
  5: optional i64 end_bytes
  /** estimated time until the end of the recovery */
  6: optional i64 remaining_ms (presence = "explicit")
}

struct NodeInfo {
  /** as given at the start, e.g. "server2" */
  1: string name (presence = "required")
  /** of ThriftPS, "major.minor.patch" */
  2: string version (presence = "required")
  /** the largest frame that this process reads */
  3: optional i64 max_frame_bytes
  /** names for the multiplexed protocol */
  4: optional list<string> services (text = "name")
  /** "cpu", "cuda:0", ... */
  5: optional list<string> devices (text = "name")
  /**
   * Memory of the embedding tables here, optimizer state included. Fields 6 and 7 are absent unless
   * the caller may read all tables.
   */
  6: optional i64 table_bytes (presence = "explicit")
  /** limit of table_bytes */
  7: optional i64 max_table_bytes
  /**
   * Limit of the bytes of shared-memory segments on the connection of this call; absent if none are
   * offered (see memory.thrift).
   */
  8: optional i64 max_shared_bytes
  /**
   * UUID, 16 bytes, of the CUDA device whose memory may hold segments for gradients and averages;
   * absent if there is no such device.
   */
  9: optional binary shared_device (size = "16")
  /** absent if there is no data directory */
  10: optional DurabilityInfo durability (presence = "explicit")
  /**
   * UUID, 16 bytes, of the CUDA device whose memory may hold segments for results of lookups;
   * absent if there is no such device. If field 9 is set, too, both name the same device.
   */
  11: optional binary lookup_device (size = "16")
}

service Node {
  NodeInfo describe()
      throws (1: ServiceError failure) (right = "any", result = "info")
  /** Returns one entry per metric, in the order of first use. with_samples adds the raw values. */
  list<MetricSummary> get_metrics(1: bool with_samples)
      throws (1: ServiceError failure) (right = "read", lane = "long", result = "metrics")
  void clear_metrics()
      throws (1: ServiceError failure) (right = "admin")
  /**
   * Reads the files of --tls-cert, --tls-key and --tls-ca again, as SIGHUP does. Open connections
   * are not affected. INVALID_ARGUMENT: a file cannot be used, and the old files stay in force. The
   * code is the same if the server does not use encryption.
   */
  void reload_certificates()
      throws (1: ServiceError failure) (right = "admin", lane = "long")
  /**
   * Reads the files of --access-file and --token-file again, as SIGHUP does. The new rules apply
   * from the next call of each connection. INVALID_ARGUMENT: a file cannot be used (the message
   * names file, line and reason), and the old rules and tokens stay in force. The code is the same
   * if the server has neither file.
   */
  void reload_access()
      throws (1: ServiceError failure) (right = "admin", lane = "long")
  /**
   * Sets the least severe level that the log records, for all areas or by area, in the form of
   * --log-level: "info,server=debug". Returns the previous levels in the same form.
   * INVALID_ARGUMENT: the text cannot be parsed, and the levels stay as they were.
   */
  string set_log_level(1: string levels)
      throws (1: ServiceError failure) (right = "admin", result = "levels")
  /**
   * Forgets the push ids of the clients of a tenant that have sent no push for idle_ms, of tables,
   * of the model and of Rendezvous, and returns the number of these clients. Use it if the share of
   * the tenant in the memory of push ids is full (see OPERATING.md). "" = callers without a tenant.
   * If such a client repeats a push after the call, the push is applied again. With a data
   * directory, a restart remembers the ids again unless a snapshot was written after the call.
   */
  i64 forget_push_clients(1: string tenant, 2: i64 idle_ms)
      throws (1: ServiceError failure) (right = "admin", lane = "long", result = "clients")
}
