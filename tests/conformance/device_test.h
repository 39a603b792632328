/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fixture that runs for every available device, and arrays in device memory. */

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/trainer/dense/dense.h"

// Elements in device memory. A copy is complete when its function returns.
template <typename T> class DeviceArray
{
public:
  DeviceArray (TpsStream *stream, size_t n) : stream_ (stream), n_ (n)
  {
    GError *error = nullptr;

    buffer_ = stream->device->ops->alloc (stream->device, n * sizeof (T) + kGuardBytes, &error);
    g_assert_no_error (error);
    // The array is initialised, because tests read whole outputs and an operation may write only a
    // part.
    std::vector<uint8_t> bytes (n * sizeof (T) + kGuardBytes, 0xa5);
    copy (data (), bytes.data (), bytes.size ());
  }
  DeviceArray (TpsStream *stream, const std::vector<T> &values)
      : DeviceArray (stream, values.size ())
  {
    copy (data (), values.data (), n_ * sizeof (T));
  }
  DeviceArray (const DeviceArray &) = delete;
  DeviceArray &operator= (const DeviceArray &) = delete;
  ~DeviceArray ()
  {
    // The bytes behind the array must be unchanged.
    std::vector<uint8_t> guard (kGuardBytes);
    copy (guard.data (), (uint8_t *) data () + n_ * sizeof (T), kGuardBytes);
    EXPECT_EQ (guard, std::vector<uint8_t> (kGuardBytes, 0xa5)) << "written behind an array";
    tps_buffer_unref (buffer_);
  }

  T *
  data () const
  {
    return (T *) tps_buffer_get_data (buffer_);
  }
  std::vector<T>
  read () const
  {
    std::vector<T> values (n_);

    copy (values.data (), data (), n_ * sizeof (T));
    return values;
  }

private:
  static constexpr size_t kGuardBytes = 64;

  void
  copy (void *to, const void *from, size_t n_bytes) const
  {
    GError *error = nullptr;

    stream_->device->ops->copy (stream_, to, from, n_bytes);
    EXPECT_TRUE (stream_->device->ops->stream_sync (stream_, &error))
        << (error ? error->message : "");
    g_clear_error (&error);
  }

  TpsStream *stream_;
  size_t n_;
  TpsBuffer *buffer_;
};

// Returns the value of $CONFORMANCE_DEVICES. "cuda" selects the devices of that kind and requires
// at least one. "cuda?" selects them, and skips the suite if there is none. If the variable is not
// set, all devices of the machine are tested.
inline std::string
wanted_kind ()
{
  const char *wanted = g_getenv ("CONFORMANCE_DEVICES");
  std::string kind = wanted != nullptr ? wanted : "";

  if (!kind.empty () && kind.back () == '?')
    kind.pop_back ();
  return kind;
}

inline bool
may_be_missing ()
{
  const char *wanted = g_getenv ("CONFORMANCE_DEVICES");

  return wanted != nullptr && g_str_has_suffix (wanted, "?");
}

class DeviceTest : public testing::TestWithParam<std::string>
{
protected:
  void
  SetUp () override
  {
    GError *error = nullptr;

    device = tps_device_find (GetParam ().c_str (), &error);
    if (device == nullptr && may_be_missing ())
      {
        std::string reason = error->message;

        g_error_free (error);
        GTEST_SKIP () << reason;
      }
    g_assert_no_error (error);
    ops = device->ops;
    stream = ops->stream_new (device, &error);
    g_assert_no_error (error);
    dense_ops = tps_dense_ops (stream);
  }
  void
  TearDown () override
  {
    if (stream != nullptr)
      ops->stream_free (stream);
  }

  void
  sync ()
  {
    GError *error = nullptr;

    ASSERT_TRUE (ops->stream_sync (stream, &error)) << error->message;
  }

  std::vector<float>
  random_floats (size_t n, float scale = 1)
  {
    std::normal_distribution<float> normal (0, scale);
    std::vector<float> values (n);

    for (float &value : values)
      value = normal (random);
    return values;
  }
  std::vector<int64_t>
  random_ids (size_t n, int64_t bound)
  {
    std::vector<int64_t> ids (n);

    for (int64_t &id : ids)
      id = (int64_t) (random () % (uint64_t) bound);
    return ids;
  }

  std::mt19937_64 random { 20 };
  TpsDevice *device;
  const TpsDenseOps *dense_ops = nullptr;
  const TpsDeviceOps *ops;
  TpsStream *stream = nullptr;
};

// Returns true if the elements are equal bit by bit. Any NaN equals any NaN.
template <typename T>
bool
same_bits (const std::vector<T> &a, const std::vector<T> &b)
{
  if (a.size () != b.size ())
    return false;
  for (size_t i = 0; i < a.size (); i++)
    if (memcmp (&a[i], &b[i], sizeof (T)) != 0 && !(a[i] != a[i] && b[i] != b[i]))
      return false;
  return true;
}

inline std::vector<std::string>
all_devices ()
{
  g_autofree TpsDevice **devices = tps_device_list ();
  std::vector<std::string> names;

  for (guint i = 0; devices[i] != nullptr; i++)
    if (g_str_has_prefix (devices[i]->name, wanted_kind ().c_str ()))
      names.push_back (devices[i]->name);
  if (names.empty ())
    names.push_back (wanted_kind () + ":0"); // missing, so its tests report the reason
  return names;
}

inline std::string
device_test_name (const testing::TestParamInfo<std::string> &device)
{
  std::string name = device.param;

  for (char &c : name)
    if (c == ':')
      c = '_';
  return name;
}

#define INSTANTIATE_FOR_ALL_DEVICES(suite) \
  INSTANTIATE_TEST_SUITE_P (Devices, suite, testing::ValuesIn (all_devices ()), device_test_name)
