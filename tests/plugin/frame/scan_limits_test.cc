/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests frames with false lengths, and messages that would take too much memory. They must be
 * refused before any memory is allocated for their claims. */

#include "plugin/frame/scan.h"

#include "tests/plugin/frame/hostile_bytes.h"

namespace thriftps {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/* ---- frames --------------------------------------------------------------------------------- */

TEST (ScanLimits, aFrameAtTheLimitIsNotHostile)
{
  Bytes start = header () + field (TPS_WIRE_BINARY, 1);
  gsize n_bytes = LIMIT - start.size () - 4 - STOP.size ();

  expect_accepted (frame (start + be (n_bytes, 4) + Bytes (n_bytes, 'x') + STOP));
  expect_accepted (start + be (n_bytes, 4) + Bytes (n_bytes, 'x') + STOP);
}

TEST (ScanLimits, aClaimThatStallsHoldsNoMemory)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (nullptr, nullptr, 0);
  ScanOptions options;

  options.pool = pool;
  options.max_message_bytes = 256 << 20;
  Scan scan = scan_bytes (be (16 << 20, 4) + header () + field (TPS_WIRE_LIST, 1)
                              + be (TPS_WIRE_I64, 1) + be (1 << 20, 4),
                          options);
  EXPECT_EQ (scan.error, "");
  EXPECT_FALSE (scan.idle);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanLimits, aMessageThatIsCutByTheEndOfTheConnectionIsNotIdle)
{
  EXPECT_FALSE (scan_bytes (frame (header () + STOP).substr (0, 3)).idle);
  EXPECT_FALSE (scan_bytes (frame (header () + STOP).substr (0, 15)).idle);
  EXPECT_FALSE (scan_bytes ("\x80").idle);
  EXPECT_TRUE (scan_bytes ("").idle);
  EXPECT_TRUE (scan_bytes (frame (header () + STOP)).idle);
}

/* ---- limits on memory ----------------------------------------------------------------------- */

/* One byte of the compact protocol may take eight bytes of the decoded head. */
TEST (ScanLimits, aHeadThatGrowsBeyondItsLimit)
{
  ScanOptions options;
  Bytes message = compact_header () + compact_field (C_LIST) + be (0xf0 | C_I64, 1)
                  + varint (100000) + Bytes (100000, '\0') + STOP;

  options.max_head_bytes = 800008;
  EXPECT_THAT (scan_bytes (message, options).error,
               HasSubstr ("exceeds the limit of 800008 bytes"));
  EXPECT_EQ (scan_bytes (message, options).code, TPS_ERROR_RESOURCE_EXHAUSTED);
  options.max_head_bytes = 800009;
  EXPECT_EQ (scan_bytes (message, options).error, "");
}

/* Without a charge for the head, unknown fields would take memory outside of all limits. */
TEST (ScanLimits, aHeadIsChargedAndDroppedWhereItDoesNotFit)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 64 << 10);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  ScanOptions options;
  auto message = [] (gsize n_bytes) {
    return frame (header () + field (TPS_WIRE_LIST, 99) + be (TPS_WIRE_BYTE, 1) + be (n_bytes, 4)
                  + Bytes (n_bytes, 'x') + STOP);
  };

  options.pool = pool;
  {
    Scan scan = scan_bytes (message (20000) + message (40000) + message (100), options);

    EXPECT_EQ (scan.error, "");
    ASSERT_EQ (scan.messages.size (), 3u);
    EXPECT_EQ (scan.messages[0]->n_bytes_refused, 0u);
    EXPECT_GT (scan.messages[1]->n_bytes_refused, 0u) << "it is answered, the connection stays";
    EXPECT_LT (scan.messages[1]->head->len, 4096u);
    EXPECT_EQ (scan.messages[2]->n_bytes_refused, 0u);
    EXPECT_GE (tps_budget_get_held (budget), (32u << 10) + 2 * TPS_MESSAGE_BYTES);
  }
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

TEST (ScanLimits, everyMessageIsCharged)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 10 * TPS_MESSAGE_BYTES);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  ScanOptions options;
  Bytes bytes;

  options.pool = pool;
  for (int i = 0; i < 20; i++)
    bytes += frame (header () + STOP);
  Scan scan = scan_bytes (bytes, options);
  ASSERT_EQ (scan.messages.size (), 20u);
  EXPECT_EQ (scan.messages[0]->n_bytes_refused, 0u);
  EXPECT_GT (scan.messages[19]->n_bytes_refused, 0u);
}

TEST (ScanLimits, decodedMemoryIsChargedToTheMessage)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 64 << 10);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  g_autoptr (GError) error = nullptr;
  ScanOptions options;

  options.pool = pool;
  {
    Scan scan = scan_bytes (frame (header () + STOP), options);
    TpsMessage *message = scan.messages[0];

    EXPECT_TRUE (tps_message_charge (message, 30000, &error));
    EXPECT_GE (tps_budget_get_held (budget), 30000u);
    EXPECT_FALSE (tps_message_charge (message, 60000, &error));
    EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED));
    EXPECT_FALSE (tps_message_charge (message, G_MAXSIZE, nullptr));
  }
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

