/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Averaging servers in this process, and exchanges that connect trainers to them without a
 * network. */

#pragma once

#include <memory>
#include <thriftps/client.h>
#include <vector>

#include "runtime/server/averaging/parameter_server.h"
#include "runtime/tensor/gradient.h"

class LocalServers
{
public:
  LocalServers (guint n_servers, guint n_trainers, gint64 round_timeout_ns,
                TpsReduce reduce = TPS_REDUCE_MEAN);
  ~LocalServers ();

  LocalServers (const LocalServers &) = delete;
  LocalServers &operator= (const LocalServers &) = delete;

  /* Returns an exchange for `trainer`, which the caller must free through its table. */
  TpsExchange *open (guint trainer);

  void reset ();

private:
  struct Family; /* owns all exchanges */

  TpsWorkerPool *workers_;
  std::vector<TpsParameterServer *> servers_;
  std::unique_ptr<Family> family_;
};
