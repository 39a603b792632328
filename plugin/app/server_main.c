/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/app/thriftps_server.h"

int
main (int argc, char **argv)
{
  static const TpsServerAddition nothing = { .program = "thriftps_server" };

  return tps_server_main (argv, &nothing);
}
