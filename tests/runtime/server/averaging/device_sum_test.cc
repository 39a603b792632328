/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums on devices: on the CPU through its table of operations, and on other devices if there are
 * any (tests/cuda). On every device, the bits must be those of the definition. */

#include "runtime/server/averaging/device_sum.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/server/averaging/reduction.h"
#include "runtime/device/device_memory.h"
#include "runtime/base/error.h"
#include "tests/runtime/server/averaging/parameter_server_fixture.h"

namespace averaging_test {
namespace {

/* Folds all items in one step. */
gboolean
fold_all (TpsReduction *reduction, TpsFoldItem **items, guint n_items, TpsGradient *average,
          GError **error)
{
  TpsFold fold;

  if (!tps_fold_begin (&fold, reduction, items, n_items, average, error))
    return FALSE;
  tps_fold_run (&fold, 0, fold.n_blocks);
  return tps_fold_end (&fold, error);
}

using testing::HasSubstr;

const TpsDType FLOATING[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT64, TPS_DTYPE_FLOAT16,
                              TPS_DTYPE_BFLOAT16 };

std::vector<TpsDevice *>
all_devices ()
{
  g_autofree TpsDevice **list = tps_device_list ();
  std::vector<TpsDevice *> devices;

  for (guint i = 0; list[i] != nullptr; i++)
    devices.push_back (list[i]);
  return devices;
}

TpsBuffer *
alloc_far (TpsDevice *device, gsize n_bytes, GError **error)
{
  gpointer data = g_malloc (MAX (n_bytes, 1));

  return tps_buffer_new_foreign (data, n_bytes, device, g_free, data);
}

/* Returns the CPU as a device whose memory counts as device memory. */
TpsDevice *
far_device ()
{
  static TpsDeviceOps ops = *tps_device_find ("cpu", nullptr)->ops;
  static TpsDevice device = { &ops, "far:0", FALSE };

  ops.alloc = alloc_far;
  return &device;
}

/* Returns the devices whose memory the host must not access directly. */
std::vector<TpsDevice *>
far_devices ()
{
  std::vector<TpsDevice *> devices = { far_device () };

  for (TpsDevice *device : all_devices ())
    if (!device->is_host)
      devices.push_back (device);
  return devices;
}

/* Moves the elements into memory of `device`. */
void
move_there (TpsDevice *device, TpsGradient *gradient)
{
  TpsTensor *dense = &gradient->dense;
  gsize n_bytes = tps_shape_n_bytes (&dense->shape);
  TpsBuffer *buffer = device->ops->alloc (device, n_bytes, nullptr);

  EXPECT_TRUE (tps_device_memory_copy (device, tps_buffer_get_data (buffer),
                                       tps_tensor_data (dense), n_bytes, nullptr));
  TpsShape shape = dense->shape;
  tps_tensor_clear (dense);
  tps_tensor_init_take (dense, &shape, buffer, 0);
}

std::vector<Contribution>
random_round (std::mt19937_64 *dice, size_t n_trainers, size_t n_values, TpsDType dtype)
{
  static const double weights[] = { 1, 1, 0.7, 3, 0 };
  std::uniform_real_distribution<double> mantissa (-1, 1);
  std::vector<Contribution> all;

  for (size_t i = 0; i < n_trainers; i++)
    {
      std::vector<double> values;

      for (size_t k = 0; k < n_values; k++)
        values.push_back (
            round_to (dtype, std::ldexp (mantissa (*dice), (int) ((*dice) () % 24) - 12)));
      all.push_back (dense (values, i == 0 ? 1 : weights[(*dice) () % 5], dtype));
    }
  return all;
}

/* Folds groups of the given sizes, one after another, on `sums`. */
Average
fold_groups (TpsDeviceSums *sums, const std::vector<Contribution> &given,
             const std::vector<size_t> &sizes, bool is_sum)
{
  std::vector<TpsFoldItem> items (given.size ());
  std::vector<TpsFoldItem *> pointers;
  TpsReduction reduction;
  TpsGradient average = {};
  size_t begin = 0;

  for (size_t i = 0; i < given.size (); i++)
    {
      items[i].gradient = to_gradient (given[i]);
      pointers.push_back (&items[i]);
    }
  tps_reduction_init (&reduction, is_sum, nullptr);
  reduction.on_device = sums;
  for (size_t size : sizes)
    {
      bool is_last = begin + size == given.size ();

      EXPECT_TRUE (fold_all (&reduction, &pointers[begin], (guint) size,
                             is_last ? &average : nullptr, nullptr));
      begin += size;
    }
  for (size_t i = 0; i < given.size (); i++)
    {
      TpsGradient again = to_gradient (given[i]);
      TpsDigest digest = tps_digest_of_gradient (&again);

      EXPECT_TRUE (items[i].has_digest && tps_digest_equal (&digest, &items[i].digest));
      tps_gradient_clear (&again);
    }
  Average result = to_average (average);
  tps_gradient_clear (&average);
  tps_reduction_clear (&reduction);
  return result;
}

TEST (DeviceSum, SameBitsForEveryDeviceAndGrouping)
{
  std::mt19937_64 dice (1);

  for (TpsDevice *device : all_devices ())
    {
      TpsDeviceSums *sums = tps_device_sums_new (device);

      for (TpsDType dtype : FLOATING)
        for (size_t n_values : { 0, 1, 7, 33001, 9 })
          for (bool is_sum : { false, true })
            {
              std::vector<Contribution> given = random_round (&dice, 5, n_values, dtype);
              Average expected = expected_average (given, is_sum);

              for (const std::vector<size_t> &sizes :
                   std::vector<std::vector<size_t>> { { 5 }, { 1, 1, 1, 1, 1 }, { 2, 3 } })
                ASSERT_TRUE (fold_groups (sums, given, sizes, is_sum) == expected)
                    << device->name << " " << tps_dtype_name (dtype) << " " << n_values;
            }
      std::vector<Contribution> zeros = { no_data (), dense ({ -0.0, 1 }), dense ({ -0.0, 2 }) };
      EXPECT_TRUE (fold_groups (sums, zeros, { 1, 1, 1 }, false) == expected_average (zeros))
          << device->name;
      tps_device_sums_free (sums);
    }
}

/* Tries each subset of three trainers' gradients in memory of the device. */
TEST (DeviceSum, SameBitsWhereverGradientsLieAndTheAverageStaysWhereAllDo)
{
  std::mt19937_64 dice (3);

  for (TpsDevice *device : far_devices ())
    {
      TpsDeviceSums *sums = tps_device_sums_new (device);

      for (TpsDType dtype : FLOATING)
        for (guint there = 0; there < 8; there++)
          {
            std::vector<Contribution> given = random_round (&dice, 3, 33001, dtype);
            TpsFoldItem items[3] = {};
            TpsFoldItem *pointers[3] = { &items[0], &items[1], &items[2] };
            TpsReduction reduction;
            TpsGradient average = {};
            bool all_there = true;

            for (guint i = 0; i < 3; i++)
              {
                items[i].gradient = to_gradient (given[i]);
                if (there & 1u << i)
                  move_there (device, &items[i].gradient);
                else if (items[i].gradient.weight > 0)
                  all_there = false;
              }
            tps_reduction_init (&reduction, FALSE, nullptr);
            reduction.on_device = sums;
            ASSERT_TRUE (fold_all (&reduction, pointers, 2, nullptr, nullptr));
            ASSERT_TRUE (fold_all (&reduction, pointers + 2, 1, &average, nullptr));
            EXPECT_TRUE (to_average (average) == expected_average (given, false))
                << device->name << " " << tps_dtype_name (dtype) << " " << there;
            EXPECT_EQ (tps_device_memory_of_tensor (&average.dense), all_there ? device : nullptr);
            tps_gradient_clear (&average);
            tps_reduction_clear (&reduction);
          }
      tps_device_sums_free (sums);
    }
}

/* A far device that may refuse an allocation, and that counts its buffers. */
bool refuses_next = false;
int n_buffers = 0;

void
free_counted (gpointer data)
{
  n_buffers--;
  g_free (data);
}

TpsBuffer *
alloc_or_refuse (TpsDevice *device, gsize n_bytes, GError **error)
{
  if (refuses_next)
    {
      refuses_next = false;
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no memory");
      return nullptr;
    }
  gpointer data = g_malloc (MAX (n_bytes, 1));

  n_buffers++;
  return tps_buffer_new_foreign (data, n_bytes, device, free_counted, data);
}

TEST (DeviceSum, IdleMemoryGivesWayIfTheDeviceHasNoMore)
{
  TpsDeviceOps ops = *tps_device_find ("cpu", nullptr)->ops;
  TpsDevice device = { &ops, "full:0", FALSE };
  const gfloat ones[2] = { 1, 1 };

  ops.alloc = alloc_or_refuse;
  TpsDeviceSums *sums = tps_device_sums_new (&device);
  TpsDeviceSum *idle = tps_device_sum_new (sums, TPS_DTYPE_FLOAT32, 1 << 20, nullptr);
  TpsDeviceSum *sum = tps_device_sum_new (sums, TPS_DTYPE_FLOAT32, 2, nullptr);

  tps_device_sum_add (sum, ones, 1);
  refuses_next = true;
  EXPECT_EQ (tps_device_sum_average_there (sum, 1, nullptr), nullptr) << "both are in use";
  tps_device_sum_free (idle);
  EXPECT_EQ (n_buffers, 4);
  refuses_next = true;
  TpsBuffer *average = tps_device_sum_average_there (sum, 1, nullptr);
  EXPECT_NE (average, nullptr);
  EXPECT_EQ (n_buffers, 3) << "two of the sum, and the average";
  tps_buffer_unref (average);
  tps_device_sum_free (sum);
  tps_device_sums_free (sums);
  EXPECT_EQ (n_buffers, 0);
}

/* -- the server -- */

class DeviceServer : public ParameterServerTest
{
protected:
  void
  TearDown () override
  {
    g_clear_pointer (&server, tps_parameter_server_free);
  }

