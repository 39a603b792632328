/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Models, losses and SGD on a fake device, compared with the CPU. The host cannot access the
 * device's memory, and work runs only when a thread waits for it. The device computes like the CPU,
 * so the bits must be equal. */

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "runtime/base/error.h"
#include "runtime/trainer/nn/model.h"
#include "tests/runtime/trainer/nn/sgd.h"
#include "tests/runtime/fake_device/fake_device.h"

namespace {

using Floats = std::vector<float>;

struct Kind
{
  const char *name, *klass, *config, *criterion;
  // The numbers of input columns and of classes. A float target has as many columns as there are
  // classes.
  int64_t n_columns, n_classes, n_ids; /* if n_ids is 0, the input is float */
};

const Kind kinds[] = {
  { "SparseDummyModel", "DummyModel",
    "{'num_embeddings': <int64 50>, 'embedding_dim': <int64 12>, 'dense_input_size': <int64 12>, "
    "'dense_output_size': <int64 12>, 'dense_layers_count': <int64 3>, 'sparse': <true>}",
    "cel", 7, 12, 50 },
  { "DenseDummyModel", "DummyModel",
    "{'num_embeddings': <int64 50>, 'embedding_dim': <int64 12>, 'dense_input_size': <int64 12>, "
    "'dense_output_size': <int64 5>, 'dense_layers_count': <int64 1>, 'sparse': <false>}",
    "cel", 7, 5, 50 },
  { "HybridModel", "HybridModel", "@a{sv} {}", "cel", 512, 8, 0 },
  { "LinearModel", "LinearModel", "{'in_features': <int64 33>, 'out_features': <int64 3>}", "l1",
    33, 3, 0 },
};

TpsDevice *
fake ()
{
  return tps_fake_device_get (0);
}

/* Device memory that the host fills and reads. */
class Memory
{
public:
  Memory (TpsStream *stream, size_t n_bytes) : stream_ (stream)
  {
    buffer_ = stream->device->ops->alloc (stream->device, n_bytes, nullptr);
  }
  template <typename T>
  Memory (TpsStream *stream, const std::vector<T> &values)
      : Memory (stream, values.size () * sizeof (T))
  {
    stream->device->ops->copy (stream, data (), values.data (), values.size () * sizeof (T));
    EXPECT_TRUE (stream->device->ops->stream_sync (stream, nullptr));
  }
  Memory (Memory &&other) noexcept
      : stream_ (other.stream_), buffer_ (std::exchange (other.buffer_, nullptr))
  {
  }
  ~Memory ()
  {
    g_clear_pointer (&buffer_, tps_buffer_unref);
  }

  gpointer
  data () const
  {
    return tps_buffer_get_data (buffer_);
  }

private:
  TpsStream *stream_;
  TpsBuffer *buffer_;
};

template <typename T>
std::vector<T>
read (TpsStream *stream, gconstpointer from, gint64 n)
{
  std::vector<T> values (static_cast<size_t> (n));

  stream->device->ops->copy (stream, values.data (), from, values.size () * sizeof (T));
  EXPECT_TRUE (stream->device->ops->stream_sync (stream, nullptr));
  return values;
}

struct Batch
{
  int64_t n_rows;
  std::vector<int64_t> ids, classes;
  Floats rows, wanted;
};

Batch
draw_batch (const Kind &kind, int64_t n_rows, unsigned seed)
{
  std::mt19937 random (seed);
  Batch batch = { n_rows, {}, {}, {}, {} };

  for (int64_t i = 0; i < n_rows * kind.n_columns; i++)
    if (kind.n_ids > 0)
      batch.ids.push_back (random () % kind.n_ids);
    else
      batch.rows.push_back (static_cast<float> (random () % 2001) / 1000 - 1);
  for (int64_t i = 0; i < n_rows; i++)
    batch.classes.push_back (random () % kind.n_classes);
  for (int64_t i = 0; i < n_rows * kind.n_classes; i++)
    batch.wanted.push_back (static_cast<float> (random () % 1000) / 500);
  return batch;
}

TpsTensorView
view (TpsDType dtype, std::initializer_list<gint64> dims, const Memory &memory)
{
  TpsTensorView found {};

  found.shape.dtype = dtype;
  for (gint64 dim : dims)
    found.shape.dims[found.shape.n_dims++] = dim;
  found.data = memory.data ();
  return found;
}

/* The results of a step. */
struct Outcome
{
  double loss;
  std::vector<guint> ready;
  std::vector<Floats> gradients; /* for a sparse parameter, only its rows */
  std::vector<std::vector<int64_t>> ids;
  std::vector<Floats> values;

