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
  1: required string name
  2: required tensor.Tensor tensor
}

struct Model {
  1: required i64 version            // 1 after init_model, one more with every update
  2: required list<NamedTensor> parameters
}

service ParameterServer {
  // Takes part in the round (batch, param_loc) and answers, when all trainers have, with the
  // average: the sum of weight x gradient in ascending trainer order, divided by the sum of the
  // weights. The same bits for any order of arrival. All trainers of a round get the same answer.
  //   trainer    in [0, trainers of this server)
  //   batch      >= 0, grows; a greater one ends older rounds that still wait (their callers get
  //              ABORTED). The next job begins above the batches of the last one: OPERATING.md, the
  //              next job
  //   param_loc  >= 0, names the bucket
  //   gradient   floating point; the same shape, dtype and kind from every trainer of the round
  // A repeat of the same bytes is answered as the first time while the server remembers the batch,
  // STALE after; a repeat with other bytes is INVALID_ARGUMENT. Ends with DEADLINE_EXCEEDED when
  // others do not come in time.
  tensor.Gradient average_gradient(1: i32 trainer, 2: i64 batch, 3: i32 param_loc, 4: tensor.Gradient gradient)
      throws (1: node.ServiceError failure)

  // Forgets all rounds, the model and metrics; calls that wait get ABORTED.
  void reset_state() throws (1: node.ServiceError failure)

  // Sets the model that update_and_fetch_model trains, and its optimizer; its version is 1. OK when
  // there is one of the same first parameters and optimizer already, so that every trainer may call
  // it; ALREADY_EXISTS when they differ.
  //   parameters  FLOAT32 each, names unique, at least one
  void init_model(1: list<NamedTensor> parameters, 2: tensor.Optimizer optimizer)
      throws (1: node.ServiceError failure)

  // NOT_FOUND before init_model.
  Model get_model() throws (1: node.ServiceError failure)

  // Takes part in the update of the model and answers, when it is made, with the new model. An
  // update is made when every trainer of this server has taken part, or at the deadline, which runs
  // from the first one, when at least as many have as the server was told suffice (--min-trainers);
  // otherwise all of them then get ABORTED naming who was missing, and their gradients are dropped.
  // The optimizer is given the mean: the sum in ascending trainer order, divided by the number of
  // trainers that took part.
  //   trainer    in [0, trainers of this server)
  //   gradients  one a parameter, in the model's order, of its shape and dtype
  //   push       optional: sent again, it is answered as the first time
  //   version    of the model that the gradients were computed on; 0 = not said. STALE when it is
  //              older than the newest by more than the server allows (--max-staleness)
  // A trainer takes part once in an update: the same bytes again wait with the first, others are
  // INVALID_ARGUMENT.
  Model update_and_fetch_model(1: i32 trainer, 2: list<tensor.Tensor> gradients, 3: tensor.PushId push, 4: i64 version)
      throws (1: node.ServiceError failure)
}
