/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The scanner refuses every malformed message. Nevertheless a reader must never leave its message,
 * for any sequence of reads of a decoder. */

#include "plugin/frame/reader.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/plugin/frame/random_value.h"
#include "tests/plugin/frame/wire_bytes.h"

namespace thriftps {
namespace {

Scan
scan_struct (const std::function<void (TpsWriter *)> &write)
{
  g_autoptr (TpsWriter) out = tps_writer_new (TPS_PROTOCOL_BINARY, TRUE);

  tps_writer_message_begin (out, "m", TPS_MESSAGE_CALL, 1);
  tps_writer_struct_begin (out);
  write (out);
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end (out, nullptr));
  return scan_bytes (join_pieces (out));
}

TEST (Reader, goesBadAtTheEndAndStaysBad)
{
  Scan scan = scan_struct ([] (TpsWriter *out) {});
  TpsWireType type;
  TpsReader in;
  gint16 id;

  tps_reader_init (&in, scan.messages.at (0));
  EXPECT_FALSE (tps_reader_field (&in, &id, &type));
  EXPECT_FALSE (in.bad);
  EXPECT_EQ (tps_reader_i32 (&in), 0);
  EXPECT_TRUE (in.bad);
  EXPECT_EQ (tps_reader_i64 (&in), 0);
  EXPECT_EQ (tps_reader_double (&in), 0);
  EXPECT_EQ (tps_reader_binary (&in).data, nullptr);
  EXPECT_FALSE (tps_reader_field (&in, &id, &type));
}

TEST (Reader, aValueOfAnotherTypeReadsAsAnEmptyList)
{
  Scan scan = scan_struct ([] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_I64);
    tps_writer_i64 (out, G_GINT64_CONSTANT (0x0f7fffffff000000));
  });
  TpsWireType type;
  guint32 n_elems;
  TpsReader in;
  gint16 id;

  tps_reader_init (&in, scan.messages.at (0));
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  tps_reader_list_begin (&in, &type, &n_elems);
  EXPECT_EQ (n_elems, 0u);
  EXPECT_TRUE (in.bad);
}

TEST (Reader, largeBinariesAreBodiesAndSmallOnesStandInTheHead)
{
  std::string large (TPS_MESSAGE_BODY_THRESHOLD, 'l');
  Scan scan = scan_struct ([&] (TpsWriter *out) {
    tps_writer_field (out, 1, TPS_WIRE_BINARY);
    tps_writer_binary (out, large.data (), large.size () - 1);
    tps_writer_field (out, 2, TPS_WIRE_BINARY);
    tps_writer_binary (out, large.data (), large.size ());
  });
  TpsWireType type;
  TpsReader in;
  gint16 id;

  tps_reader_init (&in, scan.messages.at (0));
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  EXPECT_EQ (tps_reader_binary (&in).buffer, nullptr);
  ASSERT_TRUE (tps_reader_field (&in, &id, &type));
  TpsBytesView view = tps_reader_binary (&in);
  ASSERT_NE (view.buffer, nullptr);
  EXPECT_EQ (reinterpret_cast<guintptr> (view.data) % TPS_BUFFER_ALIGNMENT, 0u);
  EXPECT_EQ (std::string (reinterpret_cast<const char *> (view.data), view.n_bytes), large);
}

TEST (Reader, aRefusedBodyIsNotReadable)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "bodies", 1);
  g_autoptr (TpsBufferPool) pool = tps_buffer_pool_new (budget, nullptr, 0);
  TpsMessage *message = tps_message_new ();
  TpsReader in;

  g_byte_array_append (message->head, reinterpret_cast<const guint8 *> ("\0\0\x13\x88"), 4);
  message->n_bytes_refused = 5000;
  tps_reader_init (&in, message);
  EXPECT_EQ (tps_reader_binary (&in).n_bytes, 0u);
  EXPECT_TRUE (in.bad);
  tps_message_free (message);
}

/* Even if the decoder requests random types, the reader must terminate. */
TEST (Reader, survivesDecodersThatAreWrong)
{
  for (guint seed = 0; seed < 4000; seed++)
    {
      Random random (seed);
      Value arguments = random_arguments (random);
      Scan scan = scan_struct ([&] (TpsWriter *out) {
        tps_writer_field (out, 1, TPS_WIRE_STRUCT);
        write_value (out, arguments);
      });
      TpsReader in;

      tps_reader_init (&in, scan.messages.at (0));
      for (guint i = 0; i < 20; i++)
        if (pick (random, 2) == 0)
          read_value (&in, random_type (random, 0));
        else
          tps_reader_skip (&in, static_cast<TpsWireType> (pick (random, 17)));
      EXPECT_LE (in.position, in.message->head->len);
    }
}

TEST (Message, aNewOneIsEmptyAlsoInReusedMemory)
{
  for (guint i = 0; i < 100; i++)
    {
      TpsMessage *message = tps_message_new ();

      EXPECT_EQ (message->name, nullptr);
      EXPECT_EQ (message->head->len, 0u);
      EXPECT_EQ (message->n_bodies, 0u);
      EXPECT_EQ (message->n_bytes_refused, 0u);
      EXPECT_EQ (message->seqid, 0);
      tps_message_set_name (message, "m");
      message->seqid = 5;
      message->n_bytes_refused = 1;
      g_byte_array_set_size (message->head, 1000 * i);
      tps_message_free (message);
    }
}

/* Each thread has its own cache, which ends with the thread. Nothing may leak, and no other thread
 * may use the cache. */
TEST (Message, mayBeFreedByAnotherThread)
{
  std::vector<TpsMessage *> messages;
  std::vector<std::thread> threads;

  for (guint i = 0; i < 400; i++)
    messages.push_back (tps_message_new ());
  for (guint i = 0; i < 4; i++)
    threads.emplace_back ([&messages, i] {
      for (guint j = 0; j < 100; j++)
        tps_message_free (messages[100 * i + j]);
      for (guint j = 0; j < 100; j++)
        tps_message_free (tps_message_new ());
    });
  for (std::thread &thread : threads)
    thread.join ();
}

} // namespace
} // namespace thriftps
