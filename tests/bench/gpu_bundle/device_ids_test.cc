/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Ids that a device computes must match the formula of the CPU, for every case of device_ops. */

#include "bench/gpu_bundle/device_ids.h"

#include "tests/conformance/device_test.h"

namespace {

class DeviceIds : public DeviceTest
{
};

TEST_P (DeviceIds, AreThoseOfTheFormula)
{
  guint n_cases;
  const TpsDeviceCase *cases = tps_device_cases_get (&n_cases);
  int n_with_rule = 0;

  for (guint i = 0; i < n_cases; i++)
    for (gsize n_elems : { TPS_DEVICE_CHECK_ELEMS, 8 * TPS_DEVICE_CHECK_ELEMS })
      {
        gsize n = tps_device_case_get_n_ids (n_elems, &cases[i]);
        TpsDeviceIdRule rule;

        if (!tps_device_case_get_id_rule (n_elems, &cases[i], &rule))
          continue;
        n_with_rule++;
        ASSERT_TRUE (tps_device_ids_can_fill (&rule, n)) << cases[i].name;
        DeviceArray<int64_t> ids (stream, n);
        std::vector<int64_t> wanted (n);
        ASSERT_TRUE (tps_device_ids_fill (stream, &rule, n, (gint64 *) ids.data (), nullptr));
        EXPECT_EQ (tps_device_case_fill_ids (n_elems, &cases[i], (gint64 *) wanted.data ()),
                   rule.n_different);
        EXPECT_EQ (ids.read (), wanted) << cases[i].name;
      }
  EXPECT_GE (n_with_rule, 2 * 15);
}

TEST_P (DeviceIds, OfAnyNumber)
{
  for (gsize n : { 0, 1, 2, 3, 77, 1000 })
    {
      TpsDeviceIdRule rule = { 16, 13, 32 };
      DeviceArray<int64_t> ids (stream, n);
      std::vector<int64_t> wanted (n);

      ASSERT_TRUE (tps_device_ids_fill (stream, &rule, n, (gint64 *) ids.data (), nullptr));
      for (size_t i = 0; i < n; i++)
        wanted[i] = (int64_t) (i % 16 * 13 % 32);
      EXPECT_EQ (ids.read (), wanted) << n;
    }
}

TEST (DeviceIdRules, ThatAreNotExactAreRefused)
{
  for (TpsDeviceIdRule rule : { TpsDeviceIdRule { 3, 1, 4 }, TpsDeviceIdRule { 4, 1, 6 },
                                TpsDeviceIdRule { (gsize) 1 << 27, 1, (gsize) 1 << 26 } })
    EXPECT_FALSE (tps_device_ids_can_fill (&rule, 100)) << rule.period;
}

INSTANTIATE_FOR_ALL_DEVICES (DeviceIds);

} // namespace
