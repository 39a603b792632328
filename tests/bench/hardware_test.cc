// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/ddp_rpc/hardware.h"

#include <glib/gstdio.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

// /sys and /proc of an invented machine.
class Hardware : public testing::Test
{
protected:
  void
  TearDown () override
  {
    for (auto path = made_.rbegin (); path != made_.rend (); ++path)
      g_remove (path->c_str ());
  }

  void
  make_folder (const std::string &path)
  {
    if (g_mkdir (path.c_str (), 0777) == 0)
      made_.push_back (path);
  }

  void
  add (const std::string &name, const std::string &text)
  {
    std::string path = root_ + "/" + name;

    for (size_t slash = path.find ('/', root_.size () + 1); slash != std::string::npos;
         slash = path.find ('/', slash + 1))
      make_folder (path.substr (0, slash));
    ASSERT_TRUE (g_file_set_contents (path.c_str (), text.c_str (), -1, nullptr));
    made_.push_back (path);
  }

  std::string
  describe ()
  {
    g_autofree gchar *text = tps_hardware_describe (root_.c_str ());

    return text;
  }

  static std::string
  make_root ()
  {
    g_autofree gchar *path = g_dir_make_tmp ("hardware-XXXXXX", nullptr);

    return path;
  }

  std::string root_ = make_root ();
  std::vector<std::string> made_ = { root_ };
};

TEST_F (Hardware, ThatTellsNothingIsNoFailure)
{
  EXPECT_EQ (describe (), "* CPU: unknown, 0 processors\n* GPUs: none\n");
}

TEST_F (Hardware, IsListedWithItsTopology)
{
  const std::string pci = "sys/bus/pci/devices/";

  add ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU\ncpu cores\t: 2\n\nprocessor\t: 1\n"
                       "model name\t: Fast CPU\ncpu cores\t: 2\n");
  add ("sys/devices/system/node/node0/cpulist", "0\n");
  add ("sys/devices/system/node/node0/distance", "10 21\n");
  add ("sys/devices/system/node/node1/cpulist", "1\n");
  add ("sys/devices/system/node/possible", "0-1\n");
  add (pci + "0000:00:01.0/class", "0x020000\n");
  add (pci + "0000:18:00.0/class", "0x030200\n");
  add (pci + "0000:18:00.0/vendor", "0x10de\n");
  add (pci + "0000:18:00.0/device", "0x2335\n");
  add (pci + "0000:18:00.0/numa_node", "1\n");
  add (pci + "0000:3b:00.0/class", "0x120000\n");
  add (pci + "0000:3b:00.0/numa_node", "-1\n");
  add ("proc/driver/nvidia/gpus/0000:18:00.0/information", "Model: \t\t NVIDIA H200\nIRQ: 1\n");
  EXPECT_EQ (
      describe (),
      "* CPU: Fast CPU, 2 processors, 2 cores a socket\n"
      "* NUMA node 0: CPUs 0, distances 10 21\n"
      "* NUMA node 1: CPUs 1, distances unknown\n"
      "* GPU 0000:18:00.0: NVIDIA H200 (vendor 0x10de, device 0x2335), NUMA node 1\n"
      "* GPU 0000:3b:00.0: unknown model (no driver) (vendor unknown, device unknown), NUMA node "
      "not said\n");
}

TEST (CudaVersion, IsFoundInTheOutputOfNvidiaSmi)
{
  g_autofree gchar *found = tps_hardware_find_cuda_version (
      "| NVIDIA-SMI 550.54.15    Driver Version: 550.54.15    CUDA Version: 12.4     |\n");
  g_autofree gchar *missing = tps_hardware_find_cuda_version ("| CUDA Version: N/A |");
  g_autofree gchar *nothing = tps_hardware_find_cuda_version ("");

  EXPECT_STREQ (found, "12.4");
  EXPECT_EQ (missing, nullptr);
  EXPECT_EQ (nothing, nullptr);
}

} // namespace
