// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/transfer/system/row.h"

#include <gtest/gtest.h>

#include <string>

namespace {

TEST (TransferRow, AnEchoMovesItsBytesTwice)
{
  TpsTransferRow row = { .op = TPS_TRANSFER_PULL,
                         .n_bytes = 1000,
                         .n_connections = 1,
                         .n_in_flight = 1,
                         .n_calls = 3,
                         .is_check = FALSE };
  EXPECT_EQ (tps_transfer_row_get_bytes (&row), 3000);
  row.op = TPS_TRANSFER_ECHO;
  EXPECT_EQ (tps_transfer_row_get_bytes (&row), 6000);
}

TEST (TransferRow, ACheckBringsBytesBackOnEveryConnection)
{
  TpsTransferRow row, check;
  ASSERT_TRUE (tps_transfer_row_parse ("push 4096 8 4 500", &row));
  check = tps_transfer_row_get_check (&row);
  g_autofree gchar *line = tps_transfer_row_to_line (&check);
  EXPECT_STREQ (line, "check echo 4096 8 1 8");
  row.op = TPS_TRANSFER_PULL;
  EXPECT_EQ (tps_transfer_row_get_check (&row).op, TPS_TRANSFER_PULL);
}

TEST (TransferPattern, EveryByteCounts)
{
  g_autoptr (TpsBuffer) buffer = tps_transfer_pattern_new (4096);
  guint8 *data = tps_buffer_get_data (buffer);

  EXPECT_TRUE (tps_transfer_pattern_matches (data, 4096));
  for (gsize i = 0; i < 4096; i++)
    {
      data[i] ^= 1;
      EXPECT_FALSE (tps_transfer_pattern_matches (data, 4096)) << i;
      data[i] ^= 1;
    }
  EXPECT_FALSE (tps_transfer_pattern_matches (data + 4, 4092)); // the pattern depends on the offset
}

} // namespace