  void
  start_on (TpsDevice *device, guint n_trainers)
  {
    g_clear_pointer (&server, tps_parameter_server_free);
    start (n_trainers, nullptr, 0, device);
  }

  /* Like push(), but copies the elements to memory of `there`. */
  void
  push_from (TpsDevice *there, Answer *answer, gint32 trainer, gint32 param_loc,
             const Contribution &what)
  {
    TpsGradient gradient = to_gradient (what);

    move_there (there, &gradient);
    tps_parameter_server_average_gradient (server, trainer, 0, param_loc, &gradient, TRUE,
                                           Answer::done, answer);
  }

  /* A device with the CPU's functions. A test replaces some of them. It must outlive the server. */
  TpsDeviceOps ops = *tps_device_find ("cpu", nullptr)->ops;
  TpsDevice fake = { &ops, "fake:0" };
};

TEST_F (DeviceServer, AveragesManyRoundsAtOnceDenseAndSparse)
{
  constexpr gint32 n_rounds = 20;
  std::mt19937_64 dice (2);

  for (TpsDevice *device : all_devices ())
    {
      std::vector<std::vector<Contribution>> rounds;
      std::vector<Answer> answers (3 * n_rounds);

      start_on (device, 3);
      for (gint32 r = 0; r < n_rounds; r++)
        if (r % 4 == 3)
          rounds.push_back (std::vector<Contribution> (3, sparse ({ 1, 5 }, 9, 1, { 2, 3 })));
        else
          rounds.push_back (random_round (&dice, 3, r % 2 == 0 ? 100 : 50000, TPS_DTYPE_FLOAT32));
      for (gint32 trainer : { 2, 0, 1 })
        for (gint32 r = 0; r < n_rounds; r++)
          push (&answers[(size_t) (3 * r + trainer)], trainer, 0, r,
                rounds[(size_t) r][(size_t) trainer]);
      for (size_t i = 0; i < answers.size (); i++)
        {
          answers[i].wait ();
          EXPECT_TRUE (answers[i].average == expected_average (rounds[i / 3]))
              << device->name << " " << i << " " << answers[i].message;
        }
    }
}

TEST_F (DeviceServer, TakesGradientsInMemoryOfItsDeviceAndRepeatsOfThem)
{
  for (TpsDevice *device : far_devices ())
    for (size_t n_values : { 3, 50000 })
      {
        std::mt19937_64 dice (4);
        std::vector<Contribution> given = random_round (&dice, 2, n_values, TPS_DTYPE_FLOAT32);
        Answer answers[2], waiting, late, other;

        start_on (device, 2);
        push_from (device, &answers[0], 0, 0, given[0]);
        push (&waiting, 0, 0, 0, given[0]); /* a repeat that is sent from host memory */
        push_from (device, &answers[1], 1, 0, given[1]);
        push_from (device, &late, 1, 0, given[1]);
        push_from (device, &other, 1, 0, dense ({ 1 }));
        for (Answer *answer : { &answers[0], &answers[1], &waiting, &late })
          {
            answer->wait ();
            EXPECT_TRUE (answer->average == expected_average (given)) << answer->message;
          }
        other.wait ();
        EXPECT_EQ (other.code, TPS_ERROR_INVALID_ARGUMENT);
      }
}

TEST_F (DeviceServer, RefusesMemoryOfAnotherDevice)
{
  const std::pair<TpsDevice *, const char *> cases[] = { { &fake, "on fake:0" },
                                                         { nullptr, "in host memory" } };

  for (const auto &[device, where] : cases)
    {
      Answer answer;

      start_on (device, 1);
      push_from (far_device (), &answer, 0, 0, dense ({ 1, 2 }));
      answer.wait ();
      EXPECT_EQ (answer.code, TPS_ERROR_INVALID_ARGUMENT);
      EXPECT_EQ (answer.message, std::string ("gradient.dense lies in memory of far:0, this server "
                                              "averages ")
                                     + where);
    }
}

/* If `is_lost`, the CPU's table fails when a thread waits for a stream. */
gboolean is_lost;

gboolean
failing_sync (TpsStream *stream, GError **error)
{
  if (!is_lost)
    return tps_device_find ("cpu", nullptr)->ops->stream_sync (stream, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST, "fake:0: it fell off the bus");
  return FALSE;
}

TEST_F (DeviceServer, ALostDeviceFailsDenseRoundsAndNoSparseOnes)
{
  Answer lost[2], sparse_one[2];

  is_lost = TRUE;
  ops.stream_sync = failing_sync;
  start_on (&fake, 2);
  for (gint32 trainer : { 0, 1 })
    {
      push (&lost[trainer], trainer, 0, 0, dense ({ 1, 2 }));
      push (&sparse_one[trainer], trainer, 0, 1, sparse ({ 1 }, 3, 1, { 7 }));
    }
  for (gint32 trainer : { 0, 1 })
    {
      lost[trainer].wait ();
      EXPECT_EQ (lost[trainer].code, TPS_ERROR_DEVICE_LOST);
      EXPECT_THAT (lost[trainer].message, testing::StartsWith ("round (batch 0"));
      EXPECT_THAT (lost[trainer].message, HasSubstr ("it fell off the bus"));
      sparse_one[trainer].wait ();
      EXPECT_EQ (sparse_one[trainer].code, 0);
    }
}

} // namespace
} // namespace averaging_test
