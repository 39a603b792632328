/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call of the client, from its message to its outcome. Private to the client.
 *
 * A call ends when two references have been dropped. The first one is dropped when the outcome is
 * known (reply, error, deadline), the second one when the writer is freed. The writer borrows the
 * caller's arguments, so even a call with an outcome waits until the callback of
 * tps_writer_set_released() reports that the writer is freed. */

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

  /* Called on the loop when both references have been dropped. TRUE: the call continues, and
   * finishes again later. NULL = the call never continues. */
  gboolean (*goes_on) (TpsClientCall *call);
  /* Called on the loop at the end of the negotiation for which the call waits. The call is no
   * longer in the table then. `facts` are borrowed; NULL on error. */
  void (*negotiated) (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error);

  /* Guarded by client->lock: */
  TpsClientLink *link; /* the link of the call; NULL for a delay and during a negotiation */
  gboolean answered;   /* there is an outcome, but the writer is not freed yet */
  GQueue *queue;       /* the queue of unsent calls that `node` is in; NULL = none */
  GList node;
  TpsClientCall *next_in_table;

  TpsSharing *lease; /* from the link's pool; NULL = none */
  /* a background call may use only the link with this number; 0 = any link */
  guint64 bound;

  /* Owned by the calling thread, then by the loop: */
  gboolean is_large; /* may exceed a frame, and is therefore written inline, in binary protocol */
  gboolean is_framable; /* fits into a frame, but may exceed the server's limit */
  gboolean is_fetched;  /* the reply came in chunks */

  TpsWriter *writer; /* owned by the thread that wins `sending` */
  atomic_int sending;
  atomic_bool writer_released;

  /* Only used on the loop thread: the link to close, because bytes were unsent at the deadline. */
  TpsClientLink *blocked_link;

  /* Owned by the thread that removes the call from the table: */
  TpsMessage *reply;
  GError *error;
};

/* Creates a call without a name or message. tps_client_call_finish() frees it. */
TpsClientCall *tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data);
/* Sets the name of the call to "service:method". Must be called once, before the message is
 * written. */
void tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method);

/* Writes the message up to the end of the arguments; tensors use the call's lease. The caller must
 * end the message. */
void tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data);

/* Gives the writer a reference to the call. Must be called once, when the message has been
 * ended. */
void tps_client_call_written (TpsClientCall *call);

/* Frees the message and releases the lease, so that the call can be written again. */
void tps_client_call_unwrite (TpsClientCall *call);

/* Sends the message, unless the call has already ended. The call may be freed before this
 * returns. */
void tps_client_call_send (TpsClientCall *call, TpsConnection *connection);

/* Returns TRUE while the connection holds bytes of the call's arguments. */
gboolean tps_client_call_is_being_sent (const TpsClientCall *call);

/* Removes the call from the table and from its queue. Must be called with client->lock held.
 * Returns the writer if the caller must free it, otherwise NULL. */
TpsWriter *tps_client_call_forget (TpsClientCall *call);

/* Drops the reference for the outcome, which must be stored in the call. The call is finished when
 * its writer has been freed. The call must be out of the table, unless it is `answered`. */
void tps_client_call_decided (TpsClientCall *call);
/* Stores `error_taken` as the outcome, and calls tps_client_call_decided(). */
void tps_client_call_fail (TpsClientCall *call, GError *error_taken);

/* The last step, on the loop: reports the outcome and frees the call. A TpsLoopFunc; `user_data` is
 * the call. */
void tps_client_call_finish (gpointer user_data);

G_END_DECLS
