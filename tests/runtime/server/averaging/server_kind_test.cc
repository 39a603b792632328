/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/averaging/server_kind.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace {

using testing::HasSubstr;

TEST (ServerKind, KnowsTheOriginalsNames)
{
  EXPECT_STREQ (tps_server_kind_find (NULL, NULL)->name, "AverageParameterServer");
  EXPECT_STREQ (tps_server_kind_find ("AverageBatchParameterServer", NULL)->name,
                "AverageBatchParameterServer");
}

TEST (ServerKind, UnknownNameListsTheKnown)
{
  g_autoptr (GError) error = NULL;

  EXPECT_EQ (tps_server_kind_find ("Average", &error), nullptr);
  ASSERT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
  EXPECT_THAT (
      error->message,
      HasSubstr ("\"Average\"; known: AverageParameterServer, AverageBatchParameterServer"));
}

gboolean
fold_in_halves (guint n_arrived, guint n_trainers)
{
  return n_arrived * 2 >= n_trainers;
}

TEST (ServerKind, ProgramsRegisterTheirOwnOnce)
{
  static const TpsServerKind own = { "HalfwayParameterServer", "waits for half of them",
                                     fold_in_halves };
  g_autoptr (GError) error = NULL;
  guint n = 0;

  ASSERT_TRUE (tps_server_kind_register (&own, NULL));
  EXPECT_EQ (tps_server_kind_find ("HalfwayParameterServer", NULL), &own);
  EXPECT_FALSE (tps_server_kind_register (&own, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS));
  g_autofree const TpsServerKind **list = tps_server_kind_list ();
  while (list[n] != NULL)
    n++;
  EXPECT_EQ (n, 3u);
  EXPECT_EQ (list[2], &own);
}

} // namespace
