/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/frame/writer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "runtime/base/error.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

class Writer : public testing::Test
{
protected:
  Writer ()
  {
    out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);
  }
  ~Writer () override
  {
    tps_writer_free (out);
  }

  void
  begin ()
  {
    tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
    tps_writer_struct_begin (out);
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
  }

  bool
  end (GError **error = nullptr)
  {
    tps_writer_struct_end (out);
    return tps_writer_message_end (out, error);
  }

  std::vector<struct iovec>
  pieces ()
  {
    guint n_pieces;
    gsize n_bytes, sum = 0;
    const struct iovec *first = tps_writer_get_pieces (out, &n_pieces, &n_bytes);

    for (guint i = 0; i < n_pieces; i++)
      sum += first[i].iov_len;
    EXPECT_EQ (sum, n_bytes);
    return { first, first + n_pieces };
  }

  TpsWriter *out;
};

TEST_F (Writer, reportsItsReleaseOnce)
{
  int n_calls = 0;
  auto count = [] (gpointer calls) { ++*static_cast<int *> (calls); };

  tps_writer_set_released (out, count, &n_calls);
  begin ();
  tps_writer_string (out, "x");
  ASSERT_TRUE (end ());
  EXPECT_EQ (n_calls, 0);
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, FALSE);
  EXPECT_EQ (n_calls, 1);
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, FALSE);
  EXPECT_EQ (n_calls, 1);
  tps_writer_set_released (out, count, &n_calls);
  tps_writer_free (g_steal_pointer (&out));
  EXPECT_EQ (n_calls, 2);
}

TEST_F (Writer, reportsItsQueueingOrResetOnce)
{
  int n_calls = 0;
  auto count = [] (gpointer calls) { ++*static_cast<int *> (calls); };

  tps_writer_set_queued (out, count, &n_calls);
  begin ();
  ASSERT_TRUE (end ());
  EXPECT_EQ (n_calls, 0);
  tps_writer_queued (out);
  tps_writer_queued (out);
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, FALSE);
  EXPECT_EQ (n_calls, 1);
  tps_writer_set_queued (out, count, &n_calls);
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, FALSE);
  EXPECT_EQ (n_calls, 2);
  tps_writer_set_queued (out, count, &n_calls);
  tps_writer_free (g_steal_pointer (&out));
  EXPECT_EQ (n_calls, 3);
}

/* The bytes need not exist, because the writer never reads them. */
TEST_F (Writer, aMessageThatNoFrameCanHoldIsRefused)
{
  const gsize half = (gsize) 1 << 30;
  g_autoptr (GError) error = nullptr;
  g_autoptr (GError) binary_error = nullptr;
  char byte = 0;

  begin ();
  tps_writer_binary_borrowed (out, &byte, half);
  tps_writer_field (out, 2, TPS_WIRE_BINARY);
  tps_writer_binary_borrowed (out, &byte, half);
  EXPECT_FALSE (end (&error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));

  tps_writer_reset (out, TPS_PROTOCOL_BINARY, FALSE);
  begin ();
  tps_writer_binary_borrowed (out, &byte, 2 * half);
  EXPECT_FALSE (end (&binary_error));
  EXPECT_TRUE (g_error_matches (binary_error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
}

std::string
join (const std::vector<struct iovec> &pieces)
{
  std::string bytes;

  for (const struct iovec &piece : pieces)
    bytes.append (static_cast<const char *> (piece.iov_base), piece.iov_len);
  return bytes;
}

TEST_F (Writer, aBinaryInPiecesHasOneLengthAndTheirBytes)
{
  std::string large (TPS_MESSAGE_BODY_THRESHOLD, 'x');
  char small[] = "abc";
  struct iovec parts[] = { { small, 3 }, { large.data (), large.size () }, { small, 2 } };

  begin ();
  tps_writer_binary_pieces (out, parts, 3);
  ASSERT_TRUE (end ());
  ASSERT_EQ (pieces ().size (), 3u);
  EXPECT_EQ (pieces ()[1].iov_base, large.data ());

  std::string sent = join (pieces ());
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, TRUE);
  begin ();
  std::string whole = "abc" + large + "ab";
  tps_writer_binary (out, whole.data (), whole.size ());
  ASSERT_TRUE (end ());
  EXPECT_EQ (sent, join (pieces ()));
}

/* Address space that takes no memory unless it is read. */
class Vast
{
public:
  explicit Vast (gsize n) : n_bytes (n)
  {
    data = mmap (nullptr, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~Vast ()
  {
    munmap (data, n_bytes);
  }

  void *data;
  gsize n_bytes;
};

TEST_F (Writer, aBinaryBeyondTwoGibOnlyGoesInATransfer)
{
  Vast vast ((gsize) 3 << 30);
  g_autoptr (GError) error = nullptr;

  begin ();
  tps_writer_binary_borrowed (out, vast.data, vast.n_bytes);
  tps_writer_field (out, 2, TPS_WIRE_BINARY);
  tps_writer_string (out, "after");
  EXPECT_FALSE (end (&error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
  ASSERT_TRUE (tps_writer_message_end_transferred (out, nullptr));

  std::vector<struct iovec> parts = pieces ();
  ASSERT_EQ (parts.size (), 3u);
  std::string head (static_cast<const char *> (parts[0].iov_base), parts[0].iov_len);
  EXPECT_EQ (head.substr (head.size () - 12),
             std::string ("\xff\xff\xff\xff\0\0\0\0\xc0\0\0\0", 12));
  EXPECT_EQ (parts[1].iov_len, vast.n_bytes);
  EXPECT_NE (join ({ parts[2] }).find ("after"), std::string::npos);
}

/* Bytes in shared memory may be changed by the peer, so they are copied, however many they are. */
TEST_F (Writer, copiesOfSharedMemoryAreChargedOrFail)
{
  std::string bytes (300000, 'x');
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "replies", 500000);
  g_autoptr (TpsBuffer)
      shared = tps_buffer_new_shared (bytes.data (), bytes.size (), nullptr, nullptr);

  tps_writer_set_budget (out, budget);
  begin ();
  tps_writer_binary_buffer (out, shared, 0, bytes.size ());
  EXPECT_GE (tps_budget_get_held (budget), bytes.size ());
  tps_writer_binary_buffer (out, shared, 0, bytes.size ());
  EXPECT_FALSE (end ());
  EXPECT_LE (tps_budget_get_peak (budget), 500000u);
  tps_writer_reset (out, TPS_PROTOCOL_BINARY, TRUE);
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

TEST_F (Writer, compactProtocolCannotEncodeLongBinaries)
{
  Vast vast ((gsize) 3 << 30);
  g_autoptr (GError) error = nullptr;

  tps_writer_reset (out, TPS_PROTOCOL_COMPACT, TRUE);
  begin ();
  tps_writer_binary_borrowed (out, vast.data, vast.n_bytes);
  EXPECT_FALSE (end ());
  EXPECT_FALSE (tps_writer_message_end_transferred (out, &error));
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
}

} // namespace
} // namespace thriftps
