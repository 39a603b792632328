/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Models and gradients as plain vectors. */

#pragma once

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "runtime/tensor/model_version.h"

namespace updating_test {

using Values = std::vector<std::vector<float>>; /* one for each parameter */
using Shapes = std::vector<std::vector<int64_t>>;

inline TpsTensor
to_tensor (const std::vector<int64_t> &dims, const std::vector<float> &values)
{
  TpsTensor tensor = {};
  TpsShape shape;

  tps_shape_init (&shape, TPS_DTYPE_FLOAT32, static_cast<guint> (dims.size ()), dims.data (), "",
                  nullptr);
  tps_tensor_init (&tensor, &shape);
  if (!values.empty ())
    memcpy (tps_tensor_data (&tensor), values.data (), values.size () * sizeof (float));
  return tensor;
}

inline std::vector<TpsTensor>
to_tensors (const Shapes &shapes, const Values &values)
{
  std::vector<TpsTensor> tensors;

  for (size_t i = 0; i < shapes.size (); i++)
    tensors.push_back (to_tensor (shapes[i], values[i]));
  return tensors;
}

/* Names the parameters p0, p1, … */
inline std::vector<TpsNamedTensor>
to_parameters (const Shapes &shapes, const Values &values)
{
  std::vector<TpsNamedTensor> parameters;

  for (size_t i = 0; i < shapes.size (); i++)
    parameters.push_back ({ g_strdup_printf ("p%zu", i), to_tensor (shapes[i], values[i]) });
  return parameters;
}

inline Values
to_values (const TpsModelVersion *model)
{
  Values values;

  for (guint i = 0; i < model->n_parameters; i++)
    {
      const TpsTensor *tensor = &model->parameters[i].tensor;
      auto data = static_cast<const float *> (tps_tensor_data (tensor));

      values.emplace_back (data, data + tps_shape_n_elems (&tensor->shape));
    }
  return values;
}

inline Values
draw_values (const Shapes &shapes, std::mt19937 *random)
{
  std::normal_distribution<float> normal;
  Values values;

  for (const auto &dims : shapes)
    {
      int64_t n = 1;

      for (int64_t dim : dims)
        n *= dim;
      values.emplace_back ();
      for (int64_t i = 0; i < n; i++)
        values.back ().push_back (normal (*random));
    }
  return values;
}

/* The reply to one call, for which a test may wait. */
class Answer
{
public:
  static void
  done (gpointer user_data, TpsModelVersion *model, const GError *error)
  {
    auto self = static_cast<Answer *> (user_data);
    std::lock_guard<std::mutex> guard (self->lock_);

    self->n_++;
    if (error != nullptr)
      {
        self->code = error->code;
        self->message = error->message;
      }
    else
      {
        self->version = model->version;
        self->values = to_values (model);
      }
    self->changed_.notify_all ();
  }

  Answer &
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return n_ > 0; });
    return *this;
  }

  int
  count ()
  {
    std::lock_guard<std::mutex> guard (lock_);

    return n_;
  }

  int code = 0;
  gint64 version = 0;
  std::string message;
  Values values;

private:
  std::mutex lock_;
  std::condition_variable changed_;
  int n_ = 0;
};

/* A naive implementation of SGD with momentum, value by value. */
class NaiveModel
{
public:
  NaiveModel (const Values &values, float rate, float momentum)
      : values_ (values), velocity_ (values), rate_ (rate), momentum_ (momentum)
  {
    for (auto &parameter : velocity_)
      std::fill (parameter.begin (), parameter.end (), 0.0f);
  }

  /* `gradients` has one entry per participating trainer, in trainer order. */
  void
  update (const std::vector<Values> &gradients)
  {
    for (size_t p = 0; p < values_.size (); p++)
      for (size_t i = 0; i < values_[p].size (); i++)
        {
          float sum = gradients[0][p][i];

          for (size_t t = 1; t < gradients.size (); t++)
            sum = sum + gradients[t][p][i];
          if (gradients.size () > 1)
            sum = sum / static_cast<float> (gradients.size ());
          velocity_[p][i] = momentum_ * velocity_[p][i] + sum;
          values_[p][i] = values_[p][i] - rate_ * velocity_[p][i];
        }
  }

  const Values &
  values () const
  {
    return values_;
  }

private:
  Values values_, velocity_;
  float rate_, momentum_;
};

} // namespace updating_test
