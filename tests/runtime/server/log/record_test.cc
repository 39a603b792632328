/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Encoding and decoding of records. */

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/server/log/log_format.h"
#include "tests/runtime/server/log/commands.h"

namespace thriftps {
namespace {

/* A record decoded from a copy of some bytes. */
class Decoded
{
public:
  explicit Decoded (const std::string &bytes)
  {
    tps_record_decoder_init (&decoder);
    buffer_ = tps_buffer_new_copy (bytes.data (), bytes.size ());
    const guint8 *data = tps_buffer_get_data (buffer_);
    is_fine = bytes.size () >= TPS_LOG_RECORD_HEADER && tps_record_decode_head (data, &head_)
              && head_.body_bytes == bytes.size () - TPS_LOG_RECORD_HEADER
              && tps_record_check_body (&head_, data + TPS_LOG_RECORD_HEADER)
              && tps_record_decode (&decoder, &head_, buffer_, TPS_LOG_RECORD_HEADER, &error);
  }

  ~Decoded ()
  {
    tps_record_decoder_clear (&decoder);
    tps_buffer_unref (buffer_);
    g_clear_error (&error);
  }

  bool is_fine;
  GError *error = nullptr;
  TpsRecordDecoder decoder;

private:
  TpsBuffer *buffer_;
  TpsRecordHead head_ {};
};

TEST (LogRecord, AllKindsComeBackAsTheyWere)
{
  for (uint32_t seed = 0; seed < 40; seed++)
    for (TpsCommandKind kind : kAllKinds)
      {
        RandomCommand command (seed, 1 + seed, kind, 5000);
        std::string bytes = encode (&command.record);
        Decoded decoded (bytes);

        ASSERT_EQ (bytes.size () % TPS_LOG_RECORD_ALIGNMENT, 0u);
        ASSERT_TRUE (decoded.is_fine) << "kind " << kind << " seed " << seed;
        EXPECT_FALSE (decoded.decoder.is_hole);
        EXPECT_EQ (decoded.decoder.command.kind, kind);
        EXPECT_EQ (decoded.decoder.command.lsn, 1 + seed);
        EXPECT_EQ (encode (&decoded.decoder.command), bytes) << "kind " << kind << " seed " << seed;
      }
}

/* Checks fields that a comparison of encodings would miss if the encoder and the decoder omitted
 * them. */
TEST (LogRecord, AFieldOfEachKindIsReadAsWritten)
{
  RandomCommand rows (1, 7, TPS_COMMAND_APPLY_ROWS, 5000);
  rows.record.id = { "trainer 3", 42, { { 1, 2, 3 } }, "ads" };
  rows.record.has_failed = TRUE;
  rows.record.moment = { 7, 1234567890123 };
  Decoded decoded (encode (&rows.record));
  const TpsCommand *command = &decoded.decoder.command;

  ASSERT_TRUE (decoded.is_fine);
  EXPECT_STREQ (command->id.client, "trainer 3");
  EXPECT_EQ (command->id.sequence, 42);
  EXPECT_EQ (command->id.digest.bytes[2], 3);
  EXPECT_STREQ (command->id.tenant, "ads");
  EXPECT_TRUE (command->has_failed);
  EXPECT_EQ (command->moment.epoch, 7u);
  EXPECT_EQ (command->moment.time_ms, 1234567890123);
  ASSERT_EQ (command->n_tables, 1u);
  EXPECT_STREQ (command->tables[0].name, rows.record.tables[0].name);
  EXPECT_EQ (command->tables[0].incarnation, rows.record.tables[0].incarnation);
  EXPECT_EQ (command->tables[0].is_skipped, rows.record.tables[0].is_skipped);
  EXPECT_TRUE (tps_shape_equal (&command->rows.values.shape, &rows.record.rows.values.shape));
  EXPECT_EQ (std::memcmp (command->rows.values.data, rows.record.rows.values.data,
                          tps_shape_n_bytes (&command->rows.values.shape)),
             0);
  EXPECT_EQ (reinterpret_cast<uintptr_t> (command->rows.values.data) % TPS_BUFFER_ALIGNMENT, 0u);

  RandomCommand create (2, 8, TPS_COMMAND_CREATE_TABLE, 0);
  TpsTableSpec spec = *create.record.create;
  spec.durability = TPS_DURABILITY_INTERVAL;
  create.record.create = &spec;
  Decoded created (encode (&create.record));
  ASSERT_TRUE (created.is_fine);
  EXPECT_STREQ (tps_table_spec_dup_difference (created.decoder.command.create, &spec), nullptr);
  EXPECT_EQ (created.decoder.command.create->durability, TPS_DURABILITY_INTERVAL);
  EXPECT_EQ (created.decoder.command.create->place.is_host_memory, spec.place.is_host_memory);
  EXPECT_EQ (created.decoder.command.create->tenant, nullptr);

  gchar tenant[] = "ads";
  spec.tenant = tenant;
  Decoded owned (encode (&create.record));
  ASSERT_TRUE (owned.is_fine);
  EXPECT_STREQ (owned.decoder.command.create->tenant, "ads");
  EXPECT_EQ (owned.decoder.command.create->rounding, TPS_ROUNDING_NEAREST);

  spec.dtype = TPS_DTYPE_FLOAT16;
  spec.rounding = TPS_ROUNDING_STOCHASTIC;
  for (gchar *owner : { static_cast<gchar *> (nullptr), tenant })
    {
      spec.tenant = owner;
      Decoded stochastic (encode (&create.record));
      ASSERT_TRUE (stochastic.is_fine);
      EXPECT_EQ (stochastic.decoder.command.create->rounding, TPS_ROUNDING_STOCHASTIC);
      EXPECT_STREQ (stochastic.decoder.command.create->tenant, owner);
    }
}

/* Corrects the checksums of a record whose bytes were changed: see FORMAT.md. */
void
seal (std::string &bytes)
{
  auto *data = reinterpret_cast<guint8 *> (bytes.data ());
  guint32 crc = tps_crc32c (0, data + TPS_LOG_RECORD_HEADER, bytes.size () - TPS_LOG_RECORD_HEADER);

  std::memcpy (data + 24, &crc, 4);
  std::memset (data + 4, 0, 4);
  crc = tps_crc32c (0, data, TPS_LOG_RECORD_HEADER);
  std::memcpy (data + 4, &crc, 4);
}

/* A later version may have other kinds, whose fields begin with their name, and other flags. */
TEST (LogRecord, AnUnknownKindOrFlagIsRefusedByName)
{
  const struct
  {
    guint16 kind, flags;
    std::string field, text;
  } cases[] = {
    { 9, 0, "remove_rows", "kind 9 (remove_rows) and flags 0" },
    { 300, 1, "x", "kind 300 (x) and flags 1" },
    { 9, 0, "\033[2J", "kind 9 (unnamed) and flags 0" },
    { 9, 0, "", "kind 9 (unnamed) and flags 0" },
    { TPS_COMMAND_DROP_TABLE, 2, "", "kind 2 (drop_table) and flags 2" },
    { 0, 4, "", "kind 0 (hole) and flags 4" },
  };

  for (const auto &each : cases)
    {
      RandomCommand command (1, 99, TPS_COMMAND_DROP_TABLE, 0);
      std::string bytes = encode (&command.record);
      guint32 n_name = static_cast<guint32> (each.field.size ());

      ASSERT_GT (bytes.size (), TPS_LOG_RECORD_HEADER + 4 + n_name);
      std::memcpy (&bytes[32], &each.kind, 2);
      std::memcpy (&bytes[34], &each.flags, 2);
      std::memcpy (&bytes[TPS_LOG_RECORD_HEADER], &n_name, 4);
      std::memcpy (&bytes[TPS_LOG_RECORD_HEADER + 4], each.field.c_str (), n_name + 1);
      seal (bytes);
      Decoded decoded (bytes);
      ASSERT_FALSE (decoded.is_fine) << each.text;
      EXPECT_TRUE (g_error_matches (decoded.error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
      EXPECT_EQ (decoded.error->message, "the record has " + each.text
                                             + ", which this version does not know: start the "
                                               "version that wrote the log, or a later one");
    }
}

TEST (LogRecord, AnyFlippedBitIsNoticed)
{
  RandomCommand command (4, 5, TPS_COMMAND_UPDATE_MODEL, 0);
  std::string bytes = encode (&command.record);

  for (size_t bit = 0; bit < bytes.size () * 8; bit += 3)
    {
      std::string flipped = bytes;

      flipped[bit / 8] = static_cast<char> (flipped[bit / 8] ^ (1 << bit % 8));
      EXPECT_FALSE (Decoded (flipped).is_fine) << "bit " << bit;
    }
}

/* The checksums are valid, but the contents differ, as if another program had written the
 * record. */
TEST (LogRecord, FieldsThatDoNotFitAreRefused)
{
  for (TpsCommandKind kind : kAllKinds)
    {
      RandomCommand command (5, 6, kind, 300);
      std::string bytes = encode (&command.record);

      for (size_t at = TPS_LOG_RECORD_HEADER; at < bytes.size (); at++)
        {
          std::string changed = bytes;

          changed[at] = static_cast<char> (changed[at] + 0x7f);
          seal (changed);
          Decoded decoded (changed);
          if (decoded.is_fine) /* A valid changed value must be encodable again. */
            encode (&decoded.decoder.command);
        }
    }
}

TEST (LogHeads, ForeignAndEmptyAreNotDamaged)
{
  guint8 sector[TPS_DISK_SECTOR] = { 0 };
  TpsGroupHead head = {
    .stamp = 7, .offset = 8192, .n_bytes = 4096, .first_lsn = 3, .n_records = 1, .n_zero_sectors = 0
  };
  TpsGroupHead read;

  EXPECT_EQ (tps_group_decode_head (sector, 7, 8192, &read), TPS_HEAD_EMPTY);
  tps_group_encode_head (sector, &head);
  EXPECT_EQ (tps_group_decode_head (sector, 7, 8192, &read), TPS_HEAD_OK);
  EXPECT_EQ (read.first_lsn, 3);
  EXPECT_EQ (tps_group_decode_head (sector, 8, 8192, &read), TPS_HEAD_FOREIGN);
  EXPECT_EQ (tps_group_decode_head (sector, 7, 4096, &read), TPS_HEAD_FOREIGN);
  sector[20] ^= 1;
  EXPECT_EQ (tps_group_decode_head (sector, 7, 8192, &read), TPS_HEAD_DAMAGED);
  head.first_lsn = (gint64 { 1 } << 62) + 1;
  tps_group_encode_head (sector, &head);
  EXPECT_EQ (tps_group_decode_head (sector, 7, 8192, &read), TPS_HEAD_DAMAGED);
}

TEST (Crc32c, CopyIsTheSame)
{
  std::string from (100001, 'x'), to (from.size (), '\0');

  for (size_t i = 0; i < from.size (); i++)
    from[i] = static_cast<char> (i * 7);
  EXPECT_EQ (tps_crc32c (0, "123456789", 9), 0xe3069283u);
  EXPECT_EQ (tps_crc32c_copy (5, to.data (), from.data (), from.size ()),
             tps_crc32c (5, from.data (), from.size ()));
  EXPECT_EQ (to, from);
}

} // namespace
} // namespace thriftps
