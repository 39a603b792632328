/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model with a sequence of updates, and the calls of a server that trains it, without a client
 * library. */

#pragma once

#include <gtest/gtest.h>

#include "tests/integration/durable/data_server.h"
#include "tests/runtime/server/model/models.h"

namespace thriftps_test {

using updating_test::Values;

inline const updating_test::Shapes kModelShapes = { { 3, 4 }, { 5 } };

/* The gradients of all updates and the values of all versions. Update s makes version s + 1. */
class ModelStory
{
public:
  explicit ModelStory (uint32_t seed)
      : random_ (seed), versions_ { {}, updating_test::draw_values (kModelShapes, &random_) },
        gradients_ { {} }, naive_ (versions_[1], 0.5f, 0.25f)
  {
  }

  static TpsOptimizerSpec
  optimizer ()
  {
    TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 0.5);

    spec.momentum = 0.25;
    return spec;
  }

  /* Draws the next update. Returns its number. */
  gint64
  next ()
  {
    gradients_.push_back (updating_test::draw_values (kModelShapes, &random_));
    naive_.update ({ gradients_.back () });
    versions_.push_back (naive_.values ());
    return last ();
  }

  /* Returns the number of the newest update; 0 = none. */
  gint64
  last () const
  {
    return static_cast<gint64> (gradients_.size ()) - 1;
  }

  const Values &
  gradients (gint64 update) const
  {
    return gradients_.at (static_cast<size_t> (update));
  }

  const Values &
  version (gint64 version) const
  {
    return versions_.at (static_cast<size_t> (version));
  }

private:
  std::mt19937 random_;
  std::vector<Values> versions_, gradients_;
  updating_test::NaiveModel naive_;
};

struct ModelReply
{
  int code = -1; /* -1 = the connection was lost */
  gint64 version = 0;
  Values values;
};

inline ModelReply
read_model (const Message &reply)
{
  TpsModelVersion *model = nullptr;
  ModelReply answer;

  if (reply == nullptr)
    return answer;
  answer.code = ErrorCode (reply);
  if (read_result<tps_get_model_rpc> (reply, &model))
    {
      answer.version = model->version;
      answer.values = updating_test::to_values (model);
      tps_model_version_unref (model);
    }
  return answer;
}

inline ModelReply
get_model (RawClient &connection)
{
  return read_model (connection.Call ("ParameterServer:get_model"));
}

/* Sends update `number` of a trainer without waiting for the reply. The sequence number of its push
 * id is also `number`. */
inline void
send_update (RawClient &connection, const ModelStory &story, gint64 number, gint32 trainer)
{
  auto tensors = updating_test::to_tensors (kModelShapes, story.gradients (number));
  std::string client = "trainer" + (trainer > 0 ? std::to_string (trainer) : "");
  TpsUpdateModelArguments arguments = {};

  arguments.trainer = trainer;
  arguments.gradients = { static_cast<guint> (tensors.size ()), tensors.data () };
  arguments.push = { &client[0], number };
  connection.Send ("ParameterServer:update_and_fetch_model", static_cast<gint32> (number),
                   fields_of<tps_update_and_fetch_model_rpc> (&arguments));
  for (TpsTensor &tensor : tensors)
    tps_tensor_clear (&tensor);
}

/* Sends update `number` of the only trainer. */
inline ModelReply
update_model (RawClient &connection, const ModelStory &story, gint64 number)
{
  send_update (connection, story, number, 0);
  return read_model (connection.Receive ());
}

inline void
init_model (RawClient &connection, const ModelStory &story)
{
  auto parameters = updating_test::to_parameters (kModelShapes, story.version (1));
  TpsInitModelArguments arguments = {};

  arguments.n_parameters = static_cast<guint> (parameters.size ());
  arguments.parameters = parameters.data ();
  arguments.optimizer = ModelStory::optimizer ();
  EXPECT_EQ (ErrorCode (connection.Call ("ParameterServer:init_model",
                                         fields_of<tps_init_model_rpc> (&arguments))),
             0);
  for (TpsNamedTensor &parameter : parameters)
    tps_named_tensor_clear (&parameter);
}

} // namespace thriftps_test
