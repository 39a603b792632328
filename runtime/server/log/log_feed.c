/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_feed.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/server/log/log_scan.h"
#include "runtime/server/log/log_writer.h"
#include "runtime/server/shell.h"
#include "runtime/base/error.h"

#define N_SCANS 4
#define N_BATCHES 8
#define N_MARKS 64

/* A read position that is kept open. */
typedef struct
{
  TpsLogScan scan;
  gint64 next_lsn;     /* 0: not in use */
  gint64 limit_lsn;    /* the durable LSN before the read-ahead began */
  gboolean has_record; /* the record of `next_lsn` has been read but did not fit */
  guint64 used;        /* the time of its last use, as a count */
} TpsFeedScan;

/* The position of a group that was read, where other reads may begin. */
typedef struct
{
  guint64 number;
  gint64 offset;
  gint64 first_lsn; /* 0: not in use */
} TpsFeedMark;

/* Reads batches from the disk. Followers share its caches of recent batches, of open segments, and
 * of positions in the log. */
typedef struct
{
  TpsLog *log; /* borrowed */
  TpsBufferPool *pool;
  guint8 *gathered; /* records of the batch that is being read */
  guint64 n_reads;
  TpsFeedScan scans[N_SCANS];
  TpsLogBatch batches[N_BATCHES]; /* next_lsn 0: not in use */
  guint next_batch;
  TpsFeedMark marks[N_MARKS];
  guint next_mark;
} TpsFeedReader;

/* The maximum size of a batch, unless its only record is longer. */
#define BATCH_BYTES ((gsize) 1 << 20)
/* The size of reads. It is small, because followers of the newest records often need only a few
 * bytes. */
#define READ_BYTES ((gsize) 256 << 10)
/* If the buffer of a place is larger than this, because of a long record, the place is closed. */
#define MAX_KEPT_BYTES ((gsize) 2 << 20)

/* The charge for a waiting request: an estimate of the memory of the request and its call. */
#define REQUEST_BYTES ((gsize) 1024)

#define CONNECTION_CLOSED "the connection has closed"

typedef struct
{
  GList link; /* in one of the queues */
  TpsLogFeedRequest request;
} Waiter;

struct TpsLogFeed
{
  TpsLog *log;
  TpsJobQueue *jobs; /* in the long lane, because a slow disk must not delay lookups */
  TpsShell shell;    /* its lock guards the fields up to `reader` */
  GQueue waiting;    /* requests for records that are not durable yet */
  GQueue ready;      /* requests for durable records */
  TpsCharge charge;
  gboolean is_reading;
  atomic_uint n_waiting; /* changed under the lock */

  TpsFeedReader reader; /* used only by the job; there is one job at a time */
};

typedef enum
{
  ENTERED = 1,
  ENDS_EMPTY, /* the record is not durable, and the request does not wait */
  REFUSED,
} Entered;

static void
close_scan (TpsFeedScan *place)
{
  if (place->next_lsn != 0)
    tps_log_scan_clear (&place->scan);
  *place = (TpsFeedScan) { 0 };
}

static void
drop_batches (TpsFeedReader *reader)
{
  for (guint i = 0; i < N_BATCHES; i++)
    {
      g_clear_pointer (&reader->batches[i].buffer, tps_buffer_unref);
      reader->batches[i] = (TpsLogBatch) { 0 };
    }
}

static void
reader_clear (TpsFeedReader *reader)
{
  for (guint i = 0; i < N_SCANS; i++)
    close_scan (&reader->scans[i]);
  drop_batches (reader);
  g_clear_pointer (&reader->gathered, g_free);
  g_clear_pointer (&reader->pool, tps_buffer_pool_unref);
}

/* Returns TRUE if the log still has the record of `lsn`. Errors: STALE. Thread: any. */
static gboolean
check_kept (TpsLog *log, gint64 lsn, GError **error)
{
  gint64 oldest_lsn = tps_log_get_first_lsn (log);

  if (lsn >= oldest_lsn)
    return TRUE;
  return tps_fail (error, TPS_ERROR_STALE,
                   "log: LSN %" G_GINT64_FORMAT
                   " is not kept any more; the oldest is %" G_GINT64_FORMAT
                   ": begin with a snapshot, and read from the LSN after its own",
                   lsn, oldest_lsn);
}

