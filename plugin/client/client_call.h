/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One call of the client, from its message to its outcome. Only for the client.
 *
 * A call ends when two holds are gone: its outcome (answer, error, deadline) and its writer. The
 * writer borrows the caller's arguments, so even a call whose outcome is known waits until the
 * writer is freed; its release (tps_writer_set_released()) is the only thing that says so. */

#pragma once

#include "plugin/client/client_private.h"

G_BEGIN_DECLS

/* Who may send the writer: decided by one compare-and-exchange. */
enum
{
  TPS_CLIENT_WRITER_UNSENT,
  TPS_CLIENT_WRITER_GIVEN,   /* to the connection, or about to be */
  TPS_CLIENT_WRITER_DROPPED, /* the call ended first */
};

struct TpsClientCall
{
  TpsRefcount holds; /* the outcome, the writer */
  TpsClient *client;
  gint32 seqid;
  GString *name; /* "Service:method"; empty for a delay */
  gint64 started_ns;
  gint64 deadline_ns;
  TpsClientDone done;
  TpsClientDelayed delayed;
  gpointer user_data;

  /* On the loop, when both holds are gone. TRUE: the call goes on, and finishes again later. NULL =
   * never. */
  gboolean (*goes_on) (TpsClientCall *call);
  /* While it waits for the negotiation of a link: its end, on the loop. The call is out of the
   * table then. */
  void (*negotiated) (TpsClientCall *call, const TpsPeerFacts *facts, const GError *error);

  /* client->lock */
  TpsClientLink
      *link; /* that it was sent on; NULL for a delay, and while it waits for a negotiation */
  gboolean answered; /* the outcome stands, the writer is still out */
  GQueue *queue;     /* that `node` is in, unsent; NULL = none */
  GList node;
  TpsClientCall *next_in_table;

  TpsSharing *lease; /* of the link's pool; NULL = none */
  guint64 bound; /* a background call: the number of the only link that it may use; 0 = any link */

  /* Owned by the calling thread, then by the loop. */
  gboolean is_large;    /* may be too large for a frame: written inline, in binary protocol */
  gboolean is_framable; /* a frame can hold it, though perhaps not one that the server reads */
  gboolean is_fetched;  /* the answer came in chunks */

  TpsWriter *writer; /* owned by the thread that wins `sending` */
  atomic_int sending;
  atomic_bool writer_released;

  /* Loop thread: to be closed, because the deadline passed with bytes unsent. */
  TpsClientLink *blocked_link;

  /* Owned by the thread that removes the call from the table. */
  TpsMessage *reply;
  GError *error;
};

/* Without a name. Ends with tps_client_call_finish(). */
TpsClientCall *tps_client_call_new (TpsClient *client, gint64 deadline_ns, gpointer user_data);
void tps_client_call_set_name (TpsClientCall *call, const gchar *service, const gchar *method);

/* Writes the message up to the end of the arguments, with the call's lease. The caller ends it. */
void tps_client_call_write (TpsClientCall *call, TpsWriteArguments write, gconstpointer write_data);

/* The message has been ended: the writer becomes a hold. */
void tps_client_call_written (TpsClientCall *call);

/* Back to before the call was written. */
void tps_client_call_unwrite (TpsClientCall *call);

/* Sends, unless the call ended first. Afterwards the call may be gone. */
void tps_client_call_send (TpsClientCall *call, TpsConnection *connection);

/* Whether the connection holds bytes of the call's arguments. */
gboolean tps_client_call_is_being_sent (const TpsClientCall *call);

/* Under the lock: takes the call out of the table and of its queue; returns the writer where nobody
 * else will free it. */
TpsWriter *tps_client_call_forget (TpsClientCall *call);

/* The outcome stands in the call, which is out of the table (or answered). Reports it when the
 * writer is gone too. */
void tps_client_call_decided (TpsClientCall *call);
void tps_client_call_fail (TpsClientCall *call, GError *error_taken);

/* The last step, on the loop: reports, frees. A TpsLoopFunc of the call. */
void tps_client_call_finish (gpointer user_data);

G_END_DECLS
