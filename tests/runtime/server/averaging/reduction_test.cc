/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The bits of an average. They must equal the definition for every order of arrival and every
 * grouping into folds, in place or not. */

#include "runtime/machine/tuning.h"
#include "runtime/server/averaging/reduction.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "tests/runtime/server/averaging/gradients.h"

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

const TpsDType FLOATING[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT64, TPS_DTYPE_FLOAT16,
                              TPS_DTYPE_BFLOAT16 };

/* Returns values of very different magnitudes, so that another order of additions changes the
 * result. */
std::vector<double>
random_values (std::mt19937_64 *dice, size_t n, TpsDType dtype)
{
  std::uniform_real_distribution<double> mantissa (-1, 1);
  std::vector<double> values;

  for (size_t i = 0; i < n; i++)
    values.push_back (
        round_to (dtype, std::ldexp (mantissa (*dice), (int) ((*dice) () % 24) - 12)));
  return values;
}

/* Returns a gradient with some rows in any order, some of them repeatedly. */
Contribution
random_sparse (std::mt19937_64 *dice, int64_t rows, int64_t dim, double weight, TpsDType dtype)
{
  std::vector<int64_t> ids;
  bool is_sorted = (*dice) () % 2 == 0;

  for (int64_t id = 0; id < rows; id++)
    for (uint64_t n = (*dice) () % (is_sorted ? 2 : 4); n > 0; n--)
      ids.push_back (id);
  if (!is_sorted)
    std::shuffle (ids.begin (), ids.end (), *dice);
  return sparse (ids, rows, dim, random_values (dice, ids.size () * (size_t) dim, dtype), weight,
                 dtype);
}

std::vector<Contribution>
random_round (std::mt19937_64 *dice, bool is_sparse, size_t n_trainers, size_t n_values,
              TpsDType dtype)
{
  static const double weights[] = { 1, 1, 1, 0.7, 3 };
  std::vector<Contribution> all;

  for (size_t i = 0; i < n_trainers; i++)
    {
      double weight = weights[(*dice) () % 5];

      if (is_sparse)
        all.push_back (random_sparse (dice, 12, (int64_t) n_values, weight, dtype));
      else
        all.push_back (dense (random_values (dice, n_values, dtype), weight, dtype));
    }
  return all;
}

class Items
{
public:
  explicit Items (const std::vector<Contribution> &contributions) : items (contributions.size ())
  {
    for (size_t i = 0; i < items.size (); i++)
      {
        items[i].gradient = to_gradient (contributions[i]);
        pointers.push_back (&items[i]);
      }
  }

  ~Items ()
  {
    for (TpsFoldItem &item : items)
      tps_gradient_clear (&item.gradient);
  }

  std::vector<TpsFoldItem> items;
  std::vector<TpsFoldItem *> pointers;
};

/* Folds groups of the given sizes, one group after another. */
Average
fold_groups (const std::vector<Contribution> &contributions, const std::vector<size_t> &sizes,
             bool keeps_references)
{
  Items items (contributions);
  Items references ({});
  TpsReduction reduction;
  TpsGradient average = {};
  size_t begin = 0;

  for (TpsFoldItem &item : items.items)
    {
      references.items.emplace_back ();
      if (keeps_references)
        tps_gradient_init_ref (&references.items.back ().gradient, &item.gradient);
    }
  tps_reduction_init (&reduction, FALSE, NULL);
  for (size_t size : sizes)
    {
      bool is_last = begin + size == contributions.size ();

      EXPECT_TRUE (fold_all (&reduction, &items.pointers[begin], (guint) size,
                             is_last ? &average : NULL, NULL));
      begin += size;
    }
  for (size_t i = 0; keeps_references && i < contributions.size (); i++)
    EXPECT_TRUE (to_average (references.items[i].gradient) == as_average (contributions[i]))
        << "foreign elements were changed";
  Average result = to_average (average);
  tps_gradient_clear (&average);
  tps_reduction_clear (&reduction);
  return result;
}

TEST (Reduction, SameBitsForEveryGroupingInPlaceOrNot)
{
  std::mt19937_64 dice (2);

  for (TpsDType dtype : FLOATING)
    for (bool is_sparse : { false, true })
      for (bool keeps_references : { false, true })
        {
          std::vector<Contribution> given = random_round (&dice, is_sparse, 5, 9, dtype);
          Average expected = expected_average (given);

          for (const std::vector<size_t> &sizes : std::vector<std::vector<size_t>> {
                   { 5 }, { 1, 1, 1, 1, 1 }, { 2, 3 }, { 4, 1 }, { 1, 3, 1 } })
            ASSERT_TRUE (fold_groups (given, sizes, keeps_references) == expected)
                << tps_dtype_name (dtype);
        }
}

