/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer system that does the same work as ours, one pass at a time on request.
 *
 * A peer is a Python script in bench/peers. It prints a line `{"torch": version}` when it is ready.
 * For each line "pass" it runs one pass and replies with a line `{"trainer": {rank: {"type,name":
 * [ms, …]}}, "server": …, "samples": {rank: [in the pass, in its last epoch]}}`. At the end of its
 * input it shuts its world down.
 */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

typedef struct TpsPeer TpsPeer;

/* Starts the script (named from the repository's root) with `arguments` (NULL-terminated) through
 * the supervisor, and waits until it is ready. `name` ("pytorch") is its name in JSON, and `title`
 * ("PyTorch") in reports; both are static. Owned by the caller. Errors (NULL):
 * TPS_ERROR_UNAVAILABLE naming the missing package or script. */
TpsPeer *tps_peer_start (TpsSupervisor *supervisor, const gchar *name, const gchar *title,
                         const gchar *script, gchar **arguments, GError **error);
void tps_peer_free (TpsPeer *peer);

/* Runs one pass and adds its measurements to the peer's results, unless it is a warm-up. Blocks
 * until the pass is done or the peer has ended. */
gboolean tps_peer_run_pass (TpsPeer *peer, gboolean is_warm_up, GError **error);

/* All results are borrowed. */
const gchar *tps_peer_get_name (const TpsPeer *peer);
const gchar *tps_peer_get_title (const TpsPeer *peer);
const gchar *tps_peer_get_version (const TpsPeer *peer); /* of PyTorch */
TpsBenchResults *tps_peer_get_results (const TpsPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPeer, tps_peer_free)

G_END_DECLS
