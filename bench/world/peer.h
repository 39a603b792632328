/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer system doing the same work beside ours, one pass at a time on command.
 *
 * A peer is a script in bench/peers that is run by Python. It says `{"torch": version}` in a line
 * when it is ready; for each line "pass" it runs one pass and answers with a line `{"trainer":
 * {rank: {"type,name": [ms, …]}}, "server": …, "samples": {rank: [in the pass, in its last
 * epoch]}}`; at the end of its input it shuts its world down.
 */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

typedef struct TpsPeer TpsPeer;

/* Starts the script (named from the repository's root) with `arguments` (NULL-terminated) through
 * the supervisor and waits until it is ready. `name` ("pytorch") names it in JSON, `title`
 * ("PyTorch") in reports; both are static. Errors: TPS_ERROR_UNAVAILABLE that says what is missing
 * (PyTorch, the script). */
TpsPeer *tps_peer_start (TpsSupervisor *supervisor, const gchar *name, const gchar *title,
                         const gchar *script, gchar **arguments, GError **error);
void tps_peer_free (TpsPeer *peer);

/* Runs one pass; what it measured goes to the peer's results, unless it is a warm-up. Blocks until
 * it is done or the peer is gone. */
gboolean tps_peer_run_pass (TpsPeer *peer, gboolean is_warm_up, GError **error);

/* All borrowed. */
const gchar *tps_peer_get_name (const TpsPeer *peer);
const gchar *tps_peer_get_title (const TpsPeer *peer);
const gchar *tps_peer_get_version (const TpsPeer *peer); /* of PyTorch */
TpsBenchResults *tps_peer_get_results (const TpsPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPeer, tps_peer_free)

G_END_DECLS
