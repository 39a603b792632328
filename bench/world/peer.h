/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer that does the same work as our benchmark, one pass for each request.
 *
 * A peer is a Python script in bench/peers. When it is ready, it prints a line `{"torch":
 * version}`. For each line "pass" it runs one pass and replies with a line `{"trainer": {rank:
 * {"type,name": [ms, …]}}, "server": …, "samples": {rank: [in the pass, in its last epoch]}}`. At
 * the end of its input it terminates its processes. */

#pragma once

#include "bench/process/supervisor.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

typedef struct TpsPeer TpsPeer;

/* Starts a script through the supervisor and waits until it is ready. `script` is a path from the
 * root of the repository, and `arguments` end with NULL. `name` ("pytorch") is for JSON and `title`
 * ("PyTorch") for reports; both are static. The caller owns the result. Blocks. Errors (NULL):
 * UNAVAILABLE, with the missing package or script; NOT_FOUND for the script. */
TpsPeer *tps_peer_start (TpsSupervisor *supervisor, const gchar *name, const gchar *title,
                         const gchar *script, gchar **arguments, GError **error);
void tps_peer_free (TpsPeer *peer);

/* Runs one pass, and adds its measurements to the results unless it is a warm-up. Blocks until the
 * pass has ended. Errors: those of tps_child_receive(); INTERNAL (a reply that is not JSON). */
gboolean tps_peer_run_pass (TpsPeer *peer, gboolean is_warm_up, GError **error);

/* Return the properties of the peer and its results so far; all borrowed. */
const gchar *tps_peer_get_name (const TpsPeer *peer);
const gchar *tps_peer_get_title (const TpsPeer *peer);
const gchar *tps_peer_get_version (const TpsPeer *peer); /* of PyTorch */
TpsBenchResults *tps_peer_get_results (const TpsPeer *peer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPeer, tps_peer_free)

G_END_DECLS
