// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A trainer with gradients in the memory of a fake device, and its exchange with one server.

#pragma once

#include <future>
#include <string>
#include <thriftps/client.h>
#include <vector>

#include "runtime/device/backend.h"

namespace thriftps_test {

struct Averaged
{
  std::string error; // "" if there is an average
  std::vector<float> values;
  bool was_there; // the average was in device memory
};

class DeviceTrainer
{
public:
  // If `device` is NULL, gradients are in host memory.
  DeviceTrainer (const std::string &address, gint32 trainer, TpsDevice *device);
  ~DeviceTrainer ();
  DeviceTrainer (const DeviceTrainer &) = delete;
  DeviceTrainer &operator= (const DeviceTrainer &) = delete;

  bool MayShare () const; // returns true if the exchange accepts device memory

  // Pushes a gradient. The future gets its average.
  std::future<Averaged> Push (gint64 batch, gint32 param_loc, const std::vector<float> &values);

private:
  TpsExchange *exchange_;
  TpsDevice *device_;
};

// Returns values that differ between any two gradients.
std::vector<float> SomeValues (gint64 batch, gint32 param_loc, gint32 trainer, size_t n);

} // namespace thriftps_test
