/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Calls that change the model of a server in this process. */

#pragma once

#include "tests/runtime/server/durable/durable_fixture.h"
#include "tests/runtime/server/model/models.h"

namespace thriftps {

/* Sends an update of the only trainer, and waits for the reply. The model has one parameter. */
struct Update
{
  Update (Server &server, gint64 sequence, const std::vector<float> &gradient)
  {
    auto gradients = updating_test::to_tensors ({ { static_cast<int64_t> (gradient.size ()) } },
                                                { gradient });

    TpsModelPush push = {};
    push.n_gradients = 1;
    push.gradients = gradients.data ();
    push.client = "trainer";
    push.sequence = sequence;
    push.may_wait = TRUE;
    updating_test::Answer answer;
    tps_model_server_update_and_fetch (server.model, &push, updating_test::Answer::done, &answer);
    answer.wait ();
    code = answer.code;
    version = answer.version;
    values = answer.values;
    for (TpsTensor &tensor : gradients)
      tps_tensor_clear (&tensor);
  }

  int code = 0;
  gint64 version = 0;
  updating_test::Values values;
};

/* Creates a model of one parameter. Returns the error's code, or 0. */
inline int
init_model (Server &server, const std::vector<float> &values, const TpsOptimizerSpec &optimizer)
{
  auto parameters = updating_test::to_parameters ({ { static_cast<int64_t> (values.size ()) } },
                                                  { values });
  g_autoptr (GError) error = nullptr;

  tps_model_server_init_model (server.model, parameters.data (), 1, &optimizer, &error);
  tps_named_tensor_clear (&parameters[0]);
  return error != nullptr ? error->code : 0;
}

} // namespace thriftps