static gsize
get_record_bytes (const guint8 *head)
{
  TpsRecordHead record = { 0 };

  /* This cannot fail, because the checksum was correct when the record was read. */
  tps_record_decode_head (head, &record);
  return TPS_LOG_RECORD_HEADER + record.body_bytes;
}

/* Moves the beginning of the batch to `lsn`, which must be in the batch. */
static void
cut_before (TpsLogBatch *batch, gint64 lsn)
{
  const guint8 *data = tps_buffer_get_data (batch->buffer);

  for (; batch->first_lsn < lsn; batch->first_lsn++)
    {
      gsize n_bytes = get_record_bytes (data + batch->offset);

      batch->offset += n_bytes;
      batch->n_bytes -= n_bytes;
    }
}

/* Keeps the first records, as many as fit into `max_bytes`, but at least one. */
static void
cut_behind (TpsLogBatch *batch, gsize max_bytes)
{
  const guint8 *data = tps_buffer_get_data (batch->buffer) + batch->offset;
  gint64 lsn = batch->first_lsn;
  gsize n_bytes = 0;

  if (batch->n_bytes <= max_bytes)
    return;
  while (lsn < batch->next_lsn)
    {
      gsize n_record = get_record_bytes (data + n_bytes);

      if (n_bytes > 0 && n_bytes + n_record > max_bytes)
        break;
      n_bytes += n_record;
      lsn++;
    }
  batch->n_bytes = n_bytes;
  batch->next_lsn = lsn;
}

static gboolean
find_batch (const TpsFeedReader *reader, gint64 lsn, TpsLogBatch *batch)
{
  for (guint i = 0; i < N_BATCHES; i++)
    if (reader->batches[i].first_lsn <= lsn && lsn < reader->batches[i].next_lsn)
      {
        *batch = reader->batches[i];
        return TRUE;
      }
  return FALSE;
}

static void
keep_batch (TpsFeedReader *reader, const TpsLogBatch *batch)
{
  TpsLogBatch *kept = &reader->batches[reader->next_batch++ % N_BATCHES];

  if (batch->n_bytes > BATCH_BYTES)
    return;
  g_clear_pointer (&kept->buffer, tps_buffer_unref);
  *kept = *batch;
  tps_buffer_ref (kept->buffer);
}

/* Remembers the position of the current group of `scan`, unless it is the newest mark. */
static void
mark_group (TpsFeedReader *reader, const TpsLogScan *scan)
{
  const TpsGroupHead *group = &scan->reader.group;
  const TpsFeedMark *last = &reader->marks[(reader->next_mark - 1) % N_MARKS];

  if (last->number == scan->number && last->offset == group->offset)
    return;
  reader->marks[reader->next_mark++ % N_MARKS] = (TpsFeedMark) { .number = scan->number,
                                                                 .offset = group->offset,
                                                                 .first_lsn = group->first_lsn };
}

/* Returns the offset of the last marked group in segment `number` that begins at or before `lsn`.
 * If there is none, returns the offset of the first group. */
static gint64
find_offset (const TpsFeedReader *reader, guint64 number, gint64 lsn)
{
  gint64 offset = TPS_LOG_FIRST_GROUP;

  for (guint i = 0; i < N_MARKS; i++)
    {
      const TpsFeedMark *mark = &reader->marks[i];

      if (mark->first_lsn != 0 && mark->number == number && mark->first_lsn <= lsn)
        offset = MAX (offset, mark->offset);
    }
  return offset;
}

static gboolean
open_scan (TpsFeedReader *reader, TpsFeedScan *place, gint64 lsn, GError **error)
{
  g_autoptr (GArray) segments = tps_log_dup_segments (reader->log);
  guint64 number = tps_log_scan_find (segments, lsn);

  close_scan (place);
  if (number == 0)
    return tps_fail (error, TPS_ERROR_STALE, "log: LSN %" G_GINT64_FORMAT " is not kept", lsn);
  tps_log_scan_init (&place->scan, tps_log_get_folder (reader->log), reader->pool);
  place->scan.read_bytes = READ_BYTES;
  place->next_lsn = lsn;
  return tps_log_scan_start (&place->scan, number, find_offset (reader, number, lsn), lsn, error);
}

