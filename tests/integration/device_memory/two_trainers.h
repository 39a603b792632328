// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Two trainers of one server, which run one round after another.

#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/integration/device_memory/device_trainer.h"

namespace thriftps_test {

// Adds in the order of the trainers, and divides once.
inline std::vector<float>
Mean (const std::vector<float> &first, const std::vector<float> &second)
{
  std::vector<float> mean (first.size ());

  for (size_t i = 0; i < mean.size (); i++)
    {
      volatile float sum = first[i] + second[i];

      mean[i] = sum / 2;
    }
  return mean;
}

inline bool
SameBits (const std::vector<float> &a, const std::vector<float> &b)
{
  return a.size () == b.size () && memcmp (a.data (), b.data (), a.size () * sizeof (float)) == 0;
}

class TwoTrainers : public testing::Test
{
protected:
  void
  Connect (const std::string &first, TpsDevice *first_device, const std::string &second,
           TpsDevice *second_device)
  {
    trainers_[0] = std::make_unique<DeviceTrainer> (first, 0, first_device);
    trainers_[1] = std::make_unique<DeviceTrainer> (second, 1, second_device);
  }

  // Runs one round. Returns the averages, and whether they were the mean of both gradients.
  Averaged
  Round (size_t n, gint32 param_loc = 0)
  {
    std::vector<float> values[2];
    std::future<Averaged> pushed[2];
    Averaged averaged[2];

    for (gint32 i : { 0, 1 })
      {
        values[i] = SomeValues (batch_, param_loc, i, n);
        pushed[i] = trainers_[i]->Push (batch_, param_loc, values[i]);
      }
    for (gint32 i : { 0, 1 })
      {
        averaged[i] = pushed[i].get ();
        EXPECT_EQ (averaged[i].error, "");
        EXPECT_TRUE (SameBits (averaged[i].values, Mean (values[0], values[1])));
      }
    batch_++;
    return { "", averaged[0].values, averaged[0].was_there && averaged[1].was_there };
  }

  // Runs rounds until averages are in device memory on both sides.
  void
  UntilShared (size_t n)
  {
    while (!Round (n).was_there && !HasFailure ())
      ASSERT_TRUE (trainers_[0]->MayShare () && trainers_[1]->MayShare ()) << "it was refused";
  }

  std::unique_ptr<DeviceTrainer> trainers_[2];
  gint64 batch_ = 0;
};

} // namespace thriftps_test
