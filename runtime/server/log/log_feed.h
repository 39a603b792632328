/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log as a stream for followers: durable records, as the bytes of FORMAT.md, in LSN order.
 *
 *   tps_log_feed_read() -> the records are durable: queued -> a job reads them -> done()
 *                       -> they are not: waits for the log, up to a deadline  -> done()
 *
 * A waiting request occupies no thread. All followers together occupy at most one worker, on which
 * a job reads for one request after another. Batches are kept for a while, so followers of the
 * newest records share the batches that were read for the first of them. Other followers share open
 * segments and remembered positions.
 *
 * Memory: batches and read-ahead buffers come from a pool that is charged to the budget; waiting
 * requests are charged, too.
 */

#pragma once

#include "runtime/base/worker_pool.h"
#include "runtime/server/log/log.h"

G_BEGIN_DECLS

typedef struct TpsLogFeed TpsLogFeed;

/* Records without a gap. All zero: there are none. */
typedef struct
{
  TpsBuffer *buffer; /* the records, at `offset`, each with its head; NULL: there are none */
  gsize offset;
  gsize n_bytes;
  gint64 first_lsn;   /* of the request */
  gint64 next_lsn;    /* of the record after these; first_lsn if there are none */
  gint64 durable_lsn; /* the durable LSN at the time of the read */
  gint64 oldest_lsn;  /* of the oldest record that is kept */
} TpsLogBatch;

typedef struct
{
  gint64 lsn;      /* of the first requested record */
  gsize max_bytes; /* of the batch, at most 1 MiB; a longer record is a batch of its own */
  /* the end of the wait for the first record; in the past: the request does not wait */
  gint64 deadline_ns;
  gconstpointer owner; /* NULL, or for tps_log_feed_drop_owner() */
  /* Optional: returns TRUE if `owner` is still connected, so that tps_log_feed_drop_owner() will be
   * called later. If it returns FALSE, the request is refused. NULL = always connected. Called with
   * a lock held; must not block. */
  gboolean (*is_connected) (gpointer user_data);
  /* Called once, by any thread without a lock. `batch` and `error` are borrowed, and one of them is
   * NULL. If the deadline has passed, the batch has no records. Must not block. */
  void (*done) (gpointer user_data, const TpsLogBatch *batch, const GError *error);
  gpointer user_data;
} TpsLogFeedRequest;

#define TPS_LOG_FEED_MAX_WAITING 1024 /* requests */

/* Makes the feed of a log. `log` and `workers` are borrowed. If `workers` is NULL,
 * tps_log_feed_read() must not be called. A reference to `budget` is taken; `budget` may be NULL.
 * Must be called before the first append. */
TpsLogFeed *tps_log_feed_new (TpsLog *log, TpsWorkerPool *workers, TpsBudget *budget);

/* Begins to read the records of `request`, which is copied. Errors of done():
 *   STALE               the record was deleted; the message names the oldest LSN
 *   INVALID_ARGUMENT    the LSN is below 1, or beyond the durable LSN + 1
 *   RESOURCE_EXHAUSTED  no memory for the records, or too many requests wait; with retry_after_ms
 *   CONNECTION_LOST     the owner is not connected, or was dropped
 *   UNAVAILABLE         the feed has been stopped
 *   others              those of tps_log_cursor_next()
 * Thread: any. */
void tps_log_feed_read (TpsLogFeed *feed, const TpsLogFeedRequest *request);

/* Ends the requests of `owner` that have not been served. Thread: any. */
void tps_log_feed_drop_owner (TpsLogFeed *feed, gconstpointer owner);

/* Ends the requests that have not been served, and refuses later ones. Does not block. Thread:
 * any.
 */
void tps_log_feed_shut_down (TpsLogFeed *feed);

/* As tps_log_feed_shut_down(), but also waits for the reading job and closes its files. Afterwards
 * the workers and the log may be freed. */
void tps_log_feed_stop (TpsLogFeed *feed);
/* Frees the feed. Must be called after tps_log_feed_stop() and tps_log_close(), since the log may
 * report progress to the feed until it is closed. */
void tps_log_feed_free (TpsLogFeed *feed);

G_END_DECLS
