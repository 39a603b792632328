/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call of the client, from its message to its outcome. Private to the client.
 *
 * A call ends when two references have been dropped: one until its outcome is known (reply, error,
 * deadline), and one until its writer is freed. The writer borrows the caller's arguments, so even
 * a call with an outcome waits until tps_writer_set_released() reports that the writer is freed. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* The right to send the writer, decided by one compare-and-exchange. */
enum
{
  TPS_CLIENT_WRITER_UNSENT,
  TPS_CLIENT_WRITER_GIVEN,   /* given to the connection, or about to be */
  TPS_CLIENT_WRITER_DROPPED, /* the call ended first */
};

struct TpsClientCall
{
  TpsRefcount holds; /* the outcome and the writer */
  TpsClient *client;
  gint32 seqid;
  GString *name; /* "Service:method"; empty for a delay */
  gint64 started_ns;
  gint64 deadline_ns;
  TpsClientDone done;
  TpsClientDelayed delayed;
  gpointer user_data;

  /* Called on the loop when both holds have been released. TRUE: the call continues, and finishes
   * again later. NULL = never. */
  gboolean (*goes_on) (TpsClientCall *call);
  /* Called on the loop at the end of the negotiation for which the call waits. The call is out of
   * the table then. */
  void (*negotiated) (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error);

  /* Guarded by client->lock: */
  TpsClientLink *link; /* the link of the call; NULL for a delay and during a negotiation */
  gboolean answered;   /* there is an outcome, but the writer is not freed yet */
  GQueue *queue;       /* the queue of unsent calls that `node` is in; NULL = none */
  GList node;
  TpsClientCall *next_in_table;

  TpsSharing *lease; /* from the link's pool; NULL = none */
  /* of a background call: the number of the only link that it may use; 0 = any link */
  guint64 bound;

  /* Owned by the calling thread, then by the loop: */
  gboolean is_large;    /* may be too large for a frame: written inline, in binary protocol */
  gboolean is_framable; /* fits into a frame, though perhaps not into the server's limit */
  gboolean is_fetched;  /* the reply came in chunks */

  TpsWriter *writer; /* owned by the thread that wins `sending` */
  atomic_int sending;
  atomic_bool writer_released;

  /* Loop thread: the link to close, because the deadline passed with bytes unsent. */
  TpsClientLink *blocked_link;

  /* Owned by the thread that removes the call from the table: */
  TpsMessage *reply;
  GError *error;
};

/* Creates a call without a name. tps_client_call_finish() ends it. */
TpsClientCall *tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data);
void tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method);

/* Writes the message up to the end of the arguments, with the call's lease. The caller must end the
 * message. */
void tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data);

/* Must be called when the message has been ended. The writer has a reference to the call from then
 * on. */
void tps_client_call_written (TpsClientCall *call);

/* Restores the state before tps_client_call_write(). */
void tps_client_call_unwrite (TpsClientCall *call);

/* Sends the message, unless the call ended first. The call may be freed afterwards. */
void tps_client_call_send (TpsClientCall *call, TpsConnection *connection);

/* Returns whether the connection holds bytes of the call's arguments. */
gboolean tps_client_call_is_being_sent (const TpsClientCall *call);

/* Takes the call out of the table and of its queue; under the lock. Returns the writer if the
 * caller must free it. */
TpsWriter *tps_client_call_forget (TpsClientCall *call);

/* Reports the outcome that is stored in the call, or waits until the writer is freed. The call must
 * be out of the table (or answered). */
void tps_client_call_decided (TpsClientCall *call);
void tps_client_call_fail (TpsClientCall *call, GError *error_taken);

/* The last step, on the loop: reports the outcome and frees the call. A TpsLoopFunc; `user_data` is
 * the call. */
void tps_client_call_finish (gpointer user_data);

G_END_DECLS
