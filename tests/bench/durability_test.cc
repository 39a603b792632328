// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <string>

#include "bench/durability/fio.h"
#include "bench/durability/options.h"
#include "runtime/base/error.h"

namespace {

constexpr guint64 kGiB = guint64 { 1 } << 30;

class Room : public testing::Test
{
protected:
  Room ()
  {
    gchar program[] = "durability";
    gchar *argv[] = { program };

    EXPECT_TRUE (tps_durability_options_parse (&options_, 1, argv, nullptr));
  }
  ~Room () override
  {
    tps_durability_options_clear (&options_);
  }

  // Returns the reason why a run does not fit, or "" if it fits.
  std::string
  Fit (guint64 free_bytes, guint64 memory_bytes)
  {
    g_autoptr (GError) error = nullptr;

    if (tps_durability_options_fit_into (&options_, free_bytes, memory_bytes, &error))
      return "";
    EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
    return error->message;
  }

  TpsDurabilityOptions options_;
};

TEST_F (Room, TheTableHas2GiBWhereTheyFit)
{
  EXPECT_EQ (Fit (100 * kGiB, 20 * kGiB), "");
  EXPECT_EQ (options_.n_bytes, static_cast<gint64> (2 * kGiB));
}

TEST_F (Room, TheTableIsSmallerOtherwise)
{
  EXPECT_EQ (Fit (17 * kGiB, 20 * kGiB), "");
  EXPECT_EQ (options_.n_bytes, static_cast<gint64> (kGiB));
}

TEST_F (Room, MemoryCountsToo)
{
  EXPECT_EQ (Fit (100 * kGiB, 2 * kGiB), "");
  EXPECT_EQ (options_.n_bytes, static_cast<gint64> (kGiB / 2));
}

TEST_F (Room, AFullDiskIsNamed)
{
  EXPECT_EQ (Fit (kGiB, 20 * kGiB),
             "--disk=/var/tmp: 1.0 GiB are free, and the run needs about 12.2 GiB; choose another "
             "folder, or smaller --bytes and --seconds");
}

TEST_F (Room, AWantedSizeStays)
{
  options_.n_bytes = static_cast<gint64> (8 * kGiB);
  EXPECT_NE (Fit (30 * kGiB, 100 * kGiB).find ("30.0 GiB are free, and the run needs about 44."),
             std::string::npos);
  EXPECT_NE (Fit (100 * kGiB, 3 * kGiB).find ("3.0 GiB of memory are available"),
             std::string::npos);
  EXPECT_EQ (options_.n_bytes, static_cast<gint64> (8 * kGiB));
}

TEST (Fio, TheRateIsReadFromItsJson)
{
  const char json[] = "fio: a note\n{ \"jobs\": [ { \"read\": { \"bw_bytes\": 1500 }, "
                      "\"write\": { \"bw_bytes\": 2500.5 } } ] }";
  gdouble rate;

  EXPECT_TRUE (tps_fio_read_rate (json, TPS_FIO_READ, &rate, nullptr));
  EXPECT_EQ (rate, 1500);
  EXPECT_TRUE (tps_fio_read_rate (json, TPS_FIO_WRITE, &rate, nullptr));
  EXPECT_EQ (rate, 2500.5);
  EXPECT_TRUE (tps_fio_read_rate (json, TPS_FIO_GROUPS, &rate, nullptr));
  EXPECT_EQ (rate, 2500.5);
}

TEST (Fio, JsonWithoutARateIsAnError)
{
  for (const char *json :
       { "", "{", "{ \"jobs\": [] }", "{ \"jobs\": [ { \"read\": { \"bw_bytes\": 0 } } ] }" })
    {
      g_autoptr (GError) error = nullptr;
      gdouble rate;

      EXPECT_FALSE (tps_fio_read_rate (json, TPS_FIO_READ, &rate, &error)) << json;
      EXPECT_NE (error, nullptr);
    }
}

} // namespace
