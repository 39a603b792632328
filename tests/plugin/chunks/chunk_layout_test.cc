/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/chunk_layout.h"

#include <gtest/gtest.h>

#include "tests/plugin/chunks/chunk_fixture.h"

namespace thriftps {
namespace {

TEST (Crc32c, isTheCastagnoliOne)
{
  /* These are the test vectors of RFC 3720, B.4, and the check value of the CRC catalogue. */
  EXPECT_EQ (tps_crc32c (0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ (tps_crc32c (0, std::string (32, '\0').data (), 32), 0x8a9136aau);
  EXPECT_EQ (tps_crc32c (0, std::string (32, '\xff').data (), 32), 0x62a8ab43u);
  EXPECT_EQ (tps_crc32c (0, nullptr, 0), 0u);
}

TEST (Crc32c, isTheSameInPieces)
{
  std::string bytes = pattern (1000);
  struct iovec pieces[] = { { bytes.data (), 1 },
                            { bytes.data () + 1, 599 },
                            { bytes.data () + 600, 400 } };

  EXPECT_EQ (tps_crc32c_of_pieces (pieces, 3), tps_crc32c (0, bytes.data (), bytes.size ()));
}

TEST (ChunkLayout, cutsIntoEqualChunksAndARest)
{
  TpsChunkLayout layout = tps_chunk_layout (10, 4);

  EXPECT_EQ (layout.n_chunks, 3);
  EXPECT_EQ (tps_chunk_layout_get_length (&layout, 0), 4u);
  EXPECT_EQ (tps_chunk_layout_get_length (&layout, 2), 2u);
  layout = tps_chunk_layout (8, 4);
  EXPECT_EQ (layout.n_chunks, 2);
  EXPECT_EQ (tps_chunk_layout_get_length (&layout, 1), 4u);
  layout = tps_chunk_layout (3, 4);
  EXPECT_EQ (layout.n_chunks, 1);
  EXPECT_EQ (tps_chunk_layout_get_length (&layout, 0), 3u);
}

TEST (ChunkLayout, neverHasMoreChunksThanCanBeCounted)
{
  TpsChunkLayout layout = tps_chunk_layout (G_GINT64_CONSTANT (1) << 40, 1);

  EXPECT_LE (layout.n_chunks, G_MAXINT32);
  EXPECT_TRUE (tps_chunk_layout_is_possible (layout.n_bytes, layout.n_chunks, layout.n_each_bytes));
}

TEST (ChunkLayout, acceptsOnlyConsistentNumbers)
{
  for (gint64 n_bytes = 1; n_bytes < 60; n_bytes++)
    for (gint32 n_chunks = 1; n_chunks < 60; n_chunks++)
      for (gsize n_each = 1; n_each < 60; n_each++)
        {
          TpsChunkLayout layout = tps_chunk_layout (n_bytes, n_each);
          bool expected = layout.n_chunks == n_chunks && layout.n_each_bytes == n_each;

          EXPECT_EQ (tps_chunk_layout_is_possible (n_bytes, n_chunks, n_each), expected)
              << n_bytes << " " << n_chunks << " " << n_each;
        }
}

TEST (ChunkLayout, refusesNumbersThatOverflow)
{
  EXPECT_FALSE (tps_chunk_layout_is_possible (0, 1, 1));
  EXPECT_FALSE (tps_chunk_layout_is_possible (-1, 1, 1));
  EXPECT_FALSE (tps_chunk_layout_is_possible (1, 0, 1));
  EXPECT_FALSE (tps_chunk_layout_is_possible (1, -1, 1));
  EXPECT_FALSE (tps_chunk_layout_is_possible (1, 1, 0));
  EXPECT_FALSE (tps_chunk_layout_is_possible (1, G_MAXINT32, G_MAXSIZE));
  EXPECT_FALSE (tps_chunk_layout_is_possible (G_MAXINT64, G_MAXINT32, G_MAXSIZE / 2));
  EXPECT_FALSE (tps_chunk_layout_is_possible (G_MAXINT64, G_MAXINT32, G_MAXINT32));
}

TEST (ChunkLayout, findsTheBytesWhereTheyLie)
{
  std::string large = pattern (10000), borrowed = pattern (7000, 2);
  g_autoptr (TpsWriter) message = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);

  tps_writer_message_begin (message, "m", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (message);
  for (gint16 id = 1; id <= 2; id++)
    {
      tps_writer_field (message, id, TPS_WIRE_BINARY);
      tps_writer_binary_borrowed (message, id == 1 ? large.data () : borrowed.data (),
                                  id == 1 ? large.size () : borrowed.size ());
    }
  tps_writer_struct_end (message);
  ASSERT_TRUE (tps_writer_message_end_transferred (message, nullptr));
  std::string whole = join (message);

  for (gsize n_each : { 1, 7, 100, 4096, 9999, 20000 })
    {
      TpsChunkLayout layout = tps_chunk_layout (static_cast<gint64> (whole.size ()), n_each);
      std::string found;

      for (gint32 index = 0; index < layout.n_chunks; index++)
        {
          g_autoptr (GArray) pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
          gsize before = found.size ();

          tps_chunk_layout_get_pieces (&layout, index, message, pieces);
          for (guint i = 0; i < pieces->len; i++)
            {
              const struct iovec *piece = &g_array_index (pieces, struct iovec, i);

              found.append (static_cast<const char *> (piece->iov_base), piece->iov_len);
            }
          EXPECT_EQ (found.size () - before, tps_chunk_layout_get_length (&layout, index));
        }
      EXPECT_EQ (found, whole) << n_each;
    }
}

} // namespace
} // namespace thriftps