  bool
  operator== (const Outcome &o) const
  {
    return loss == o.loss && ready == o.ready && gradients == o.gradients && ids == o.ids
           && values == o.values;
  }
};

/* A model with storage on its device, and an optimizer. */
class Training
{
public:
  Training (const Kind &kind, TpsDevice *device, double momentum = 0.9) : kind_ (kind)
  {
    g_autoptr (GVariant) config = g_variant_ref_sink (g_variant_new_parsed (kind.config));
    TpsSgdFactors factors = { 0.1, momentum, 0.01 };

    model = tps_model_class_find (kind.klass, nullptr)->create (config, device, nullptr);
    g_assert (model != nullptr);
    stream = model->stream;
    ops = stream->device->ops;
    loss_ = ops->alloc_host (stream->device, sizeof (gdouble), nullptr);
    for (guint i = 0; i < model->n_parameters; i++)
      {
        TpsParameter *parameter = &model->parameters[i];
        size_t n_bytes = tps_shape_n_bytes (&parameter->shape);

        memory_.emplace_back (stream, n_bytes);
        parameter->value = static_cast<gfloat *> (memory_.back ().data ());
        if (parameter->is_sparse)
          continue;
        memory_.emplace_back (stream, n_bytes);
        parameter->gradient = static_cast<gfloat *> (memory_.back ().data ());
      }
    sgd_ = tps_sgd_new (stream, &factors, model->n_parameters, nullptr);
  }
  Training (const Training &) = delete;
  ~Training ()
  {
    tps_sgd_free (sgd_);
    model->klass->free (model);
    tps_buffer_unref (loss_);
  }

  void
  fill (gint64 seed = 5)
  {
    EXPECT_TRUE (tps_model_fill_parameters (model, seed, nullptr));
  }

  std::vector<Floats>
  values () const
  {
    std::vector<Floats> all;

    for (guint i = 0; i < model->n_parameters; i++)
      all.push_back (read<float> (stream, model->parameters[i].value,
                                  tps_shape_n_elems (&model->parameters[i].shape)));
    return all;
  }

  // Runs forward and backward. Returns FALSE and the error if one fails.
  gboolean
  pass (const Batch &batch, Outcome *outcome, GError **error)
  {
    bool is_ids = kind_.n_ids > 0, is_classes = !g_str_equal (kind_.criterion, "l1");
    Memory input = is_ids ? Memory (stream, batch.ids) : Memory (stream, batch.rows);
    Memory target = is_classes ? Memory (stream, batch.classes) : Memory (stream, batch.wanted);
    TpsTensorView output {};

    if (!model->klass->forward (model,
                                view (is_ids ? TPS_DTYPE_INT64 : TPS_DTYPE_FLOAT32,
                                      { batch.n_rows, kind_.n_columns }, input),
                                &output, error))
      return FALSE;
    EXPECT_EQ (output.shape.dims[0], batch.n_rows);
    EXPECT_EQ (output.shape.dims[1], kind_.n_classes);
    Memory gradient (stream, tps_shape_n_bytes (&output.shape));
    tps_criterion_find (kind_.criterion, nullptr)
        ->forward_backward (
            stream, output,
            is_classes ? view (TPS_DTYPE_INT64, { batch.n_rows }, target)
                       : view (TPS_DTYPE_FLOAT32, { batch.n_rows, kind_.n_classes }, target),
            reinterpret_cast<gdouble *> (tps_buffer_get_data (loss_)),
            static_cast<gfloat *> (gradient.data ()));
    model->klass->backward (
        model, static_cast<const gfloat *> (gradient.data ()),
        [] (gpointer user_data, guint index) {
          static_cast<Outcome *> (user_data)->ready.push_back (index);
        },
        outcome);
    return ops->stream_sync (stream, error);
  }

  Outcome
  step (const Batch &batch)
  {
    Outcome outcome {};
    GError *error = nullptr;

    pass (batch, &outcome, &error);
    g_assert_no_error (error);
    memcpy (&outcome.loss, tps_buffer_get_data (loss_), sizeof outcome.loss);
    for (guint i = 0; i < model->n_parameters; i++)
      {
        read_gradient (i, &outcome);
        EXPECT_TRUE (apply (i, nullptr));
      }
    outcome.values = values ();
    return outcome;
  }

  gboolean
  apply (guint i, GError **error)
  {
    TpsParameter *parameter = &model->parameters[i];

    return parameter->is_sparse
               ? tps_sgd_step_rows (sgd_, i, parameter, &parameter->sparse_gradient, error)
               : tps_sgd_step (sgd_, i, parameter, parameter->gradient, error);
  }