/* Returns the place at `lsn`, or, if there is none, the least recently used place. */
static TpsFeedScan *
choose_scan (TpsFeedReader *reader, gint64 lsn)
{
  TpsFeedScan *chosen = &reader->scans[0];

  for (guint i = 0; i < N_SCANS; i++)
    {
      TpsFeedScan *place = &reader->scans[i];

      if (place->next_lsn == lsn)
        return place;
      if (place->used < chosen->used)
        chosen = place;
    }
  return chosen;
}

static TpsFeedScan *
take_scan (TpsFeedReader *reader, gint64 lsn, GError **error)
{
  TpsFeedScan *place = choose_scan (reader, lsn);

  if (place->next_lsn != lsn && !open_scan (reader, place, lsn, error))
    {
      close_scan (place);
      return NULL;
    }
  place->used = ++reader->n_reads;
  return place;
}

/* Reads the record of place->next_lsn, unless it has been read. Records up to `limit_lsn` are
 * durable. Bytes after place->limit_lsn may have been read before the log wrote there, so they must
 * be read again. */
static gboolean
fetch_record (TpsFeedReader *reader, TpsFeedScan *place, gint64 limit_lsn, GError **error)
{
  if (place->has_record)
    return TRUE;
  if (place->next_lsn > place->limit_lsn && !tps_log_scan_refresh (&place->scan, error))
    return FALSE;
  if (place->next_lsn > place->limit_lsn)
    place->limit_lsn = limit_lsn;
  if (!tps_log_scan_check (&place->scan, error))
    return FALSE;
  mark_group (reader, &place->scan);
  place->has_record = TRUE;
  return TRUE;
}

/* Makes a batch of one record that is longer than BATCH_BYTES. Does not copy the record: the batch
 * refers to the buffer into which it was read. */
static void
take_long_record (TpsFeedScan *place, TpsLogBatch *batch, gsize n_bytes)
{
  batch->buffer = tps_buffer_ref (place->scan.reader.buffer);
  batch->offset = place->scan.reader.body_offset - TPS_LOG_RECORD_HEADER;
  batch->n_bytes = n_bytes;
  place->has_record = FALSE;
  place->next_lsn++;
}

static gboolean
end_batch (TpsFeedReader *reader, TpsLogBatch *batch, gsize n_gathered, GError **error)
{
  batch->buffer = tps_buffer_pool_get (reader->pool, n_gathered, error);
  if (batch->buffer == NULL)
    return FALSE;
  batch->offset = 0;
  batch->n_bytes = n_gathered;
  memcpy (tps_buffer_get_data (batch->buffer), reader->gathered, n_gathered);
  return TRUE;
}

/* Collects records up to `limit_lsn` in one batch of BATCH_BYTES, regardless of the limit of the
 * follower, because other followers may need more. */
static gboolean
gather (TpsFeedReader *reader, TpsFeedScan *place, gint64 limit_lsn, TpsLogBatch *batch,
        GError **error)
{
  gsize n_gathered = 0;

  if (reader->gathered == NULL)
    reader->gathered = g_malloc (BATCH_BYTES);
  while (place->next_lsn <= limit_lsn)
    {
      const TpsSegmentReader *segment = &place->scan.reader;
      gsize n_bytes;

      if (!fetch_record (reader, place, limit_lsn, error))
        return FALSE;
      n_bytes = TPS_LOG_RECORD_HEADER + segment->record.body_bytes;
      if (n_gathered == 0 && n_bytes > BATCH_BYTES)
        {
          take_long_record (place, batch, n_bytes);
          return TRUE;
        }
      if (n_gathered + n_bytes > BATCH_BYTES)
        break;
      memcpy (reader->gathered + n_gathered,
              tps_buffer_get_data (segment->buffer) + segment->body_offset - TPS_LOG_RECORD_HEADER,
              n_bytes);
      n_gathered += n_bytes;
      place->has_record = FALSE;
      place->next_lsn++;
    }
  return end_batch (reader, batch, n_gathered, error);
}