TEST (Reduction, BlocksMayRunInAnyOrder)
{
  std::mt19937_64 dice (4);

  for (TpsDType dtype : FLOATING)
    for (size_t n_blocks : { 1, 3 })
      {
        size_t n_elems = n_blocks * tps_tuning_get ()->digest_block_bytes / tps_dtype_size (dtype)
                         - 5;
        std::vector<Contribution> given = random_round (&dice, false, 2, n_elems, dtype);
        Items items (given);
        TpsReduction reduction;
        TpsGradient average = {};
        TpsFold fold;

        tps_reduction_init (&reduction, FALSE, NULL);
        ASSERT_TRUE (tps_fold_begin (&fold, &reduction, items.pointers.data (), 2, &average, NULL));
        ASSERT_EQ (fold.n_blocks, n_blocks);
        for (guint block = fold.n_blocks; block > 0; block--)
          tps_fold_run (&fold, block - 1, 1);
        ASSERT_TRUE (tps_fold_end (&fold, NULL));
        EXPECT_TRUE (to_average (average) == expected_average (given)) << tps_dtype_name (dtype);
        for (size_t i = 0; i < 2; i++)
          {
            TpsGradient gradient = to_gradient (given[i]);
            TpsDigest digest = tps_digest_of_gradient (&gradient);

            EXPECT_TRUE (items.items[i].has_digest
                         && tps_digest_equal (&digest, &items.items[i].digest));
            tps_gradient_clear (&gradient);
          }
        tps_gradient_clear (&average);
        tps_reduction_clear (&reduction);
      }
}

TEST (Reduction, EdgesOfFloatingPoint)
{
  const double inf = std::numeric_limits<double>::infinity ();

  for (TpsDType dtype : FLOATING)
    {
      /* The sum of -0 and -0 is -0. A sum that starts with 0 would lose the sign. The rows of a
       * single trainer must also keep it. */
      std::vector<Contribution> given = { dense ({ -0.0, inf, 1, 0 }, 1, dtype),
                                          dense ({ -0.0, 1, -1, -0.0 }, 1, dtype) };
      EXPECT_TRUE (fold_groups (given, { 1, 1 }, false) == expected_average (given));
      EXPECT_TRUE (std::signbit (
          *(const gfloat *) fold_groups ({ dense ({ -0.0 }), dense ({ -0.0 }) }, { 2 }, false)
               .bytes.data ()));
      given = { sparse ({ 1 }, 3, 1, { -0.0 }, 1, dtype),
                sparse ({ 2 }, 3, 1, { -0.0 }, 1, dtype) };
      EXPECT_TRUE (fold_groups (given, { 1, 1 }, false) == expected_average (given));
    }
}

/* A small gradient is charged as a part of its message, and the average may outlive this
 * message. */
TEST (Reduction, ASmallGradientDoesNotBecomeTheSum)
{
  Items items ({ dense ({ 1, 2 }), dense ({ 3, 4 }) });
  gconstpointer elements = tps_tensor_data (&items.items[0].gradient.dense);
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "averages", 1 << 20);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  TpsReduction reduction;
  TpsGradient average = {};

  tps_reduction_init (&reduction, FALSE, pool);
  ASSERT_TRUE (fold_all (&reduction, items.pointers.data (), 2, &average, NULL));
  EXPECT_NE (tps_tensor_data (&average.dense), elements);
  EXPECT_GT (tps_budget_get_held (budget), 0u);
  tps_gradient_clear (&average);
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

TEST (Reduction, FirstGradientBecomesTheSumWhereItLies)
{
  std::vector<double> values (2000, 1);
  Items items ({ dense (values), dense (values) });
  gconstpointer elements = tps_tensor_data (&items.items[0].gradient.dense);
  TpsReduction reduction;
  TpsGradient average = {};

  tps_reduction_init (&reduction, FALSE, NULL);
  ASSERT_TRUE (fold_all (&reduction, items.pointers.data (), 2, &average, NULL));
  EXPECT_EQ (tps_tensor_data (&average.dense), elements);
  EXPECT_TRUE (tps_buffer_is_exclusive (average.dense.buffer));
  tps_gradient_clear (&average);
}

TEST (Digest, DiffersForDifferentContributions)
{
  Contribution matrix = dense ({ 1, 2 });
  Contribution other_rows = sparse ({ 0 }, 6, 2, { 1, 2 });
  std::vector<Contribution> all = { dense ({ 1, 2 }),
                                    dense ({ 1, 3 }),
                                    dense ({ 1, 2 }, 2),
                                    dense ({ 1, 2 }, 1, TPS_DTYPE_FLOAT64),
                                    matrix,
                                    sparse ({ 0 }, 5, 2, { 1, 2 }),
                                    sparse ({ 1 }, 5, 2, { 1, 2 }),
                                    other_rows,
                                    no_data (),
                                    dense ({}),
                                    dense (std::vector<double> (50000, 1)),
                                    dense (std::vector<double> (50001, 1)) };
  std::vector<TpsDigest> digests;

  all[4].shape = { 2, 1 };
  for (const Contribution &contribution : all)
    {
      TpsGradient gradient = to_gradient (contribution);

      digests.push_back (tps_digest_of_gradient (&gradient));
      tps_gradient_clear (&gradient);
    }
  for (size_t i = 0; i < all.size (); i++)
    for (size_t j = 0; j < all.size (); j++)
      EXPECT_EQ (tps_digest_equal (&digests[i], &digests[j]), i == j) << i << " " << j;
}

} // namespace
} // namespace averaging_test