Bytes
two_bodies (gsize n_first, gsize n_second)
{
  return header () + field (TPS_WIRE_BINARY, 1) + be (n_first, 4) + Bytes (n_first, 'a')
         + field (TPS_WIRE_BINARY, 2) + be (n_second, 4) + Bytes (n_second, 'b') + STOP;
}

TEST (ScanLimits, bodiesThatThePoolRefusesAreReadAndDropped)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 64 << 10);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  ScanOptions options;

  options.pool = pool;
  for (bool use_get_body : { false, true })
    {
      options.use_get_body = [use_get_body] { return use_get_body; };
      Scan scan = scan_bytes (
          frame (two_bodies (8 << 10, 200 << 10)) + frame (two_bodies (5000, 6000)), options);

      ASSERT_EQ (scan.error, "");
      ASSERT_EQ (scan.messages.size (), 2u);
      EXPECT_EQ (scan.messages[0]->n_bytes_refused, gsize (200 << 10));
      EXPECT_EQ (scan.messages[0]->n_bytes_bodies, gsize (208 << 10));
      EXPECT_EQ (scan.messages[0]->n_bytes_dropped,
                 tps_buffer_pool_get_cost (8 << 10) + tps_buffer_pool_get_cost (200 << 10));
      EXPECT_EQ (scan.messages[0]->n_bodies, 0u) << "they are kept for nothing";
      EXPECT_EQ (scan.messages[1]->n_bytes_refused, 0u);
      EXPECT_NE (scan.messages[1]->bodies[1].buffer, nullptr);
    }
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanLimits, afterARefusedBodyTheOthersOfItsMessageTakeNoMemory)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 64 << 10);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  ScanOptions options;

  options.pool = pool;
  Scan scan = scan_bytes (frame (two_bodies (200 << 10, 5000)), options);
  ASSERT_EQ (scan.messages.size (), 1u);
  EXPECT_EQ (scan.messages[0]->n_bytes_refused, (200u << 10) + 5000);
}

TEST (ScanLimits, anErrorGivesTheBodiesBack)
{
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (nullptr, nullptr, 0);
  TpsScannerOptions options = { .max_message_bytes = LIMIT, .max_head_bytes = 0, .bodies = pool };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  g_autoptr (GError) error = nullptr;
  Bytes bytes = two_bodies (5000, 5000);
  gsize position = 0, n_consumed;

  bytes.back () = 99;
  bytes += "id";
  for (bool ok = true; ok && position < bytes.size (); position += n_consumed)
    {
      EXPECT_EQ (error, nullptr);
      ok = tps_scanner_feed (scanner, reinterpret_cast<const guint8 *> (bytes.data ()) + position,
                             bytes.size () - position, &n_consumed, &error);
    }
  ASSERT_NE (error, nullptr);
  EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool), 0u);
}

TEST (ScanLimits, afterAnErrorTheScannerStaysBad)
{
  TpsScannerOptions options = { .max_message_bytes = LIMIT,
                                .max_head_bytes = 0,
                                .bodies = nullptr };
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&options);
  Bytes good = frame (header () + STOP);
  Bytes bad = be (0, 4);
  guint8 *dest;
  gsize n;

  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = nullptr;
      const Bytes &bytes = i == 0 ? bad : good;

      EXPECT_FALSE (tps_scanner_feed (scanner, reinterpret_cast<const guint8 *> (bytes.data ()),
                                      bytes.size (), &n, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_PROTOCOL));
      EXPECT_STREQ (error->message, "a frame has the length 0, expected at least 1");
      EXPECT_EQ (tps_scanner_take (scanner), nullptr);
      EXPECT_FALSE (tps_scanner_get_body (scanner, &dest, &n));
      EXPECT_FALSE (tps_scanner_is_idle (scanner));
    }
}

TEST (ScanLimits, anErrorNamesItsOffset)
{
  EXPECT_THAT (scan_bytes (frame (header () + be (99, 1) + be (1, 2))).error,
               StartsWith ("byte 13 of a message: "));
}

/* A connection must either use frames for all messages or for none. */
TEST (ScanLimits, framingThatChanges)
{
  Bytes message = header () + STOP;
  Scan framed_first = scan_bytes (frame (message) + message);
  Scan unframed_first = scan_bytes (message + frame (message));

  EXPECT_EQ (framed_first.messages.size (), 1u);
  EXPECT_THAT (framed_first.error, HasSubstr ("negative length 0x80010001"));
  EXPECT_EQ (unframed_first.messages.size (), 1u);
  EXPECT_THAT (unframed_first.error, HasSubstr ("begins with 0x00"));
}

} // namespace
} // namespace thriftps
