// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0
//
// Averages gradients among trainers, and trains a model from accumulated gradients.

include "tensor.thrift"
include "node.thrift"

namespace c_glib TpsWire
namespace cpp thriftps
namespace java org.thriftps
namespace py thriftps.parameter_server
namespace go thriftps.parameter_server
namespace js thriftps.parameter_server
namespace rb ThriftPS
namespace perl ThriftPS.ParameterServer
namespace php ThriftPS
namespace rs thriftps
namespace netstd ThriftPS

struct NamedTensor {
  1: required string name (text = "name")
  2: required tensor.Tensor tensor
}

struct Model {
  /** 1 after init_model; grows by 1 with every update */
  1: required i64 version
  2: required list<NamedTensor> parameters
}

/**
 * Restarts. A server with a data directory keeps the model, the optimizer's state, the replies of
 * the last updates and the push ids, according to --durability. The modes are those of
 * DurabilityMode (embedding_table.thrift). Its rules for a push apply to an update. With COMMIT,
 * the replies of init_model, reset_state and update_and_fetch_model mean that the command is on the
 * disk. With INTERVAL, a crash may undo the updates of the last interval, but not init_model and
 * reset_state. With NONE, a restarted server has the model and the push ids of its last snapshot,
 * or no model. Rounds of average_gradient, and contributions to an update that has not happened,
 * are never kept: trainers must send them again.
 */
service ParameterServer {
  /**
   * Contributes a gradient to the round (batch, param_loc). The call returns the average when all
   * trainers of the server have contributed. The average is the sum of weight x gradient in
   * ascending trainer order, divided by the sum of the weights. Its bits do not depend on the order
   * of arrival, and all trainers of a round receive the same reply.
   *
   *   trainer    in [0, trainers of this server)
   *   batch      >= 0. It must grow: a greater batch ends older rounds that are still pending, and
   *              their calls fail with ABORTED. A new job must start above the last batch of the
   *              previous job (OPERATING.md, "The next job on the same server").
   *   param_loc  >= 0, the number of the bucket, or of a piece of a bucket
   *   gradient   of a floating-point dtype. The shape, the dtype and the kind (dense or sparse)
   *              must be the same for every trainer of the round.
   *
   * If a trainer sends the same bytes again, it receives the same reply while the server remembers
   * the batch. Later, the call fails with STALE. Other bytes for the same round fail with
   * INVALID_ARGUMENT. If one of the two gradients is in memory of a device, the server compares
   * only kind, weight, shape and dtype instead of the bytes. DEADLINE_EXCEEDED: the round's
   * deadline passed before all trainers had contributed.
   */
  tensor.Gradient average_gradient(1: i32 trainer, 2: i64 batch, 3: i32 param_loc,
                                   4: tensor.Gradient gradient)
      throws (1: node.ServiceError failure) (right = "push", result = "average")

  /** Discards all rounds, the model and the metrics. Pending calls fail with ABORTED. */
  void reset_state()
      throws (1: node.ServiceError failure) (right = "admin", lane = "long")

  /**
   * Sets the initial parameters and the optimizer of the model that update_and_fetch_model trains.
   * Its version is then 1. The call also succeeds if the model was set before with the same
   * parameters and optimizer, so that every trainer may call it. ALREADY_EXISTS: the model was set
   * with other parameters or another optimizer.
   *   parameters  1 to 65,536, all FLOAT32, with unique names
   */
  void init_model(1: list<NamedTensor> parameters, 2: tensor.Optimizer optimizer)
      throws (1: node.ServiceError failure) (right = "push", retry = "always", lane = "long")

  /** Returns the newest model. NOT_FOUND: init_model was not called. */
  Model get_model()
      throws (1: node.ServiceError failure) (right = "read", retry = "always", result = "model")

  /**
   * Contributes gradients to an update of the model, and returns the updated model. The optimizer
   * receives the mean: the sum in ascending trainer order, divided by the number of contributing
   * trainers.
   *
   * The update happens when every trainer of this server has contributed. If at least
   * --min-trainers trainers have contributed, it also happens at the deadline, and as soon as the
   * server has lost the connections of all other trainers. If fewer trainers have contributed by
   * the deadline, all contributions are discarded and all calls fail with ABORTED; the message
   * names the missing trainers. The timeout of an update (--rpc-timeout) begins with its first
   * contribution.
   *
   *   trainer    in [0, trainers of this server)
   *   gradients  one per parameter, in the model's order, with its shape and dtype
   *   push       optional. A repeat of a push receives the same reply and is not applied again.
   *   version    the model version that the gradients were computed on, or 0 if unknown. STALE: it
   *              is older than the newest version by more than --max-staleness.
   *
   * A trainer contributes to an update once. A repeat of the same bytes waits together with the
   * first call. Other bytes fail with INVALID_ARGUMENT.
   */
  Model update_and_fetch_model(1: i32 trainer, 2: list<tensor.Tensor> gradients,
                               3: tensor.PushId push (presence = "optional"),
                               4: i64 version (presence = "optional"))
      throws (1: node.ServiceError failure) (right = "push", retry = "push", command = "true", result = "model")
}
