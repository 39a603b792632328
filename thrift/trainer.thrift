// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Runs training passes in a process that was started as a trainer.

include "tensor.thrift"
include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.trainer
namespace go thriftps.trainer
namespace js thriftps.trainer
namespace rb ThriftPS
namespace perl ThriftPS.Trainer
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

/** One mini-batch: input INT64 [batch, length] (ids), target INT64 [batch] (classes). */
struct TrainBatch {
  1: required tensor.Tensor input
  2: required tensor.Tensor target
}

/** The address of one parameter server: "host:port" or "unix:/path". */
struct ServerAddress {
  /** global rank, for error messages */
  1: required i32 rank
  2: required string address
}

/**
 * One training pass of one trainer. Names of classes and functions are keys of the registries that
 * `parameter_server --list` prints. An unknown name fails with INVALID_ARGUMENT, and the message
 * lists the known names.
 */
struct TrainSpec {
  /** Prefix of the rendezvous keys of this pass. Every pass must have a prefix of its own. */
  1: required string pass_name (text = "name")
  /** of this trainer, in [0, world_size) */
  2: required i32 rank (min = "0")
  /** number of trainers */
  3: required i32 world_size (min = "0")
  /** JSON: {"model_class": ..., "configurations": {...}} */
  4: required string model_config
  5: required list<TrainBatch> batches
  /**
   * The largest number of batches of any trainer. Trainers with fewer batches take part without
   * data in the remaining steps.
   */
  6: required i32 steps_per_epoch (min = "0")
  7: i32 epochs (min = "0")
  /** of the initial parameters; must be the same for every trainer */
  8: i64 seed
  /** "DdpTrainer", "DdpRpcTrainer", "BatchUpdateTrainer" */
  9: string trainer
  /** JSON object of named arguments; "" = none */
  10: string trainer_config
  /** Process group: "gloo", "nccl", or "multi" (Gloo for host memory, NCCL for device memory). */
  11: string backend
  /**
   * Names of functions and classes that the pass calls; each is a key of a registry, as above.
   * checks or prepares the batches, e.g. "preprocess_dummy_data"
   */
  12: string preprocess_data
  /** the loss, e.g. "cel" */
  13: string create_criterion
  /** binds the model to buckets and hooks: "basic_ddp_model" */
  14: string create_ddp_model
  /** the state of the hooks, e.g. "BasicHookState" */
  15: string hook_state
  /** the communication of gradients, e.g. "rpc_hook" */
  16: string ddp_hook
  /** one training step, e.g. "basic_iteration_step" */
  17: string iteration_step
  /** in ascending order of ranks; may be empty */
  18: list<ServerAddress> servers
  /**
   * true: all buckets of a trainer go to one server, which averages only its own trainers. false:
   * each bucket goes to one server, which averages it over all trainers.
   */
  19: bool partition_by_trainer
  20: double first_bucket_mib
  21: double bucket_cap_mib
  22: double learning_rate
  /** timeout of the round of one gradient */
  23: i32 rpc_timeout_ms
  /** Address of the Rendezvous service; "" = the address in the configuration of the process. */
  24: string rendezvous
  /** "mean" or "sum": the result of all-reduce hooks */
  25: string reduce
  /** Compression of gradients on the wire: "none" (the default), "fp16", "bf16", "topk:RATIO". */
  26: optional string compress
  /**
   * The device that computes: "cpu" (the default, also for ""), "cuda" (the trainer chooses one of
   * the machine's CUDA devices by its rank on this machine), or one device, "cuda:1".
   */
  27: optional string device
  /**
   * Buckets travel to parameter servers in pieces of about this many bytes, each in a round of its
   * own, so that a server receives one piece while it returns another. 0 (the default): whole
   * buckets. The value must be the same for every trainer; otherwise rounds would not match.
   */
  28: optional i64 piece_bytes (min = "0")
}

enum TrainState {
  IDLE = 1,
  RUNNING = 2,
  SUCCEEDED = 3,
  FAILED = 4,
  CANCELLED = 5
}

struct TrainStatus {
  1: TrainState state (enum_type = "TrainState")
  /** of the last train() call; "" before the first */
  2: string pass_name (presence = "required")
  3: i64 steps_done (presence = "required")
  4: i64 steps_total (presence = "required")
  /** A counter that grows while the trainer makes progress or waits with a deadline. */
  5: i64 heartbeat (presence = "required")
  /** only if state is FAILED */
  6: optional node.ErrorCode error_code (enum_type = "ErrorCode", presence = "explicit")
  7: optional string message
  /** of the last step */
  8: optional double loss (presence = "explicit")
  /**
   * 16 bytes, XXH3-128 of all parameters. After a pass it is equal on all trainers, with two
   * exceptions. With partition_by_trainer, it is equal only on the trainers of one server. With a
   * quorum (--min-trainers of the server), a trainer that is too late for the last update has an
   * older model.
   */
  9: optional binary parameters_digest (size = "16")
  /** Number of samples so far; only from trainers that make their own batches. */
  10: optional i64 samples (presence = "explicit")
  /** number of samples in the last complete epoch */
  11: optional i64 epoch_samples (presence = "explicit")
}

service Trainer {
  /**
   * Starts a training pass and returns at once. status() reports its progress and its result.
   * ALREADY_EXISTS: a pass is running.
   */
  void train(1: TrainSpec spec)
      throws (1: node.ServiceError failure) (right = "admin", lane = "long")
  TrainStatus status()
      throws (1: node.ServiceError failure) (right = "read", result = "status")
  /** Ends the running pass as soon as possible. Succeeds if no pass is running. */
  void cancel()
      throws (1: node.ServiceError failure) (right = "admin")
}
