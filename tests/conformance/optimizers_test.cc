/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests optimizers of rows, which must return the bits of the CPU's functions.
 * (tests/runtime/optimizer compares those with PyTorch.) Also tests events, and host memory of
 * devices. */

#include <cmath>
#include <map>

#include "runtime/device/cpu/optimizer/optimizer.h"
#include "tests/conformance/device_test.h"
#include "tests/conformance/reference.h"

namespace {

class Optimizers : public DeviceTest
{
protected:
  static TpsOptimizerSpec
  spec (TpsOptimizerKind kind, bool with_decay)
  {
    TpsOptimizerSpec wanted = tps_optimizer_spec (kind, 0.05);
    GError *error = nullptr;

    if (kind == TPS_OPTIMIZER_SGD)
      wanted.momentum = with_decay ? 0.9 : 0;
    if (kind == TPS_OPTIMIZER_FTRL)
      wanted.l1 = with_decay ? 0.01 : 0;
    wanted.weight_decay = with_decay ? 0.02 : 0;
    EXPECT_TRUE (tps_optimizer_spec_resolve (&wanted, "test", &error)) << error->message;
    return wanted;
  }
};

// Updates `rows` as the CPU does, one row at a time.
void
update_reference (const TpsOptimizerSpec &spec, int64_t step, const std::vector<int64_t> &ids,
                  size_t dim, std::vector<float> *values, std::vector<float> *state,
                  const std::vector<float> &gradients)
{
  size_t n_states = tps_optimizer_state_per_row (&spec, dim);
  TpsOptimizerStep factors;

  tps_cpu_optimizer_step_init (&factors, &spec, step);
  for (size_t i = 0; i < ids.size (); i++)
    tps_cpu_optimizer_get (spec.kind) (
        &factors, values->data () + ids[i] * dim, gradients.data () + i * dim,
        n_states > 0 ? state->data () + ids[i] * n_states : nullptr, dim);
}

TEST_P (Optimizers, AStepOfRowsGivesTheBitsOfTheFormulaAndTouchesNoOther)
{
  for (int kind = 1; kind <= TPS_N_OPTIMIZERS; kind++)
    for (size_t dim : { 1, 3, 16, 17, 64, 100 })
      for (bool with_decay : { false, true })
        {
          TpsOptimizerSpec wanted = spec ((TpsOptimizerKind) kind, with_decay);
          size_t n_rows = 600, n_states = tps_optimizer_state_per_row (&wanted, dim);
          std::vector<float> values = random_floats (n_rows * dim), state (n_rows * n_states);
          DeviceArray<float> device_values (stream, values), device_state (stream, state);

          for (int64_t step = 1; step <= 4; step++)
            {
              std::vector<int64_t> ids = { 7, 22, 0, step, 13 };
              /* In step 4 there are more rows than a block of a GPU has threads. */
              for (int64_t id = 23; step == 4 && id < (int64_t) n_rows; id++)
                ids.push_back (id);
              std::vector<float> gradients = random_floats (ids.size () * dim);
              DeviceArray<int64_t> indices (stream, ids);
              DeviceArray<float> device_gradients (stream, gradients);
              TpsRowUpdate update = { indices.data (),
                                      ids.size (),
                                      dim,
                                      device_values.data (),
                                      n_states > 0 ? device_state.data () : nullptr,
                                      device_gradients.data (),
                                      nullptr,
                                      TPS_DTYPE_FLOAT32,
                                      {} };

              ops->update_rows (stream, &wanted, step, &update);
              update_reference (wanted, step, ids, dim, &values, &state, gradients);
              ASSERT_TRUE (same_bits (device_values.read (), values))
                  << tps_optimizer_kind_name (wanted.kind) << " dim " << dim << " step " << step;
              ASSERT_TRUE (same_bits (device_state.read (), state))
                  << tps_optimizer_kind_name (wanted.kind) << " dim " << dim << " step " << step;
            }
        }
}

/* Rows of FLOAT16 and BFLOAT16 are converted to float, updated, and rounded. */
TEST_P (Optimizers, AStepOfHalfRowsRoundsTheBitsOfTheFormula)
{
  const TpsRowRounding roundings[] = { {}, { TRUE, -3, 5, 7 } };

  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (const TpsRowRounding &rounding : roundings)
      for (int kind = 1; kind <= TPS_N_OPTIMIZERS; kind++)
        for (size_t dim : { 1, 3, 16, 64, 100 })
          for (bool has_indices : { false, true })
            {
              TpsOptimizerSpec wanted = spec ((TpsOptimizerKind) kind, has_indices);
              size_t n_rows = 300, n_states = tps_optimizer_state_per_row (&wanted, dim);
              std::vector<uint16_t> rows;
              std::vector<float> state (n_rows * n_states);

              for (float value : random_floats (n_rows * dim))
                rows.push_back (reference::round_to_nearest (dtype, value));
              DeviceArray<uint16_t> device_rows (stream, rows);
              DeviceArray<float> device_state (stream, state);
              for (int64_t step = 1; step <= 3; step++)
                {
                  std::vector<int64_t> ids = { 0, 1, 2, 3 };
                  if (has_indices)
                    ids = { 7, 22, 0, step, 299, 13 };
                  std::vector<float> gradients = random_floats (ids.size () * dim);
                  std::vector<float> values;
                  DeviceArray<int64_t> indices (stream, ids);
                  DeviceArray<float> device_gradients (stream, gradients);
                  TpsRowUpdate update = { has_indices ? indices.data () : nullptr,
                                          ids.size (),
                                          dim,
                                          device_rows.data (),
                                          n_states > 0 ? device_state.data () : nullptr,
                                          device_gradients.data (),
                                          nullptr,
                                          dtype,
                                          rounding };

                  ops->update_rows (stream, &wanted, step, &update);
                  for (size_t i = 0; i < rows.size (); i++)
                    values.push_back ((float) reference::load (dtype, rows.data (), i));
                  update_reference (wanted, step, ids, dim, &values, &state, gradients);
                  for (int64_t id : ids)
                    for (size_t d = 0; d < dim; d++)
                      {
                        float value = values[id * dim + d];

                        rows[id * dim + d] = rounding.is_stochastic
                                                 ? reference::round_stochastically (
                                                     dtype, value,
                                                     reference::random_bits (rounding, step, id, d))
                                                 : reference::round_to_nearest (dtype, value);
                      }
                  ASSERT_EQ (device_rows.read (), rows)
                      << tps_optimizer_kind_name (wanted.kind) << " " << tps_dtype_name (dtype)
                      << " dim " << dim << " step " << step;
                  ASSERT_TRUE (same_bits (device_state.read (), state));
                }
            }
}

TEST_P (Optimizers, WithoutIndicesTheRowsAreTheFirst)
{
  for (int kind = 1; kind <= TPS_N_OPTIMIZERS; kind++)
    {
      TpsOptimizerSpec wanted = spec ((TpsOptimizerKind) kind, true);
      size_t n_states = tps_optimizer_state_per_row (&wanted, 5);
      std::vector<float> values = random_floats (9 * 5), state (9 * n_states);
      std::vector<float> gradients = random_floats (6 * 5);
      DeviceArray<float> device_values (stream, values), device_state (stream, state);
      DeviceArray<float> device_gradients (stream, gradients);
      TpsRowUpdate update = { nullptr,
                              6,
                              5,
                              device_values.data (),
                              device_state.data (),
                              device_gradients.data (),
                              nullptr,
                              TPS_DTYPE_FLOAT32,
                              {} };

      ops->update_rows (stream, &wanted, 1, &update);
      update_reference (wanted, 1, { 0, 1, 2, 3, 4, 5 }, 5, &values, &state, gradients);
      ASSERT_TRUE (same_bits (device_values.read (), values));
      update.n_rows = 0;
      ops->update_rows (stream, &wanted, 2, &update);
      ASSERT_TRUE (same_bits (device_values.read (), values)) << "nothing to do";
    }
}

/* Computes the gradient of a table and the step that uses it, without a wait in between. */
TEST_P (Optimizers, TheNumberOfRowsMayBeKnownToTheDeviceAlone)
{
  for (int kind = 1; kind <= TPS_N_OPTIMIZERS; kind++)
    for (size_t dim : { 4, 7, 32 })
      for (size_t n_ids : { 40, 0 })
        {
          TpsOptimizerSpec wanted = spec ((TpsOptimizerKind) kind, true);
          size_t n_rows = 50, n_states = tps_optimizer_state_per_row (&wanted, dim);
          std::vector<int64_t> ids = random_ids (n_ids, 9);
          std::vector<float> values = random_floats (n_rows * dim), state (n_rows * n_states);
          std::vector<float> gradients = random_floats (ids.size () * dim);
          std::map<int64_t, std::vector<std::vector<float>>> terms; /* [id][column] */
          DeviceArray<int64_t> indices (stream, ids), unique (stream, n_rows), counted (stream, 1);
          DeviceArray<float> device_values (stream, values), device_state (stream, state);
          DeviceArray<float> device_gradients (stream, gradients), sums (stream, n_rows * dim);
          TpsBags bags {};

          bags.rows = (gint64) n_rows;
          bags.dim = (gint64) dim;
          bags.indices = indices.data ();
          bags.n_indices = bags.n_bags = ids.size ();
          bags.pooling = TPS_POOLING_SUM;
          TpsRowUpdate update = { unique.data (),
                                  n_rows,
                                  dim,
                                  device_values.data (),
                                  device_state.data (),
                                  sums.data (),
                                  counted.data (),
                                  TPS_DTYPE_FLOAT32,
                                  {} };
          ops->embedding_backward_rows (stream, &bags, device_gradients.data (), unique.data (),
                                        sums.data (), counted.data ());
          ops->update_rows (stream, &wanted, 1, &update);

          for (size_t i = 0; i < ids.size (); i++)
            {
              terms[ids[i]].resize (dim);
              for (size_t d = 0; d < dim; d++)
                terms[ids[i]][d].push_back (gradients[i * dim + d]);
            }
          std::vector<int64_t> unique_ids;
          std::vector<float> wanted_sums;
          for (const auto &[id, columns] : terms)
            {
              unique_ids.push_back (id);
              for (const std::vector<float> &column : columns)
                wanted_sums.push_back (reference::tree_sum (column));
            }
          update_reference (wanted, 1, unique_ids, dim, &values, &state, wanted_sums);
          ASSERT_TRUE (same_bits (device_values.read (), values))
              << tps_optimizer_kind_name (wanted.kind) << " dim " << dim;
          ASSERT_TRUE (same_bits (device_state.read (), state))
              << tps_optimizer_kind_name (wanted.kind) << " dim " << dim;
        }
}

TEST_P (Optimizers, ElapsedTimeNeedsTwoRecordedEventsAndIsNotNegative)
{
  GError *error = nullptr;
  TpsEvent *start = ops->event_new (device, &error), *end = ops->event_new (device, &error);
  double ms = -1;

  ops->event_record (start, stream);
  sync ();
  EXPECT_FALSE (ops->events_elapsed (start, end, &ms, &error));
  ASSERT_NE (error, nullptr);
  EXPECT_NE (strstr (error->message, "end event"), nullptr) << error->message;
  g_clear_error (&error);
  ops->event_record (end, stream);
  sync ();
  EXPECT_TRUE (ops->events_elapsed (start, end, &ms, &error));
  EXPECT_GE (ms, 0);
  ops->event_free (start);
  ops->event_free (end);
}

TEST_P (Optimizers, HostMemoryOfTheDeviceIsWrittenByTheHostAndCopied)
{
  GError *error = nullptr;
  TpsBuffer *host = ops->alloc_host (device, 4 * sizeof (float), &error);
  DeviceArray<float> array (stream, 4);

  g_assert_no_error (error);
  for (int i = 0; i < 4; i++)
    ((float *) (void *) tps_buffer_get_data (host))[i] = (float) i;
  ops->copy (stream, array.data (), tps_buffer_get_data (host), 4 * sizeof (float));
  sync ();
  EXPECT_EQ (array.read (), (std::vector<float> { 0, 1, 2, 3 }));
  tps_buffer_unref (host);
}

INSTANTIATE_FOR_ALL_DEVICES (Optimizers);

} // namespace
