/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/runtime/trainer/nn/model_fixture.h"

#include <cmath>
#include <cstring>

namespace nn_test {

GVariant *
dummy_config (const DummySizes &sizes)
{
  GVariantDict dict;

  g_variant_dict_init (&dict, nullptr);
  g_variant_dict_insert (&dict, "num_embeddings", "x", sizes.rows);
  g_variant_dict_insert (&dict, "embedding_dim", "x", sizes.dim);
  g_variant_dict_insert (&dict, "dense_input_size", "x", sizes.dim);
  g_variant_dict_insert (&dict, "dense_output_size", "x", sizes.outputs);
  g_variant_dict_insert (&dict, "dense_layers_count", "x", sizes.layers);
  g_variant_dict_insert (&dict, "sparse", "b", (gboolean) sizes.sparse);
  return g_variant_dict_end (&dict);
}

TpsTensor
make_tensor (const std::vector<int64_t> &values, const std::vector<int64_t> &dims)
{
  GError *error = nullptr;
  TpsShape shape;
  TpsTensor tensor {};

  tps_shape_init (&shape, TPS_DTYPE_INT64, (guint) dims.size (), (const gint64 *) dims.data (),
                  "test", &error);
  g_assert_no_error (error);
  tps_tensor_init (&tensor, &shape);
  if (!values.empty ())
    memcpy (tps_tensor_data (&tensor), values.data (), values.size () * sizeof (int64_t));
  return tensor;
}

BoundModel::BoundModel (const DummySizes &sizes)
{
  GError *error = nullptr;
  GVariant *config = g_variant_ref_sink (dummy_config (sizes));

  model = tps_model_class_find ("DummyModel", &error)->create (config, nullptr, &error);
  g_assert_no_error (error);
  g_variant_unref (config);
  for (guint i = 0; i < model->n_parameters; i++)
    {
      values_.emplace_back (tps_shape_n_elems (&model->parameters[i].shape));
      gradients_.emplace_back (values_[i].size (), NAN);
    }
  for (guint i = 0; i < model->n_parameters; i++)
    {
      model->parameters[i].value = values_[i].data ();
      model->parameters[i].gradient = model->parameters[i].is_sparse ? nullptr
                                                                     : gradients_[i].data ();
    }
}

BoundModel::~BoundModel ()
{
  tps_tensor_clear (&input_);
  model->klass->free (model);
}

std::vector<float>
BoundModel::forward (const std::vector<int64_t> &input, const std::vector<int64_t> &dims)
{
  tps_tensor_clear (&input_);
  input_ = make_tensor (input, dims);
  TpsTensorView output {};
  EXPECT_TRUE (model->klass->forward (model, tps_tensor_view (&input_), &output, nullptr));
  const float *data = (const float *) output.data;
  return std::vector<float> (data, data + tps_shape_n_elems (&output.shape));
}

static void
append_ready (gpointer user_data, guint index)
{
  static_cast<std::vector<guint> *> (user_data)->push_back (index);
}

double
BoundModel::step (const char *criterion, const std::vector<int64_t> &input,
                  const std::vector<int64_t> &dims, const std::vector<int64_t> &target)
{
  GError *error = nullptr;
  const TpsCriterion *loss_function = tps_criterion_find (criterion, &error);
  std::vector<float> output = forward (input, dims);
  std::vector<float> gradient (output.size ());
  TpsTensor targets = make_tensor (target, { (int64_t) target.size () });
  TpsTensorView view {};

  g_assert_no_error (error);
  view.shape.dtype = TPS_DTYPE_FLOAT32;
  view.shape.n_dims = 2;
  view.shape.dims[0] = dims[0];
  view.shape.dims[1] = (int64_t) output.size () / dims[0];
  view.data = output.data ();
  double loss = NAN;
  loss_function->forward_backward (model->stream, view, tps_tensor_view (&targets), &loss,
                                   gradient.data ());
  ready.clear ();
  model->klass->backward (model, gradient.data (), append_ready, &ready);
  tps_tensor_clear (&targets);
  return loss;
}

std::vector<float>
BoundModel::gradient (size_t i)
{
  TpsParameter &p = model->parameters[i];

  if (!p.is_sparse)
    return gradients_[i];
  const TpsGradient &sparse = p.sparse_gradient;
  const gint64 *ids = (const gint64 *) tps_tensor_data (&sparse.indices);
  const float *rows = (const float *) tps_tensor_data (&sparse.values);
  gint64 dim = p.shape.dims[1];
  std::vector<float> dense (values_[i].size ());

  for (gint64 row = 0; row < sparse.indices.shape.dims[0]; row++)
    std::copy_n (rows + row * dim, dim, dense.begin () + ids[row] * dim);
  return dense;
}

} // namespace nn_test