static gboolean
read_batch (TpsFeedReader *reader, gint64 lsn, gint64 limit_lsn, TpsLogBatch *batch, GError **error)
{
  TpsFeedScan *place = take_scan (reader, lsn, error);

  if (place == NULL)
    return FALSE;
  batch->first_lsn = lsn;
  if (!gather (reader, place, limit_lsn, batch, error))
    {
      close_scan (place);
      return FALSE;
    }
  batch->next_lsn = place->next_lsn;
  if (tps_buffer_get_size (place->scan.reader.buffer) > MAX_KEPT_BYTES)
    close_scan (place);
  return TRUE;
}

/* Reads the records from `lsn` on, which must be durable, into `batch`. The caller must unref the
 * buffer of the batch. `max_bytes` as in TpsLogFeedRequest. Blocks. Errors: see
 * tps_log_feed_read(). */
static gboolean
reader_read (TpsFeedReader *reader, gint64 lsn, gsize max_bytes, TpsLogBatch *batch, GError **error)
{
  gint64 durable_lsn = tps_log_get_durable_lsn (reader->log);
  g_autoptr (GError) failure = NULL;

  *batch = (TpsLogBatch) { 0 };
  if (find_batch (reader, lsn, batch))
    tps_buffer_ref (batch->buffer);
  else if (read_batch (reader, lsn, durable_lsn, batch, &failure))
    keep_batch (reader, batch);
  else
    {
      drop_batches (reader); /* their memory may be the reason for the failure */
      /* The segment of the record may have been deleted meanwhile. */
      if (check_kept (reader->log, lsn, error))
        g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  cut_before (batch, lsn);
  cut_behind (batch, max_bytes);
  batch->durable_lsn = durable_lsn;
  batch->oldest_lsn = tps_log_get_first_lsn (reader->log);
  return TRUE;
}

/* Adapts the charge and `n_waiting` to the queues. The lock is held. */
static void
charge_waiters (TpsLogFeed *feed)
{
  tps_charge_set (&feed->charge, (feed->waiting.length + feed->ready.length) * REQUEST_BYTES, NULL);
  atomic_store (&feed->n_waiting, feed->waiting.length);
}

/* Moves the waiters for which is_wanted() returns TRUE from `from` to `to`. The lock is held. */
static void
move_waiters (GQueue *from, GQueue *to,
              gboolean (*is_wanted) (const TpsLogFeedRequest *request, gconstpointer user_data),
              gconstpointer user_data)
{
  for (GList *item = from->head, *next; item != NULL; item = next)
    {
      Waiter *waiter = item->data;

      next = item->next;
      if (!is_wanted (&waiter->request, user_data))
        continue;
      g_queue_unlink (from, item);
      g_queue_push_tail_link (to, item);
    }
}

/* Ends the requests with an error. No lock may be held. */
static void
end_all (GQueue *ended, TpsErrorCode code, const gchar *text)
{
  GList *item;

  while ((item = g_queue_pop_head_link (ended)) != NULL)
    {
      g_autofree Waiter *waiter = item->data;
      g_autoptr (GError) error = g_error_new_literal (TPS_ERROR, code, text);

      waiter->request.done (waiter->request.user_data, NULL, error);
    }
}

static void
end_empty (TpsLogFeed *feed, const TpsLogFeedRequest *request)
{
  TpsLogBatch batch = { .first_lsn = request->lsn,
                        .next_lsn = request->lsn,
                        .durable_lsn = tps_log_get_durable_lsn (feed->log),
                        .oldest_lsn = tps_log_get_first_lsn (feed->log) };

  request->done (request->user_data, &batch, NULL);
}

static void read_one (gpointer data);

/* Submits the job, unless it is running or there is nothing to read. The lock is held. */
static void
start_reading (TpsLogFeed *feed)
{
  if (feed->is_reading || feed->ready.length == 0)
    return;
  feed->is_reading = TRUE;
  tps_shell_begin (&feed->shell);
  tps_job_queue_submit (feed->jobs, read_one, NULL, feed);
}

static void
answer (TpsLogFeed *feed, const TpsLogFeedRequest *request)
{
  TpsLogBatch batch = { 0 };
  g_autoptr (GError) error = NULL;

  if (!reader_read (&feed->reader, request->lsn, request->max_bytes, &batch, &error))
    {
      request->done (request->user_data, NULL, error);
      return;
    }
  request->done (request->user_data, &batch, NULL);
  tps_buffer_unref (batch.buffer);
}

/* The job: serves one request, and submits itself again if there are more. The worker can thus run
 * other jobs between two requests. */
static void
read_one (gpointer data)
{
  TpsLogFeed *feed = data;
  GList *item;

  tps_mutex_lock (&feed->shell.lock);
  item = g_queue_pop_head_link (&feed->ready);
  charge_waiters (feed);
  tps_mutex_unlock (&feed->shell.lock);
  if (item != NULL)
    {
      g_autofree Waiter *waiter = item->data;

      answer (feed, &waiter->request);
    }
  tps_mutex_lock (&feed->shell.lock);
  feed->is_reading = FALSE;
  start_reading (feed);
  tps_mutex_unlock (&feed->shell.lock);
  tps_shell_end (&feed->shell);
}

static gboolean
is_durable (const TpsLogFeedRequest *request, gconstpointer durable_lsn)
{
  return request->lsn <= *(const gint64 *) durable_lsn;
}

/* A thread of the log calls this function after each group, so it takes the lock only if requests
 * wait. See enter() for the reason why no request is missed. */
static void
on_advanced (gpointer user_data, gint64 durable_lsn)
{
  TpsLogFeed *feed = user_data;

  if (atomic_load (&feed->n_waiting) == 0)
    return;
  TPS_LOCK_SCOPE (&feed->shell.lock);
  move_waiters (&feed->waiting, &feed->ready, is_durable, &durable_lsn);
  charge_waiters (feed);
  if (!feed->shell.is_shut_down)
    start_reading (feed);
}

/* Sets the timer to the earliest deadline of the waiting requests. The lock is held. */
static void
set_deadline (TpsLogFeed *feed)
{
  gint64 earliest_ns = G_MAXINT64;

  for (const GList *item = feed->waiting.head; item != NULL; item = item->next)
    earliest_ns = MIN (earliest_ns, ((const Waiter *) item->data)->request.deadline_ns);
  tps_shell_set_deadline (&feed->shell, earliest_ns);
}

static gboolean
is_late (const TpsLogFeedRequest *request, gconstpointer now_ns)
{
  return request->deadline_ns <= *(const gint64 *) now_ns;
}

/* The function of the timer: ends the requests whose deadline has passed. */
static void
expire (gpointer user_data)
{
  TpsLogFeed *feed = user_data;
  gint64 now_ns = tps_clock_now_ns ();
  GQueue late = G_QUEUE_INIT;
  GList *item;

  tps_mutex_lock (&feed->shell.lock);
  move_waiters (&feed->waiting, &late, is_late, &now_ns);
  charge_waiters (feed);
  set_deadline (feed);
  tps_mutex_unlock (&feed->shell.lock);
  while ((item = g_queue_pop_head_link (&late)) != NULL)
    {
      g_autofree Waiter *waiter = item->data;

      end_empty (feed, &waiter->request);
    }
}

static gboolean
check_lsn (TpsLogFeed *feed, gint64 lsn, gint64 durable_lsn, GError **error)
{
  if (lsn >= 1 && lsn <= durable_lsn + 1)
    return check_kept (feed->log, lsn, error);
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "cursor: %" G_GINT64_FORMAT " is outside [1, %" G_GINT64_FORMAT
                   "]; the upper bound is the next LSN",
                   lsn, durable_lsn + 1);
}

