/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A trainer with a fake model and a fake exchange. */

#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/trainer/ddp/ddp.h"
#include "tests/runtime/trainer/ddp/fakes.h"

struct TraineeOptions
{
  double first_mib = 0, cap_mib = 0;
  const char *compress = "none";
  const char *hook = "rpc_hook";
  TpsProcessGroup *group = nullptr;
  /* The pieces of each bucket. */
  std::vector<std::vector<TpsPiece>> pieces = { { { 2, 0, 0, 0 } },
                                                { { 0, 1, 0, 0 } },
                                                { { 1, 2, 0, 0 } } };
};

class Trainee
{
public:
  explicit Trainee (const std::vector<FakeModel::Parameter> &parameters,
                    const TraineeOptions &chosen = {})
      : model (parameters), pieces_ (chosen.pieces)
  {
    TpsDdpOptions options = {};
    GError *error = nullptr;

    for (const std::vector<TpsPiece> &of_bucket : pieces_)
      routes_.push_back ({ of_bucket.data (), static_cast<guint> (of_bucket.size ()) });
    context.state = tps_hook_state_class_find ("BasicHookState", nullptr)->create ();
    context.metrics = tps_metrics_new (nullptr, nullptr);
    context.exchange = exchange.get ();
    context.group = chosen.group;
    context.routes = routes_.data ();
    context.timeout_ns = G_GINT64_CONSTANT (60000000000);
    options.first_bucket_mib = chosen.first_mib;
    options.bucket_cap_mib = chosen.cap_mib;
    options.hook = tps_hook_find (chosen.hook, nullptr);
    EXPECT_TRUE (tps_compression_parse (chosen.compress, &options.compression, nullptr));
    options.context = &context;
    ddp = tps_ddp_new (model.get (), &options, &error);
    EXPECT_EQ (error, nullptr);
    context.state->klass->next_batch (context.state);
  }

  ~Trainee ()
  {
    tps_ddp_free (ddp);
    tps_metrics_unref (context.metrics);
    context.state->klass->free (context.state);
  }

  /* Return "", or the code and text of the error. */
  std::string
  backward ()
  {
    GError *error = nullptr;

    tps_ddp_backward (ddp, nullptr, &error);
    return text_of (error);
  }

  std::string
  join_step ()
  {
    GError *error = nullptr;

    tps_ddp_join_step (ddp, &error);
    return text_of (error);
  }

  /* Returns the values of a reduced bucket; none if it has no data. */
  std::vector<float>
  reduced (guint bucket)
  {
    const TpsGradient *gradient = tps_ddp_get_reduced (ddp, bucket);

    if (gradient->kind == TPS_GRADIENT_NONE)
      return {};
    const TpsTensor *values = gradient->kind == TPS_GRADIENT_DENSE ? &gradient->dense
                                                                   : &gradient->values;
    const float *data = static_cast<const float *> (tps_tensor_data (values));

    return { data, data + tps_shape_n_elems (&values->shape) };
  }

  FakeModel model;
  FakeExchange exchange { 3 };
  TpsHookContext context = {};
  TpsDdp *ddp;

private:
  const std::vector<std::vector<TpsPiece>> pieces_;
  std::vector<TpsRoute> routes_;
};
