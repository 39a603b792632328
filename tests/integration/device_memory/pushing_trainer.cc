// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Arguments: ADDRESS BATCH. It is the only trainer of its server. It pushes endlessly, starting
// with that batch, and prints "shares" when an average is in its device's memory.

#include <cstdio>
#include <cstdlib>

#include "tests/integration/device_memory/device_trainer.h"
#include "tests/runtime/fake_device/fake_device.h"

using namespace thriftps_test;

int
main (int argc, char **argv)
{
  DeviceTrainer trainer (argv[1], 0, tps_fake_device_get (0));
  bool shares = false;

  setvbuf (stdout, nullptr, _IOLBF, 0);
  for (gint64 batch = atoll (argv[argc - 1]);; batch++)
    {
      Averaged averaged = trainer.Push (batch, 0, SomeValues (batch, 0, 0, 50000)).get ();

      if (averaged.error != "")
        {
          fprintf (stderr, "batch %lld: %s\n", (long long) batch, averaged.error.c_str ());
          return 1;
        }
      if (averaged.was_there && !shares)
        printf ("shares\n");
      shares = shares || averaged.was_there;
    }
}
