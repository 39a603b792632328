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
    g_ptr_array_unref (loaded.devices);
    g_free (loaded.summary);
  }

  // Loads the library and returns the summary.
  std::string
  load (const std::string &driver, const std::vector<std::string> &libraries)
  {
    std::vector<const char *> names;

    for (const std::string &name : libraries)
      names.push_back (name.c_str ());
    names.push_back (nullptr);
    TpsDeviceLibraryPaths paths = { driver.c_str (), names.data () };
    tps_device_library_load (&loaded, &paths);
    EXPECT_THAT (loaded.summary, Not (HasSubstr ("\n")));
    return loaded.summary;
  }

  void
  expect_nothing ()
  {
    EXPECT_EQ (loaded.library, nullptr);
    EXPECT_EQ (loaded.devices->len, 0u);
  }

  TpsLoadedLibrary loaded {};
};

TEST_F (DeviceLibrary, AMissingDriverIsNamed)
{
  EXPECT_THAT (load ("libcuda_that_is_not_there.so.1", { fake ("libfake_good.so") }),
               testing::StartsWith ("cuda: none: no driver (libcuda_that_is_not_there.so.1: "));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AFileThatIsNoDriverIsRefused)
{
  EXPECT_THAT (load (fake ("libfake_empty.so"), { fake ("libfake_good.so") }),
               HasSubstr ("is not a driver (it has no cuInit)"));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AFailingDriverIsReportedInOneLine)
{
  EXPECT_EQ (load (fake ("libfake_driver_broken.so"), { fake ("libfake_good.so") }),
             "cuda: none: the driver does not start (error 999: the fake is broken)");
  expect_nothing ();
}

TEST_F (DeviceLibrary, WithoutTheLibraryEveryPlaceThatWasTriedIsNamed)
{
  EXPECT_THAT (load (fake ("libfake_driver.so"), { "/nowhere/a.so", "/nowhere/b.so" }),
               testing::AllOf (HasSubstr ("cuda: none: a driver, but no libtps_cuda.so"),
                               HasSubstr ("/nowhere/a.so"), HasSubstr ("/nowhere/b.so")));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AFileThatIsNoLibraryIsRefused)
{
  std::string path = testing::TempDir () + "text.so";
  std::ofstream (path) << "not ELF";
  EXPECT_THAT (load (fake ("libfake_driver.so"), { path }), HasSubstr ("text.so"));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AForeignLibraryIsRefused)
{
  EXPECT_THAT (load (fake ("libfake_driver.so"), { fake ("libfake_empty.so") }),
               HasSubstr ("not a library of this program"));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AnotherVersionIsRefusedAndBothAreNamed)
{
  EXPECT_THAT (load (fake ("libfake_driver.so"), { fake ("libfake_old.so") }),
               testing::AllOf (HasSubstr ("version 0.0.1"), HasSubstr (TPS_VERSION)));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AnotherAbiIsRefusedAndBothAreNamed)
{
  EXPECT_THAT (load (fake ("libfake_driver.so"), { fake ("libfake_abi.so") }),
               HasSubstr ("has ABI 77, this program 4"));
  expect_nothing ();
}

TEST_F (DeviceLibrary, AnotherTableOfOperationsIsRefused)
{
  EXPECT_THAT (load (fake ("libfake_driver.so"), { fake ("libfake_ops.so") }),
               HasSubstr ("with 8 bytes of operations"));
  expect_nothing ();
}

TEST_F (DeviceLibrary, ALibraryWithoutADeviceReportsTheReason)
{
  EXPECT_EQ (load (fake ("libfake_driver.so"), { fake ("libfake_none.so") }),
             "cuda: none: all 1 devices are too old");
  expect_nothing ();
}

TEST_F (DeviceLibrary, TheFirstThatCanBeLoadedCounts)
{
  EXPECT_EQ (load (fake ("libfake_driver.so"), { "/nowhere/a.so", fake ("libfake_good.so") }),
             "cuda: cuda:0 Fake; cuda:1 Fake");
  ASSERT_NE (loaded.library, nullptr);
  ASSERT_EQ (loaded.devices->len, 2u);
  EXPECT_STREQ (((TpsDevice *) loaded.devices->pdata[1])->name, "cuda:1");
}

TEST_F (DeviceLibrary, WithoutAPathItIsTurnedOff)
{
  EXPECT_EQ (load (fake ("libfake_driver.so"), {}), "cuda: none: turned off");
  expect_nothing ();
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
