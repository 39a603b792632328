/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Small calls of some clients while many others are connected and say nothing, in turn with the same calls alone. The idle
 * connections are of a child process; each has made one call, so that it is known to be served.
 */

#pragma once

#include "bench/process/child.h"

G_BEGIN_DECLS

typedef struct
{
  guint n_idle;
  GArray *alone;  /* of gdouble: calls a second, one a round */
  GArray *beside; /* the same beside the idle connections */
  gdouble bytes;  /* that the server has grown by with them: the most of all rounds */
} TpsTransferIdle;

void tps_transfer_idle_init (TpsTransferIdle *idle, guint n_idle);
void tps_transfer_idle_clear (TpsTransferIdle *idle);

/* Starts the child (this program with --load=idle), and makes `n_rounds` rounds of `seconds` for each figure. `server` listens at
 * `address`. Errors: what the child or a client says; TPS_ERROR_ABORTED when interrupted. */
gboolean tps_transfer_idle_measure (TpsTransferIdle *idle, TpsSupervisor *supervisor,
                                    const TpsChild *server, const gchar *address, guint n_rounds,
                                    gdouble seconds, GError **error);

/* The child: "open N" and "close" on standard input, "ok" or "error TEXT" on standard output. Returns the exit status. */
gint tps_transfer_load_idle (const gchar *address, gsize max_bytes);

G_END_DECLS
