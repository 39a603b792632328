/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/read_ahead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "runtime/base/error.h"
#include "runtime/server/snapshot/populate.h"
#include "runtime/server/snapshot/safetensors.h"
#include "tests/runtime/server/log/simulated_disk.h"

namespace snapshot_test {
namespace {

using testing::HasSubstr;
using thriftps::SimulatedDisk;

constexpr gint64 kBlock = TPS_DISK_BLOCK;

/* Returns bytes that depend on their position. */
std::string
make_bytes (size_t n)
{
  std::string bytes (n, '\0');
  uint64_t state = 88172645463325252u;

  for (size_t i = 0; i + sizeof state <= n; i += sizeof state)
    {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      memcpy (&bytes[i], &state, sizeof state);
    }
  return bytes;
}

class ReadAhead : public testing::Test
{
protected:
  ~ReadAhead () override
  {
    if (file != nullptr)
      disk.get ()->close (file);
  }

  void
  Put (const std::string &bytes)
  {
    disk.put_file ("file", bytes);
    file = disk.get ()->open (disk.get (), "file", TPS_DISK_READ_ONLY | TPS_DISK_DIRECT, nullptr);
  }

  SimulatedDisk disk;
  TpsDiskFile *file = nullptr;
};

/* The file has more blocks than fit into the memory, and is read in pieces with arbitrary ends. */
TEST_F (ReadAhead, GivesTheBytesOfTheFile)
{
  const std::string bytes = make_bytes (19 * TPS_READ_AHEAD_BYTES + 3 * kBlock);
  std::string found (bytes.size () - 2 * kBlock, '\0');

  Put (bytes);
  g_autoptr (TpsReadAhead) ahead = tps_read_ahead_new (
      file, kBlock, static_cast<gint64> (bytes.size ()) - kBlock, nullptr);
  for (size_t at = 0, i = 0; at < found.size (); i++)
    {
      size_t n = std::min (found.size () - at, i % 3 == 0 ? size_t { 5000011 } : size_t { 4097 });

      ASSERT_EQ (tps_read_ahead_get_position (ahead), kBlock + static_cast<gint64> (at));
      ASSERT_TRUE (tps_read_ahead_read (ahead, &found[at], n, nullptr));
      at += n;
    }
  EXPECT_TRUE (bytes.compare (kBlock, found.size (), found) == 0);
}

TEST_F (ReadAhead, NamesTheEndOfAShorterFile)
{
  g_autoptr (GError) error = nullptr;
  std::string found (4 * TPS_READ_AHEAD_BYTES, '\0');

  Put (make_bytes (3 * TPS_READ_AHEAD_BYTES + kBlock));
  g_autoptr (TpsReadAhead)
      ahead = tps_read_ahead_new (file, 0, static_cast<gint64> (found.size ()), nullptr);
  ASSERT_FALSE (tps_read_ahead_read (ahead, &found[0], found.size (), &error));
  EXPECT_EQ (error->code, TPS_ERROR_ABORTED);
  EXPECT_STREQ (error->message, "the file ends at offset 6295552");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The memory has arbitrary bounds, may be written meanwhile, and must keep its contents. */
TEST (Populate, ChangesNothing)
{
  std::string memory ((100 << 20) + 12345, '\0'), expected = memory;
  TpsPopulate *populate = tps_populate_begin (&memory[5000], memory.size () - 10000);

  ASSERT_NE (populate, nullptr);
  for (size_t i = 0; i < memory.size (); i += 4099)
    expected[i] = memory[i] = '\2';
  tps_populate_end (populate);
  EXPECT_TRUE (memory == expected);
}

/* ---- large tensors of safetensors ------------------------------------------------------------ */

struct Part
{
  const char *name;
  size_t n_bytes;
};

/* Only the first tensor starts at the beginning of a block. */
constexpr Part kParts[] = { { "small", 5000 }, { "large", (20 << 20) + 77 }, { "last", 9 << 20 } };

class LargeTensors : public testing::Test
{
protected:
  LargeTensors () : bytes_ (make_bytes (32 << 20))
  {
  }

  void
  Write (TpsDisk *disk, const std::string &path)
  {
    g_autoptr (TpsSafetensorsWriter)
        file = tps_safetensors_writer_new (disk, path.c_str (), nullptr);

    ASSERT_NE (file, nullptr);
    for (const Part &part : kParts)
      {
        gint64 dim = static_cast<gint64> (part.n_bytes);

        tps_safetensors_writer_add_tensor (file, part.name, "U8", 1, &dim, nullptr);
      }
    ASSERT_TRUE (tps_safetensors_writer_begin (file, nullptr));
    for (guint i = 0; i < G_N_ELEMENTS (kParts); i++)
      ASSERT_TRUE (tps_safetensors_writer_append (file, i, bytes_.data () + i, kParts[i].n_bytes));
    ASSERT_TRUE (tps_safetensors_writer_finish (file, nullptr, nullptr, nullptr));
  }

  /* Reads a tensor in pieces of `n_piece` bytes, and checks its bytes. */
  bool
  Read (TpsSafetensorsReader *file, guint number, size_t n_piece, GError **error)
  {
    const TpsSafetensor *tensor = tps_safetensors_reader_find_tensor (file, kParts[number].name);
    std::string found (kParts[number].n_bytes, '\0');
    TpsSafetensorStream stream;

    tps_safetensor_stream_init (&stream, file, tensor);
    for (size_t at = 0, n; at < found.size (); at += n)
      {
        n = std::min (n_piece, found.size () - at);
        if (!tps_safetensor_stream_read (&stream, &found[at], n, error))
          return false;
      }
    EXPECT_TRUE (bytes_.compare (number, found.size (), found) == 0) << kParts[number].name;
    return true;
  }

  std::string bytes_;
  SimulatedDisk memory_;
};

TEST_F (LargeTensors, AreReadPastThePageCache)
{
  Write (memory_.get (), "f");
  g_autoptr (TpsSafetensorsReader) file = tps_safetensors_reader_new (memory_.get (), "f", nullptr);
  for (size_t n_piece : { size_t { 1 } << 20, size_t { 3333333 } })
    for (guint i : { 0u, 1u, 2u, 1u, 1u }) /* some tensors repeatedly */
      EXPECT_TRUE (Read (file, i, n_piece, nullptr));
  EXPECT_GE (memory_.get_direct_bytes (),
             uint64_t { 2 } * (3 * (20 << 20) + (9 << 20)) - 10 * TPS_DISK_BLOCK);
}

TEST_F (LargeTensors, MustBeWhole)
{
  g_autoptr (GError) damaged = nullptr, cut = nullptr;

  Write (memory_.get (), "f");
  g_autoptr (TpsSafetensorsReader) file = tps_safetensors_reader_new (memory_.get (), "f", nullptr);
  memory_.get_file ("f")[10 << 20] ^= 1;
  EXPECT_FALSE (Read (file, 1, 1 << 20, &damaged));
  ASSERT_NE (damaged, nullptr);
  EXPECT_THAT (damaged->message, HasSubstr ("f: tensor large at offset "));
  EXPECT_TRUE (Read (file, 2, 1 << 20, nullptr));
  memory_.get_file ("f").resize (12 << 20); /* the file is open meanwhile */
  EXPECT_FALSE (Read (file, 1, 1 << 20, &cut));
  ASSERT_NE (cut, nullptr);
  EXPECT_STREQ (cut->message, "f: the file ends at offset 12582912");
}

} // namespace
} // namespace snapshot_test
