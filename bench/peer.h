/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer system doing the same work beside ours, one pass at a time on command. */

#pragma once

#include "bench/configuration.h"
#include "bench/options.h"
#include "bench/results.h"
#include "bench/supervisor.h"

G_BEGIN_DECLS

typedef struct TpsPeer TpsPeer;

/* Starts the peer's world through the supervisor and waits until it is ready. Errors:
 * TPS_ERROR_UNAVAILABLE that says what is missing (PyTorch, the script), INVALID_ARGUMENT for a
 * world that the peer cannot be. */
TpsPeer *tps_peer_start (TpsSupervisor *supervisor, const TpsBenchOptions *options,
                         const TpsBenchConfiguration *data, const TpsBenchConfiguration *model,
                         GError **error);
void tps_peer_free (TpsPeer *peer);

/* Runs one pass; `results` NULL = warm-up. Blocks until it is done or the peer is gone. */
gboolean tps_peer_run_pass (TpsPeer *peer, TpsBenchResults *results, GError **error);

/* Of PyTorch; borrowed. */
const gchar *tps_peer_get_version (const TpsPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPeer, tps_peer_free)

G_END_DECLS
