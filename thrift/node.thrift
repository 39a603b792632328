// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// What every ThriftPS process answers, whatever role it has: who it is and how it is doing.
// Also the one exception of the contract.

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

// Why a call failed. Values above 12 may be added: treat an unknown value like INTERNAL.
enum ErrorCode {
  // the request is wrong and would be wrong again; the message names the argument
  INVALID_ARGUMENT = 1,
  NOT_FOUND = 2,           // no such table or key
  ALREADY_EXISTS = 3,      // there is one of that name with another specification
  STALE = 4,               // older than what the server still remembers or allows
  DUPLICATE = 5,           // this push id was used for other bytes
  DEADLINE_EXCEEDED = 6,   // others did not come in time; the message names who was missing
  // too large, too many, no memory, no room on the disk; see retry_after_ms
  RESOURCE_EXHAUSTED = 7,
  // shutting down, recovering, device lost, read-only after a disk failed, or a call that would
  // wait where waiting is impossible; see retry_after_ms
  UNAVAILABLE = 8,
  ABORTED = 9,             // a newer batch or a reset ended the round this call waited for
  UNAUTHENTICATED = 10,
  PERMISSION_DENIED = 11,
  INTERNAL = 12            // a defect of the server
}

// Every method of every service throws this, so that an old client never takes a failure for
// success.
exception ServiceError {
  1: ErrorCode code
  2: required string message
  // present where trying again is sensible, and how long to wait first
  3: optional i32 retry_after_ms
  // the answer is too long for a frame and waits under this name, see chunks.thrift
  4: optional string transfer
}

// Statistics of one metric over all its samples since the last clear. All times in milliseconds.
struct MetricSummary {
  1: string type                     // group, e.g. "parameter_server_batch_metric"
  2: string name                     // e.g. "param_index_batch"
  3: i64 count
  4: double min_ms
  5: double max_ms
  6: double mean_ms
  7: optional double stdev_ms        // of the sample (n - 1); absent where count < 2
  8: double p50_ms
  9: double p95_ms
  10: double p99_ms
  11: optional binary samples_ms     // float64, little-endian, the newest 65,536, oldest first
}

// What a server with a data directory does with it.
enum DurabilityPhase {
  // applies its log again; all calls of EmbeddingTable and ParameterServer get UNAVAILABLE with
  // retry_after_ms
  RECOVERING = 1,
  LIVE = 2,
  // no room on the disk: changes get RESOURCE_EXHAUSTED, lookups are answered; goes on by itself
  FULL = 3,
  // a write to the disk failed: changes get UNAVAILABLE until the server is restarted
  READ_ONLY = 4,
  FAILED = 5       // the log cannot be applied: all calls get UNAVAILABLE; the message says why
}

struct DurabilityInfo {
  1: DurabilityPhase phase
  // of the last command that has been applied again (RECOVERING), or is on the disk
  2: i64 lsn
  3: i64 end_lsn                  // of the last command that is to be applied, or was made
  4: i64 bytes                    // of the log: applied again, or written since the start
  5: optional i64 end_bytes       // of the log: to be applied
  6: optional i64 remaining_ms    // of the recovery, an estimate
}

struct NodeInfo {
  1: string name                     // as given at start, e.g. "server2"
  2: string version                  // of ThriftPS, "major.minor.patch"
  3: optional i64 max_frame_bytes    // the largest frame this process reads
  4: optional list<string> services  // names that the multiplexed protocol reaches here
  5: optional list<string> devices   // "cpu", "cuda:0", ...
  6: optional i64 table_bytes        // held by embedding tables here, optimizer state included
  7: optional i64 max_table_bytes    // what they may hold in all
  // of segments on the connection that asks; absent: none are offered, see memory.thrift
  8: optional i64 max_shared_bytes
  // UUID of the CUDA device in whose memory they may lie too, 16 bytes; absent: in none
  9: optional binary shared_device
  10: optional DurabilityInfo durability  // absent: the server has no data directory
}

service Node {
  NodeInfo describe() throws (1: ServiceError failure)
  // One entry a metric, in the order of first use; with_samples adds the raw values.
  list<MetricSummary> get_metrics(1: bool with_samples) throws (1: ServiceError failure)
  void clear_metrics() throws (1: ServiceError failure)
  // Reads the files of --tls-cert, --tls-key and --tls-ca again, as SIGHUP does. Connections that
  // are open go on as they are. INVALID_ARGUMENT: a file cannot be used, and everything stays as it
  // was; or the server does not encrypt.
  void reload_certificates() throws (1: ServiceError failure)
  // Reads the files of --access-file and --token-file again, as SIGHUP does. They count from the
  // next call of each connection. INVALID_ARGUMENT: a file cannot be used (the message names file,
  // line and reason), and everything stays as it was; or the server has neither.
  void reload_access() throws (1: ServiceError failure)
  // Chooses the least severe level of the log, for all areas or by area, as --log-level does:
  // "info,net=debug". Answers the levels that held before, in the same form. INVALID_ARGUMENT: the
  // text cannot be read; the levels stay as they were.
  string set_log_level(1: string levels) throws (1: ServiceError failure)
}
