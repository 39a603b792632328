/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer that does the same work as our benchmark, one pass for each request.
 *
 * A peer is a Python script in bench/peers. When it is ready, it prints a line `{"torch":
 * version}`. For each line "pass" it runs one pass and replies with a line `{"trainer": {rank:
 * {"type,name": [ms, …]}}, "server": …, "samples": {rank: [in the pass, in its last epoch]}}`. At
 * the end of its input it terminates its processes. */

#pragma once

#include "bench/process/child.h"
#include "bench/report/report.h"

/* A kind of peer; all strings are static. */
typedef struct
{
  const gchar *name;   /* the value of --peer, also for JSON: "pytorch" */
  const gchar *title;  /* for reports: "PyTorch" */
  const gchar *script; /* a path from the root of the repository */
  const gchar *flags;  /* the flags of ours that the script has, too, separated by spaces */
  const gchar *more;   /* one more argument; NULL = none */
} TpsPeerKind;

/* A peer and its results so far; read-only for its users. */
typedef struct
{
  const TpsPeerKind *kind;
  TpsChild *child;
  gchar *version; /* of PyTorch */
  TpsBenchResults *results;
} TpsPeer;

/* Starts a script through the supervisor and waits until it is ready. `described` are our flags
 * ("name=value"), and `arguments` further arguments, ended by NULL. The caller owns the result.
 * Errors: UNAVAILABLE, with the missing package; NOT_FOUND for the script. */
TpsPeer *tps_peer_start (TpsSupervisor *supervisor, const TpsPeerKind *kind,
                         const GPtrArray *described, gchar **arguments, GError **error);
void tps_peer_free (TpsPeer *peer);

/* Runs one pass, and adds its measurements to the results unless it is a warm-up. Blocks until the
 * pass has ended. Errors: those of tps_child_receive(); INTERNAL (a reply that is not JSON). */
gboolean tps_peer_run_pass (TpsPeer *peer, gboolean is_warm_up, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsPeer, tps_peer_free)
