/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_feed.h"

#include <stdatomic.h>

#include "runtime/base/error.h"
#include "runtime/server/log/feed_reader.h"
#include "runtime/server/shell.h"

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

/* ---- ends of requests ------------------------------------------------------------------------ */

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

/* ---- reading --------------------------------------------------------------------------------- */

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

  if (!tps_feed_reader_read (&feed->reader, request->lsn, request->max_bytes, &batch, &error))
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

/* ---- waiting requests ------------------------------------------------------------------------ */

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
  tps_mutex_lock (&feed->shell.lock);
  move_waiters (&feed->waiting, &feed->ready, is_durable, &durable_lsn);
  charge_waiters (feed);
  if (!feed->shell.is_shut_down)
    start_reading (feed);
  tps_mutex_unlock (&feed->shell.lock);
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

/* ---- requests -------------------------------------------------------------------------------- */

static gboolean
check_lsn (TpsLogFeed *feed, gint64 lsn, gint64 durable_lsn, GError **error)
{
  if (lsn >= 1 && lsn <= durable_lsn + 1)
    return tps_feed_check_kept (feed->log, lsn, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "cursor: %" G_GINT64_FORMAT " is outside [1, %" G_GINT64_FORMAT
               "]; the upper bound is the next LSN",
               lsn, durable_lsn + 1);
  return FALSE;
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

typedef enum
{
  ENTERED = 1,
  ENDS_EMPTY, /* the record is not durable, and the request does not wait */
  REFUSED,
} Entered;

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

/* ---- life ------------------------------------------------------------------------------------ */

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
  tps_feed_reader_init (&feed->reader, log, budget);
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
  tps_feed_reader_clear (&feed->reader);
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
