// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests imports, restores and tables with bad files, and with names of files outside of the folder
// (see data_folder_fixture.h).

#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/integration/hostile/data_folder_fixture.h"

namespace thriftps_test {
namespace {

using HostileFiles = DataFolderTest;

// ---- files of other programs --------------------------------------------------------------------

std::string
Little (uint64_t value, int n_bytes)
{
  std::string bytes;
  for (int i = 0; i < n_bytes; i++)
    bytes += static_cast<char> (value >> (8 * i));
  return bytes;
}

std::string
Safetensors (const std::string &header, size_t n_data = 0)
{
  return Little (header.size (), 8) + header + std::string (n_data, '\0');
}

std::string
Numpy (const std::string &header)
{
  return std::string ("\x93NUMPY\x01\x00", 8) + Little (header.size (), 2) + header;
}

std::string
Tensor (const std::string &dtype, const std::string &shape, const std::string &offsets)
{
  return "{\"t\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets
         + "}}";
}

TEST_F (HostileFiles, BadFiles)
{
  const std::string max = "9223372036854775807", over = "18446744073709551615";
  const std::pair<const char *, std::string> files[] = {
    { "empty.safetensors", "" },
    { "short.safetensors", "\1\0\0" },
    { "long-header.safetensors", Little (UINT64_MAX, 8) + "{}" },
    { "longer-than-file.safetensors", Little (1 << 20, 8) + "{}" },
    { "no-json.safetensors", Safetensors (std::string (1000, '\xff')) },
    { "deep.safetensors", Safetensors (std::string (100000, '[')) },
    { "deep-object.safetensors", Safetensors ([] {
        std::string text;
        for (int i = 0; i < 20000; i++)
          text += "{\"a\":";
        return text;
      }()) },
    { "huge-shape.safetensors",
      Safetensors (Tensor ("F32", "[" + max + "," + max + "]", "[0,16]"), 16) },
    { "huge-offsets.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[0," + over + "]"), 16) },
    { "beyond.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[16,32]"), 16) },
    { "backwards.safetensors", Safetensors (Tensor ("F32", "[2,2]", "[16,0]"), 16) },
    { "negative.safetensors", Safetensors (Tensor ("F32", "[-2,-2]", "[0,16]"), 16) },
    { "many-dimensions.safetensors", Safetensors (Tensor (
                                                      "F32",
                                                      "[" +
                                                          [] {
                                                            std::string ones;
                                                            for (int i = 0; i < 50000; i++)
                                                              ones += "1,";
                                                            return ones + "4";
                                                          }()
                                                          + "]",
                                                      "[0,16]"),
                                                  16) },
    { "other-type.safetensors", Safetensors (Tensor ("BOOL", "[2,2]", "[0,4]"), 4) },
    { "many-names.safetensors", Safetensors ([] {
        std::string text = "{";
        for (int i = 0; i < 100000; i++)
          text += (i > 0 ? ",\"t" : "\"t") + std::to_string (i)
                  + "\":{\"dtype\":\"F32\",\"shape\":[0,2],\"data_offsets\":[0,0]}";
        return text + "}";
      }()) },
    { "empty.npy", "" },
    { "magic.npy", "\x93NUMPX" },
    { "header.npy", std::string ("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12) },
    { "object.npy", Numpy ("{'descr': '|O', 'fortran_order': False, 'shape': (2, 2), }\n") },
    { "fortran.npy", Numpy ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }\n") },
    { "huge.npy",
      Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (" + max + ", " + max + "), }\n") },
    { "negative.npy", Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 2), }\n") },
    { "code.npy", Numpy ("__import__('os').abort()\n") },
  };
  std::vector<std::string> names;
  for (const auto &[name, bytes] : files)
    {
      PutFile (name, bytes);
      names.push_back (name);
    }
  // A matrix of 1 TiB in a sparse file, which takes no disk space.
  PutFile ("sparse.npy", Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
                                "64), }\n"));
  std::filesystem::resize_file (folder_ + "/imports/sparse.npy", size_t { 1 } << 40);
  ASSERT_EQ (mkfifo ((folder_ + "/imports/fifo.npy").c_str (), 0600), 0);
  std::filesystem::create_directory (folder_ + "/imports/folder.npy");
  std::filesystem::create_symlink ("/dev/zero", folder_ + "/imports/zero.npy");
  std::filesystem::create_symlink ("loop.npy", folder_ + "/imports/loop.npy");
  names.insert (names.end (), { "sparse.npy", "fifo.npy", "folder.npy", "zero.npy", "loop.npy" });

  Attack (3, [&] (RawClient &client, int number) {
    Spec spec ("bad/" + std::to_string (number), 2, 2);
    for (const std::string &name : names)
      {
        int code = Insist ([&] { return ImportTable (client, spec, { name }); });
        EXPECT_THAT (code, testing::AllOf (testing::Ne (0), testing::Ne (-1))) << name;
      }
    Spec large ("bad/large", int64_t { 1 } << 32, 64);
    EXPECT_THAT (ErrorCode (ImportTable (client, large, { "sparse.npy" })),
                 AnyOf (kInvalid, kExhausted));
    const std::vector<std::string> many (20000, "huge.npy");
    EXPECT_THAT (ErrorCode (ImportTable (client, spec, many)),
                 AnyOf (kInvalid, kAborted, kExhausted));
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

// ---- names of files -----------------------------------------------------------------------------

std::set<std::string>
FilesIn (const std::string &folder)
{
  std::set<std::string> names;
  for (const auto &entry : std::filesystem::recursive_directory_iterator (folder))
    names.insert (entry.path ().string ());
  return names;
}

TEST_F (HostileFiles, PathsOutsideOfTheirFolder)
{
  const std::string secret = folder_ + "/secret.npy";
  std::ofstream (secret, std::ios::binary)
      << Numpy ("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n")
      << std::string (16, '\0');
  const std::string paths[] = { "../secret.npy",
                                "a/../../secret.npy",
                                "./../secret.npy",
                                secret,
                                "/" + secret,
                                "..",
                                ".",
                                "/",
                                "",
                                "x//y",
                                "x/.",
                                "x/",
                                "~/x",
                                "$HOME",
                                "..\\secret.npy",
                                "%2e%2e/secret.npy",
                                "\xff\xfe",
                                "x\n",
                                std::string (300, 'x'),
                                std::string (100000, 'x'),
                                [] {
                                  std::string deep;
                                  for (int i = 0; i < 5000; i++)
                                    deep += "d/";
                                  return deep + "f";
                                }() };
  Attack (2, [&] (RawClient &client, int number) {
    Spec spec ("path/" + std::to_string (number), 2, 2);
    for (const std::string &path : paths)
      for (bool is_import : { false, true })
        {
          int code = Insist ([&] {
            return is_import ? ImportTable (client, spec, { path }) : Restore (client, { path });
          });
          EXPECT_THAT (code, testing::AllOf (testing::Ne (0), testing::Ne (-1))) << path;
        }
  });
  EXPECT_THAT (OtherTables (), testing::IsEmpty ());
}

// Names of tables may contain dots and slashes, because no file is named after a table.
TEST_F (HostileFiles, NamesOfTablesThatLookLikePaths)
{
  RawClient client (server_->address ());
  for (const char *name : { "../../evil", "..", "/etc/evil", "a/../../evil", "manifest.json" })
    EXPECT_EQ (ErrorCode (create_table (client, Spec (name, 4, 2).value)), 0) << name;
  for (const char *name : { "", "a\nb", "a b", "\xff" })
    EXPECT_EQ (ErrorCode (create_table (client, Spec (name, 4, 2).value)), kInvalid) << name;
  EXPECT_EQ (ErrorCode (create_table (client, Spec (std::string (256, 'n'), 4, 2).value)),
             kInvalid);
  const std::set<std::string> before = FilesIn (folder_ + "/imports");
  Attack (1, [] (RawClient &attacker, int) {
    EXPECT_THAT (ErrorCode (take_snapshot (attacker)), AnyOf (0, kExhausted));
  });
  EXPECT_EQ (FilesIn (folder_ + "/imports"), before);
  for (const auto &entry : std::filesystem::directory_iterator (folder_))
    EXPECT_THAT (entry.path ().filename ().string (), AnyOf ("data", "imports"));
  for (const std::string &path : FilesIn (folder_))
    EXPECT_EQ (path.find ("evil"), std::string::npos) << path;
  EXPECT_EQ (OtherTables ().size (), 5u);
}

} // namespace
} // namespace thriftps_test
