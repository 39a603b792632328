/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Old versions of the model that trainers may still request. */

#include "runtime/server/model/model_capture.h"

#include <vector>

#include <gtest/gtest.h>

namespace updating_test {
namespace {

class KeptVersions : public testing::Test
{
protected:
  KeptVersions ()
  {
    tps_kept_versions_init (&versions_, 4);
    dropped_ = g_ptr_array_new_with_free_func (
        reinterpret_cast<GDestroyNotify> (tps_model_version_unref));
  }
  ~KeptVersions () override
  {
    tps_kept_versions_clear (&versions_);
    g_ptr_array_unref (dropped_);
  }

  void
  add (gint64 number, std::vector<gint32> trainers)
  {
    g_autoptr (TpsModelVersion) model = tps_model_version_new (number, 0);

    tps_kept_versions_add (&versions_, model, trainers.data (),
                           static_cast<guint> (trainers.size ()), dropped_);
  }
  bool
  has (gint64 number)
  {
    return tps_kept_versions_find (&versions_, number) != nullptr;
  }

  TpsKeptVersions versions_;
  GPtrArray *dropped_;
};

TEST_F (KeptVersions, aVersionStaysUntilAllItWasAnsweredToHaveANewerOne)
{
  add (2, { 0, 1, 2 });
  add (3, { 0, 1 });
  EXPECT_TRUE (has (2));
  add (4, { 2, 3 });
  EXPECT_FALSE (has (2));
  EXPECT_TRUE (has (3));
  EXPECT_TRUE (has (4));
  EXPECT_EQ (dropped_->len, 1u);
}

TEST_F (KeptVersions, keepsTheNewestOnlyWhereTrainersStayAway)
{
  add (2, { 3 });
  for (gint64 number = 3; number < 100; number++)
    add (number, { 0 });
  EXPECT_TRUE (has (2)); /* trainer 3 may still request it */
  EXPECT_FALSE (has (98));
  for (gint32 trainer = 0; trainer < 3; trainer++)
    add (100 + trainer, { trainer });
  EXPECT_EQ (versions_.n_kept, 4u);
}

TEST_F (KeptVersions, holdsABoundedNumber)
{
  TpsKeptVersions many;

  tps_kept_versions_init (&many, 100);
  for (gint32 trainer = 0; trainer < 100; trainer++)
    {
      g_autoptr (TpsModelVersion) model = tps_model_version_new (2 + trainer, 0);

      tps_kept_versions_add (&many, model, &trainer, 1, dropped_);
      EXPECT_LE (many.n_kept, static_cast<guint> (TPS_MAX_KEPT_VERSIONS));
    }
  EXPECT_EQ (tps_kept_versions_find (&many, 2), nullptr);
  EXPECT_NE (tps_kept_versions_find (&many, 101), nullptr);
  for (gint32 trainer = 0; trainer < 100; trainer++) /* their versions are dropped already */
    {
      g_autoptr (TpsModelVersion) model = tps_model_version_new (200 + trainer, 0);

      tps_kept_versions_add (&many, model, &trainer, 1, dropped_);
    }
  tps_kept_versions_clear (&many);
}

TEST_F (KeptVersions, aResetForgetsAll)
{
  add (2, { 0, 1 });
  tps_kept_versions_reset (&versions_, 4, dropped_);
  EXPECT_FALSE (has (2));
  EXPECT_EQ (dropped_->len, 1u);
  add (2, { 0 }); /* version numbers start again after a reset */
  EXPECT_TRUE (has (2));
}

} // namespace
} // namespace updating_test
