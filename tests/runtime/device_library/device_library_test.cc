/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Loads libtps_cuda.so with fake drivers and fake libraries, none of which uses a GPU. */

#include "runtime/device/device_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include <thriftps/error.h>

using testing::HasSubstr;
using testing::Not;

namespace {

std::string
fake (const std::string &name)
{
  return "tests/runtime/device_library/" + name;
}

class DeviceLibrary : public testing::Test
{
protected:
  void
  TearDown () override
  {
    clear ();
  }

  void
  clear ()
  {
    g_clear_pointer (&loaded.devices, g_ptr_array_unref);
    g_clear_pointer (&loaded.summary, g_free);
  }

  // Loads the library and returns the summary.
  std::string
  load (const std::string &driver, const std::vector<std::string> &libraries)
  {
    std::vector<const char *> names;

    for (const std::string &name : libraries)
      names.push_back (name.c_str ());
    names.push_back (nullptr);
    clear ();
    TpsDeviceLibraryPaths paths = { driver.c_str (), names.data () };
    tps_device_library_load (&loaded, &paths);
    EXPECT_THAT (loaded.summary, Not (HasSubstr ("\n")));
    return loaded.summary;
  }

  TpsLoadedLibrary loaded {};
};

TEST_F (DeviceLibrary, TheReasonWhyThereIsNoneIsNamedInOneLine)
{
  const std::string text = testing::TempDir () + "text.so", good = fake ("libfake_good.so"),
                    driver = fake ("libfake_driver.so");
  const struct
  {
    std::string driver;
    std::vector<std::string> libraries;
    std::vector<std::string> words;
  } cases[] = {
    { "libcuda_that_is_not_there.so.1",
      { good },
      { "cuda: none: no driver (libcuda_that_is_not_there.so.1: " } },
    { fake ("libfake_empty.so"), { good }, { "is not a driver (it has no cuInit)" } },
    { fake ("libfake_driver_broken.so"),
      { good },
      { "cuda: none: the driver does not start (error 999: the fake is broken)" } },
    { driver,
      { "/nowhere/a.so", "/nowhere/b.so" },
      { "cuda: none: a driver, but no libtps_cuda.so", "/nowhere/a.so", "/nowhere/b.so" } },
    { driver, { text }, { "text.so" } },
    { driver, { fake ("libfake_empty.so") }, { "not a library of this program" } },
    { driver, { fake ("libfake_old.so") }, { "version 0.0.1", TPS_VERSION } },
    { driver, { fake ("libfake_abi.so") }, { "has ABI 77, this program 4" } },
    { driver, { fake ("libfake_ops.so") }, { "with 8 bytes of operations" } },
    { driver, { fake ("libfake_none.so") }, { "cuda: none: all 1 devices are too old" } },
    { driver, {}, { "cuda: none: turned off" } },
  };

  std::ofstream (text) << "not ELF";
  for (const auto &each : cases)
    {
      std::string summary = load (each.driver, each.libraries);

      for (const std::string &word : each.words)
        EXPECT_THAT (summary, HasSubstr (word));
      EXPECT_EQ (loaded.library, nullptr) << summary;
      EXPECT_EQ (loaded.devices->len, 0u) << summary;
    }
}

TEST_F (DeviceLibrary, TheFirstThatCanBeLoadedCounts)
{
  EXPECT_EQ (load (fake ("libfake_driver.so"), { "/nowhere/a.so", fake ("libfake_good.so") }),
             "cuda: cuda:0 Fake; cuda:1 Fake");
  ASSERT_NE (loaded.library, nullptr);
  ASSERT_EQ (loaded.devices->len, 2u);
  EXPECT_STREQ (((TpsDevice *) loaded.devices->pdata[1])->name, "cuda:1");
}

// In this process, the environment disables the library, with or without a GPU.
TEST (Devices, AMissingCudaDeviceIsRefusedWithTheReasonAndTheCpuIsThere)
{
  GError *error = nullptr;

  g_setenv ("THRIFTPS_CUDA_LIBRARY", "none", TRUE);
  EXPECT_NE (tps_device_find ("cpu", &error), nullptr);
  EXPECT_EQ (tps_device_find ("cuda:0", &error), nullptr);
  ASSERT_NE (error, nullptr);
  EXPECT_STREQ (error->message, "unknown device \"cuda:0\"; known: cpu; cuda: none: turned off");
  EXPECT_STREQ (tps_device_list_summary (), "cuda: none: turned off");
  g_clear_error (&error);
}

} // namespace