  TpsModel *model;
  TpsStream *stream;
  const TpsDeviceOps *ops;

private:
  void
  read_gradient (guint i, Outcome *outcome)
  {
    const TpsParameter *parameter = &model->parameters[i];
    const TpsGradient *sparse = &parameter->sparse_gradient;

    if (!parameter->is_sparse)
      {
        outcome->gradients.push_back (
            read<float> (stream, parameter->gradient, tps_shape_n_elems (&parameter->shape)));
        return;
      }
    EXPECT_EQ (tps_buffer_get_device (sparse->values.buffer),
               stream->device->is_host ? nullptr : stream->device);
    outcome->ids.push_back (
        read<int64_t> (stream, tps_tensor_data (&sparse->indices), sparse->indices.shape.dims[0]));
    outcome->gradients.push_back (read<float> (stream, tps_tensor_data (&sparse->values),
                                               tps_shape_n_elems (&sparse->values.shape)));
  }

  const Kind &kind_;
  std::vector<Memory> memory_;
  TpsBuffer *loss_;
  TpsSgd *sgd_;
};

class ModelsOnDevices : public testing::TestWithParam<Kind>
{
protected:
  void
  TearDown () override
  {
    tps_fake_device_fail_alloc (fake (), 0);
    tps_fake_device_set_lost (fake (), FALSE);
    EXPECT_EQ (tps_fake_device_get_n_bytes (fake ()), 0u) << "memory is left over";
  }
};

TEST_P (ModelsOnDevices, HaveTheBitsOfTheCpuForBatchesOfAnySize)
{
  Training here (GetParam (), nullptr), there (GetParam (), fake ());
  unsigned seed = 0;

  here.fill ();
  there.fill ();
  EXPECT_EQ (here.values (), there.values ());
  for (int64_t n_rows : { 4, 1, 9, 9, 30, 2, 31 })
    {
      Batch batch = draw_batch (GetParam (), n_rows, seed++);
      Outcome wanted = here.step (batch);

      EXPECT_EQ (there.step (batch), wanted) << n_rows << " rows";
      EXPECT_TRUE (std::isfinite (wanted.loss));
    }
}

TEST_P (ModelsOnDevices, AllocateNothingOnceTheLargestBatchHasBeenSeen)
{
  Training training (GetParam (), fake ());
  Outcome outcome {};
  guint n_allocs = 0, n_of_the_test = 3; /* input, target, gradient of the output */

  training.fill ();
  for (unsigned i = 0; i < 8; i++)
    {
      guint before = tps_fake_device_get_n_allocs (fake ());

      EXPECT_TRUE (training.pass (draw_batch (GetParam (), 20 - i, i), &outcome, nullptr));
      n_allocs = tps_fake_device_get_n_allocs (fake ()) - before;
      EXPECT_TRUE (i < 2 || n_allocs == n_of_the_test) << n_allocs << " in pass " << i;
    }
}

/* Calls the function repeatedly, and lets the n-th allocation fail in the n-th call, until no
 * allocation fails. The function must return TRUE exactly if it succeeded. */
void
fail_each (const std::function<bool (GError **)> &what)
{
  for (guint n = 1;; n++)
    {
      GError *error = nullptr;
      guint before = tps_fake_device_get_n_allocs (fake ());

      tps_fake_device_fail_alloc (fake (), n);
      bool ok = what (&error);
      bool was_asked = tps_fake_device_get_n_allocs (fake ()) - before >= n;
      tps_fake_device_fail_alloc (fake (), 0);
      EXPECT_EQ (ok, !was_asked) << "allocation " << n;
      if (ok)
        {
          EXPECT_GT (n, 1u) << "nothing is allocated";
          return;
        }
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
      g_clear_error (&error);
    }
}

TEST_P (ModelsOnDevices, AnAllocationThatFailsIsAnErrorAndTheModelGoesOn)
{
  Training here (GetParam (), nullptr), there (GetParam (), fake ());

  fail_each ([&] (GError **error) { return tps_model_fill_parameters (there.model, 5, error); });
  here.fill ();
  EXPECT_EQ (there.values (), here.values ());
  for (int64_t n_rows : { 3, 8, 40 })
    {
      Batch batch = draw_batch (GetParam (), n_rows, 1), small = draw_batch (GetParam (), 2, 2);
      Memory input = GetParam ().n_ids > 0 ? Memory (there.stream, batch.ids)
                                           : Memory (there.stream, batch.rows);
      TpsTensorView output {};
      TpsTensorView seen = view (GetParam ().n_ids > 0 ? TPS_DTYPE_INT64 : TPS_DTYPE_FLOAT32,
                                 { n_rows, GetParam ().n_columns }, input);

      fail_each ([&] (GError **error) {
        return there.model->klass->forward (there.model, seen, &output, error);
      });
      EXPECT_TRUE (there.ops->stream_sync (there.stream, nullptr));
      EXPECT_EQ (there.step (small), here.step (small));
      EXPECT_EQ (there.step (batch), here.step (batch));
    }
}

TEST_P (ModelsOnDevices, AStepThatCannotAllocateItsVelocityIsNone)
{
  Training training (GetParam (), fake ());
  Outcome outcome {};

  training.fill ();
  EXPECT_TRUE (training.pass (draw_batch (GetParam (), 4, 1), &outcome, nullptr));
  std::vector<Floats> before = training.values ();
  for (guint i = 0; i < training.model->n_parameters; i++)
    {
      GError *error = nullptr;

      tps_fake_device_fail_alloc (fake (), 1);
      EXPECT_FALSE (training.apply (i, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
      g_clear_error (&error);
      EXPECT_EQ (training.values ()[i], before[i]);
      EXPECT_TRUE (training.apply (i, &error));
      EXPECT_NE (training.values ()[i], before[i]);
    }
}

TEST_P (ModelsOnDevices, ALostDeviceIsAnErrorOfThePass)
{
  Training training (GetParam (), fake ());
  Outcome outcome {};
  GError *error = nullptr;
  Batch batch = draw_batch (GetParam (), 4, 1);

  training.fill ();
  EXPECT_TRUE (training.pass (batch, &outcome, nullptr));
  tps_fake_device_set_lost (fake (), TRUE);
  EXPECT_FALSE (training.ops->stream_sync (training.stream, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST));
  g_clear_error (&error);
  g_autoptr (GVariant) config = g_variant_ref_sink (g_variant_new_parsed (GetParam ().config));
  EXPECT_EQ (training.model->klass->create (config, fake (), &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST));
  g_clear_error (&error);
}

INSTANTIATE_TEST_SUITE_P (Kinds, ModelsOnDevices, testing::ValuesIn (kinds),
                          [] (const testing::TestParamInfo<Kind> &kind) {
                            return std::string (kind.param.name);
                          });

/* The holder acts like a trainer that is still sending the previous gradient. */
TEST (SparseGradients, AreNotWrittenWhileAReferenceIsHeld)
{
  Training training (kinds[0], fake ());
  std::vector<TpsGradient> held;
  std::vector<Floats> wanted;
  Outcome outcome {};

  training.fill ();
  for (unsigned i = 0; i < 5; i++)
    {
      const TpsGradient *gradient = &training.model->parameters[0].sparse_gradient;
      TpsGradient kept;

      EXPECT_TRUE (training.pass (draw_batch (kinds[0], 10, i), &outcome, nullptr));
      tps_gradient_init_ref (&kept, gradient);
      held.push_back (kept);
      wanted.push_back (read<float> (training.stream, tps_tensor_data (&gradient->values),
                                     tps_shape_n_elems (&gradient->values.shape)));
    }
  for (size_t i = 0; i < held.size (); i++)
    {
      EXPECT_EQ (read<float> (training.stream, tps_tensor_data (&held[i].values),
                              tps_shape_n_elems (&held[i].values.shape)),
                 wanted[i]);
      tps_gradient_clear (&held[i]);
    }
}

/* The holder acts like a DDP, which releases a gradient when it has the next one. */
TEST (SparseGradients, TakeTurnsInTwoBuffers)
{
  Training training (kinds[0], fake ());
  TpsGradient kept {};
  Outcome outcome {};
  guint n_allocs = 0;

  training.fill ();
  for (unsigned i = 0; i < 6; i++)
    {
      guint before = tps_fake_device_get_n_allocs (fake ());

      EXPECT_TRUE (training.pass (draw_batch (kinds[0], 10, i), &outcome, nullptr));
      n_allocs = tps_fake_device_get_n_allocs (fake ()) - before;
      EXPECT_TRUE (i < 2 || n_allocs == 3) << n_allocs << " in pass " << i << ", 3 are the test's";
      tps_gradient_clear (&kept);
      tps_gradient_init_ref (&kept, &training.model->parameters[0].sparse_gradient);
    }
  tps_gradient_clear (&kept);
}

} // namespace