/* Counts the charge of one more request. The lock is held. */
static gboolean
charge_request (TpsLogFeed *feed, GError **error)
{
  if (feed->waiting.length + feed->ready.length < TPS_LOG_FEED_MAX_WAITING)
    return tps_charge_add (&feed->charge, REQUEST_BYTES, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "the log cannot be read: %d requests to read it are already waiting",
               TPS_LOG_FEED_MAX_WAITING);
  tps_error_set_retry_after_ms (*error, TPS_RETRY_AFTER_MS);
  return FALSE;
}

/* Queues a request. The lock is held.
 *
 * The log first advances its durable LSN and then reads `n_waiting`. This function first increments
 * `n_waiting` and then reads the durable LSN. Therefore, either on_advanced() finds the waiting
 * request, or this function reads the new durable LSN. */
static Entered
enter (TpsLogFeed *feed, const TpsLogFeedRequest *request, GError **error)
{
  Waiter *waiter;
  gint64 durable_lsn;

  if (feed->shell.is_shut_down)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           "the log cannot be read: the server is shutting down");
      return REFUSED;
    }
  if (request->is_connected != NULL && !request->is_connected (request->user_data))
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, CONNECTION_CLOSED);
      return REFUSED;
    }
  atomic_fetch_add (&feed->n_waiting, 1);
  durable_lsn = tps_log_get_durable_lsn (feed->log);
  if (!check_lsn (feed, request->lsn, durable_lsn, error))
    return REFUSED;
  if (request->lsn > durable_lsn && request->deadline_ns <= tps_clock_now_ns ())
    return ENDS_EMPTY;
  if (!charge_request (feed, error))
    return REFUSED;
  waiter = g_new0 (Waiter, 1);
  waiter->link.data = waiter;
  waiter->request = *request;
  g_queue_push_tail_link (request->lsn <= durable_lsn ? &feed->ready : &feed->waiting,
                          &waiter->link);
  return ENTERED;
}

