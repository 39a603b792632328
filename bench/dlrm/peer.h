/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* PyTorch, which trains the same samples in one process: ../peers/pytorch_dlrm.py. */

#pragma once

#include "bench/dlrm/options.h"
#include "bench/dlrm/system.h"

G_BEGIN_DECLS

/* Writes the samples of all steps to a file in `folder` and starts the peer. `version` receives
 * "torch 2.14.1", and `reason` why there is no peer; both are owned by the caller, and one of them
 * is NULL. Returns FALSE with an error if the run cannot continue. Otherwise `peer` receives a
 * system, or NULL without PyTorch. */
gboolean tps_dlrm_peer_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor,
                              const gchar *folder, TpsDlrmSystem **peer, gchar **version,
                              gchar **reason, GError **error);

G_END_DECLS
