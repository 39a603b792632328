/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Small calls of some clients while many others are connected and say nothing, in turn with the
 * same calls alone. The idle connections are of a child process; each has made one call, so that it
 * is known to be served.
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

  /* Of a measurement. */
  TpsChild *child;
  const TpsChild *server;
  const gchar *address;
  gdouble seconds;
} TpsTransferIdle;

#define TPS_TRANSFER_IDLE_CONNECT_S 0.0002 /* the time to open and close a connection, roughly */

void tps_transfer_idle_init (TpsTransferIdle *idle, guint n_idle);
void tps_transfer_idle_clear (TpsTransferIdle *idle);

/* Starts the child (this program with --load=idle). `server` listens at `address`; both are
 * borrowed until tps_transfer_idle_stop(). Errors: TPS_ERROR_UNAVAILABLE. */
gboolean tps_transfer_idle_start (TpsTransferIdle *idle, TpsSupervisor *supervisor,
                                  const TpsChild *server, const gchar *address, gdouble seconds,
                                  GError **error);
void tps_transfer_idle_stop (TpsTransferIdle *idle);

/* A round of `seconds` without and with the idle connections. Errors: those of
 * the child or a client; TPS_ERROR_ABORTED when interrupted. */
gboolean tps_transfer_idle_measure_alone (TpsTransferIdle *idle, GError **error);
gboolean tps_transfer_idle_measure_beside (TpsTransferIdle *idle, GError **error);

/* The child: "open N" and "close" on standard input, "ok" or "error TEXT" on standard output.
 * Returns the exit status. */
gint tps_transfer_load_idle (const gchar *address, gsize max_bytes);

G_END_DECLS