void
tps_log_feed_read (TpsLogFeed *feed, const TpsLogFeedRequest *request)
{
  g_autoptr (GError) error = NULL;
  Entered entered;

  tps_mutex_lock (&feed->shell.lock);
  entered = enter (feed, request, &error);
  atomic_store (&feed->n_waiting, feed->waiting.length);
  if (entered == ENTERED)
    {
      start_reading (feed);
      set_deadline (feed);
    }
  tps_mutex_unlock (&feed->shell.lock);
  if (entered == ENDS_EMPTY)
    end_empty (feed, request);
  else if (entered == REFUSED)
    request->done (request->user_data, NULL, error);
}

static gboolean
is_of_owner (const TpsLogFeedRequest *request, gconstpointer owner)
{
  return request->owner == owner;
}

void
tps_log_feed_drop_owner (TpsLogFeed *feed, gconstpointer owner)
{
  GQueue dropped = G_QUEUE_INIT;

  tps_mutex_lock (&feed->shell.lock);
  move_waiters (&feed->waiting, &dropped, is_of_owner, owner);
  move_waiters (&feed->ready, &dropped, is_of_owner, owner);
  charge_waiters (feed);
  tps_mutex_unlock (&feed->shell.lock);
  end_all (&dropped, TPS_ERROR_CONNECTION_LOST, CONNECTION_CLOSED);
}

TpsLogFeed *
tps_log_feed_new (TpsLog *log, TpsWorkerPool *workers, TpsBudget *budget)
{
  TpsLogFeed *feed = g_new0 (TpsLogFeed, 1);

  feed->log = log;
  if (workers != NULL)
    feed->jobs = tps_job_queue_new (workers, TPS_LANE_LONG);
  feed->charge.budget = tps_budget_ref (budget);
  tps_shell_init (&feed->shell, workers, expire, feed);
  g_queue_init (&feed->waiting);
  g_queue_init (&feed->ready);
  atomic_init (&feed->n_waiting, 0);
  feed->reader = (TpsFeedReader) { .log = log, .pool = tps_buffer_pool_new (budget, NULL, 0) };
  tps_log_set_advanced (log, on_advanced, feed);
  return feed;
}

static gboolean
is_any (const TpsLogFeedRequest *request, gconstpointer unused)
{
  return TRUE;
}

void
tps_log_feed_shut_down (TpsLogFeed *feed)
{
  GQueue ended = G_QUEUE_INIT;

  tps_mutex_lock (&feed->shell.lock);
  tps_shell_shut_down (&feed->shell);
  move_waiters (&feed->waiting, &ended, is_any, NULL);
  move_waiters (&feed->ready, &ended, is_any, NULL);
  charge_waiters (feed);
  tps_mutex_unlock (&feed->shell.lock);
  end_all (&ended, TPS_ERROR_UNAVAILABLE, "the server is shutting down");
}

void
tps_log_feed_stop (TpsLogFeed *feed)
{
  tps_log_feed_shut_down (feed);
  tps_shell_drain (&feed->shell);
  reader_clear (&feed->reader);
}

void
tps_log_feed_free (TpsLogFeed *feed)
{
  tps_charge_clear (&feed->charge);
  tps_budget_unref (feed->charge.budget);
  tps_shell_clear (&feed->shell);
  g_clear_pointer (&feed->jobs, tps_job_queue_unref);
  g_free (feed);
}
