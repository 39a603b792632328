/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* In one turn, the loop waits for events, runs the watches and the timers that are due, and then
 * runs the posted functions. While it waits, the loop spins or sleeps (spin.h).
 *
 * A watch that is removed during a turn may have further events in the same list. It is therefore
 * only marked, and freed at the end of the turn. */

#include "plugin/net/loop.h"

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "plugin/net/spin.h"
#include "plugin/net/timer_heap.h"
#include "runtime/machine/tuning.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"

#define MAX_EVENTS 64
#define MAX_WAIT_MS (60 * 1000)
#define NS_PER_MS 1000000

/* Functions that any thread posts to the loop. The check for functions in every turn of the loop
 * takes no lock. */
typedef struct
{
  atomic_bool awake; /* the loop will check the queue before it sleeps */
  atomic_bool any;   /* written under the lock */

  GArray *running; /* of Posted, swapped with `posted`; loop's thread only */

  TpsMutex lock; /* guards the following, and the change of `awake` to FALSE */
  GArray *posted;
} PostQueue;

struct TpsWatch
{
  gint fd;
  TpsWatchFunc func;
  gpointer user_data;
  gboolean removed;
};

struct TpsLoop
{
  gint epoll_fd;
  gint wake_fd;
  TpsThread thread;
  gchar name[16];

  /* Only used on the loop's thread: */
  TpsTimerHeap timers;
  TpsSpin spin;
  gint n_events;   /* of this turn */
  gint64 woken_ns; /* end of this turn's wait */
  guint slot;
  gint64 crowded_until_ns;
  GPtrArray *removed;
  gboolean stopping;

  PostQueue posts;
};

static _Thread_local TpsLoop *current_loop;

/* Shared by all loops of the process. */
static TpsSpinners *spinners;
static gint64 spin_budget_ns;

gboolean
tps_loop_is_current (const TpsLoop *loop)
{
  return current_loop == loop;
}

/* ---- posts ---------------------------------------------------------------------------------- */

typedef struct
{
  TpsLoopFunc func;
  gpointer user_data;
} Posted;

/* Returns TRUE if there are functions to run. May miss a concurrent post, which begin_sleep() then
 * finds. Thread: the loop's. */
static gboolean
has_posts (PostQueue *queue)
{
  return atomic_load_explicit (&queue->any, memory_order_relaxed);
}

/* Runs the functions that are queued now; functions that these post run in the next turn. Thread:
 * the loop's. */
static void
run_posts (PostQueue *queue)
{
  GArray *running;

  if (!has_posts (queue))
    return;
  tps_mutex_lock (&queue->lock);
  /* The arrays are swapped, so that the functions may post further functions, which run the next
   * time. */
  running = queue->posted;
  queue->posted = queue->running;
  atomic_store_explicit (&queue->any, FALSE, memory_order_relaxed);
  tps_mutex_unlock (&queue->lock);

  for (guint i = 0; i < running->len; i++)
    {
      Posted posted = g_array_index (running, Posted, i);

      posted.func (posted.user_data);
    }
  g_array_set_size (running, 0);
  queue->running = running;
}

/* Returns FALSE if there is a function to run. Otherwise returns TRUE, and marks the loop as
 * asleep: the next post wakes it. Thread: the loop's. */
static gboolean
begin_sleep (PostQueue *queue)
{
  gboolean any;

  TPS_LOCK_SCOPE (&queue->lock);
  /* The lock is held, so no post can come between this check and the change of `awake`. A later
   * post finds that the loop is not awake, and its caller wakes the loop. */
  any = queue->posted->len > 0;
  atomic_store_explicit (&queue->awake, any, memory_order_relaxed);
  return !any;
}

static void
wake (TpsLoop *loop)
{
  guint64 one = 1;
  gssize rc;

  do
    rc = write (loop->wake_fd, &one, sizeof one);
  while (rc < 0 && errno == EINTR);
}

void
tps_loop_post (TpsLoop *loop, TpsLoopFunc func, gpointer user_data)
{
  PostQueue *queue = &loop->posts;
  Posted posted = { func, user_data };
  gboolean was_awake;

  tps_mutex_lock (&queue->lock);
  g_array_append_val (queue->posted, posted);
  atomic_store_explicit (&queue->any, TRUE, memory_order_relaxed);
  was_awake = atomic_exchange_explicit (&queue->awake, TRUE, memory_order_relaxed);
  tps_mutex_unlock (&queue->lock);
  if (!was_awake)
    wake (loop);
}

typedef struct
{
  TpsLoopFunc func;
  gpointer user_data;
  TpsOutcome outcome;
} BlockingPost;

static void
run_blocking (gpointer data)
{
  BlockingPost *post = data;

  post->func (post->user_data);
  tps_outcome_set (&post->outcome, NULL);
}

void
tps_loop_call (TpsLoop *loop, TpsLoopFunc func, gpointer user_data)
{
  BlockingPost post = { .func = func, .user_data = user_data };

  tps_outcome_init (&post.outcome);
  tps_loop_post (loop, run_blocking, &post);
  tps_outcome_wait (&post.outcome, NULL);
}

/* ---- watches -------------------------------------------------------------------------------- */

static gboolean
control (TpsLoop *loop, gint operation, TpsWatch *watch, guint32 epoll_events, GError **error)
{
  struct epoll_event event = { .events = epoll_events, .data.ptr = watch };

  if (epoll_ctl (loop->epoll_fd, operation, watch->fd, &event) == 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                   "loop \"%s\" cannot watch descriptor %d: %s", loop->name, watch->fd,
                   g_strerror (errno));
}

TpsWatch *
tps_loop_add_watch (TpsLoop *loop, gint fd, guint32 epoll_events, TpsWatchFunc func,
                    gpointer user_data, GError **error)
{
  TpsWatch *watch = g_new0 (TpsWatch, 1);

  watch->fd = fd;
  watch->func = func;
  watch->user_data = user_data;
  if (control (loop, EPOLL_CTL_ADD, watch, epoll_events, error))
    return watch;
  g_free (watch);
  return NULL;
}

gboolean
tps_loop_modify_watch (TpsLoop *loop, TpsWatch *watch, guint32 epoll_events, GError **error)
{
  return control (loop, EPOLL_CTL_MOD, watch, epoll_events, error);
}

void
tps_loop_remove_watch (TpsLoop *loop, TpsWatch *watch)
{
  control (loop, EPOLL_CTL_DEL, watch, 0, NULL);
  watch->removed = TRUE;
  g_ptr_array_add (loop->removed, watch);
}

static void
run_watches (TpsLoop *loop, const struct epoll_event *events, gint n_events)
{
  for (gint i = 0; i < n_events; i++)
    {
      TpsWatch *watch = events[i].data.ptr;

      if (watch == NULL)
        {
          guint64 count;

          if (read (loop->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
            g_error ("eventfd cannot be read: %s", g_strerror (errno));
        }
      else if (!watch->removed)
        watch->func (events[i].events, watch->user_data);
    }
}

/* Returns TRUE if the loop should spin. The check of the other loops costs time if they are busy,
 * so it is not done in every turn. */
static gboolean
may_spin (TpsLoop *loop, gint64 now_ns)
{
  if (!tps_spin_is_worthwhile (&loop->spin) || now_ns < loop->crowded_until_ns)
    return FALSE;
  if (!tps_spinners_is_crowded (spinners, now_ns))
    return TRUE;
  loop->crowded_until_ns = now_ns + TPS_SPINNERS_RECENT_NS;
  return FALSE;
}

gboolean
tps_loop_expects_more (TpsLoop *loop)
{
  return loop->n_events == 1 && !has_posts (&loop->posts) && may_spin (loop, loop->woken_ns);
}

gboolean
tps_loop_is_undisturbed (void)
{
  return current_loop != NULL && current_loop->n_events == 1 && !has_posts (&current_loop->posts);
}

/* ---- timers --------------------------------------------------------------------------------- */

guint64
tps_loop_add_timer (TpsLoop *loop, gint64 deadline_ns, TpsLoopFunc func, gpointer user_data)
{
  return tps_timer_heap_add (&loop->timers, deadline_ns, func, user_data);
}

void
tps_loop_cancel_timer (TpsLoop *loop, guint64 timer_id)
{
  tps_timer_heap_cancel (&loop->timers, timer_id);
}

static void
run_timers (TpsLoop *loop)
{
  TpsTimerFunc func;
  gpointer user_data;
  gint64 now_ns;

  /* The clock is read only if a timer is due. */
  if (tps_timer_heap_get_next_ns (&loop->timers) > loop->woken_ns)
    return;
  now_ns = tps_clock_now_ns ();
  while (tps_timer_heap_pop (&loop->timers, now_ns, &func, &user_data))
    func (user_data);
}

/* ---- waiting -------------------------------------------------------------------------------- */

static gint
poll_events (TpsLoop *loop, struct epoll_event *events, gint wait_ms)
{
  gint n_events = epoll_wait (loop->epoll_fd, events, MAX_EVENTS, wait_ms);

  if (n_events < 0 && errno != EINTR)
    g_error ("epoll_wait failed: %s", g_strerror (errno));
  return n_events;
}

/* Sleeps until an event comes or `wait_ns` has passed. The time is rounded up, so that the timer is
 * due when the sleep ends. */
static gint
sleep_for_events (TpsLoop *loop, struct epoll_event *events, gint64 wait_ns)
{
  gint wait_ms = -1;
  gint n_events;

  if (!begin_sleep (&loop->posts))
    wait_ms = 0;
  else if (wait_ns != G_MAXINT64)
    wait_ms = (gint) MIN (wait_ns / NS_PER_MS + (wait_ns % NS_PER_MS != 0), MAX_WAIT_MS);
  n_events = poll_events (loop, events, wait_ms);
  atomic_store_explicit (&loop->posts.awake, TRUE, memory_order_relaxed); /* no wake-ups now */
  return n_events;
}

/* Yields the core to other threads. Returns FALSE if another thread needs it for more than a
 * moment. */
static gboolean
yield (TpsLoop *loop, gint64 *now_ns)
{
  gint64 before_ns = *now_ns;

  sched_yield ();
  *now_ns = tps_clock_now_ns ();
  return tps_spin_add_gap (&loop->spin, *now_ns, *now_ns - before_ns);
}

gboolean
tps_loop_yield (TpsLoop *loop)
{
  gint64 now_ns = tps_clock_now_ns ();
  gboolean is_short = yield (loop, &now_ns);

  loop->woken_ns = now_ns;
  return is_short;
}

gint64
tps_loop_get_event_ns (const TpsLoop *loop)
{
  return loop->woken_ns;
}

/* Polls for events for at most `budget_ns`. Stops early if another thread needs the core. Posts are
 * noticed without a wake-up. Returns TRUE if there is work; `n_events` is the number of events. */
static gboolean
spin_for_events (TpsLoop *loop, struct epoll_event *events, gint64 start_ns, gint64 budget_ns,
                 gint *n_events)
{
  gint64 now_ns = start_ns;

  do
    {
      *n_events = poll_events (loop, events, 0);
      if (*n_events != 0 || has_posts (&loop->posts))
        return TRUE;
    }
  while (yield (loop, &now_ns) && now_ns - start_ns < budget_ns);
  return FALSE;
}

static gint
wait_for_events (TpsLoop *loop, struct epoll_event *events)
{
  gint64 start_ns = tps_clock_now_ns ();
  gint64 next_ns = tps_timer_heap_get_next_ns (&loop->timers);
  gint64 wait_ns = next_ns == G_MAXINT64 ? next_ns : MAX (next_ns - start_ns, 0);
  /* Waits are recorded only if no timer is due and no function has been posted. */
  gboolean counts = loop->spin.budget_ns > 0 && wait_ns > 0 && !has_posts (&loop->posts);
  gboolean spins = counts && may_spin (loop, start_ns) && tps_spinners_enter (spinners);
  TpsSpinResult result = TPS_SPIN_NONE;
  gint n_events;

  if (spins)
    {
      result = spin_for_events (loop, events, start_ns, MIN (loop->spin.budget_ns, wait_ns),
                                &n_events)
                   ? TPS_SPIN_FOUND
                   : TPS_SPIN_MISS;
      tps_spinners_leave (spinners);
    }
  if (result != TPS_SPIN_FOUND)
    n_events = sleep_for_events (loop, events, wait_ns);
  loop->woken_ns = tps_clock_now_ns ();
  if (counts)
    tps_spin_add_wait (&loop->spin, loop->woken_ns - start_ns, result);
  if (n_events > 0)
    tps_spinners_add_event (spinners, loop->slot, loop->woken_ns);
  return n_events;
}

/* ---- thread --------------------------------------------------------------------------------- */

static void
end_turn (TpsLoop *loop)
{
  for (guint i = 0; i < loop->removed->len; i++)
    g_free (g_ptr_array_index (loop->removed, i));
  g_ptr_array_set_size (loop->removed, 0);
}

static void *
run_loop (void *data)
{
  TpsLoop *loop = data;
  struct epoll_event events[MAX_EVENTS];

  current_loop = loop;
  while (!loop->stopping)
    {
      loop->n_events = wait_for_events (loop, events);
      run_watches (loop, events, loop->n_events);
      run_timers (loop);
      run_posts (&loop->posts);
      end_turn (loop);
    }
  return NULL;
}

static void
stop_loop (gpointer data)
{
  TpsLoop *loop = data;

  loop->stopping = TRUE;
}

static void
release (TpsLoop *loop)
{
  end_turn (loop);
  tps_timer_heap_clear (&loop->timers);
  g_ptr_array_unref (loop->removed);
  g_array_unref (loop->posts.running);
  g_array_unref (loop->posts.posted);
  tps_mutex_clear (&loop->posts.lock);
  if (loop->epoll_fd >= 0)
    close (loop->epoll_fd);
  if (loop->wake_fd >= 0)
    close (loop->wake_fd);
  g_free (loop);
}

static gboolean
open_descriptors (TpsLoop *loop, GError **error)
{
  struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };

  loop->epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
  loop->wake_fd = eventfd (0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (loop->epoll_fd >= 0 && loop->wake_fd >= 0
      && epoll_ctl (loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) == 0)
    return TRUE;
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "loop \"%s\" cannot be created: %s",
                   loop->name, g_strerror (errno));
}

static void
choose_spinning (void)
{
  const TpsTuning *tuning = tps_tuning_get ();

  spinners = tps_spinners_new ((guint) tuning->spinning_loops);
  spin_budget_ns = tps_spin_choose_budget (g_getenv ("THRIFTPS_SPIN_US"), tuning->spin_us);
}

TpsLoop *
tps_loop_new (const gchar *name, GError **error)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  TpsLoop *loop = g_new0 (TpsLoop, 1);

  tps_sync_check (pthread_once (&once, choose_spinning));
  g_strlcpy (loop->name, name, sizeof loop->name);
  tps_timer_heap_init (&loop->timers);
  loop->removed = g_ptr_array_new ();
  atomic_init (&loop->posts.awake, TRUE);
  atomic_init (&loop->posts.any, FALSE);
  loop->posts.running = g_array_new (FALSE, FALSE, sizeof (Posted));
  loop->posts.posted = g_array_new (FALSE, FALSE, sizeof (Posted));
  tps_mutex_init (&loop->posts.lock);
  tps_spin_init (&loop->spin, spin_budget_ns);
  loop->slot = tps_spinners_take_slot (spinners);
  if (open_descriptors (loop, error)
      && tps_thread_start (&loop->thread, loop->name, run_loop, loop, error))
    return loop;
  release (loop);
  return NULL;
}

/* The last functions of the loop may post further functions. These run on the thread of the
 * caller. */
void
tps_loop_free (TpsLoop *loop)
{
  TpsLoop *outer = current_loop;

  tps_loop_post (loop, stop_loop, loop);
  tps_sync_check (pthread_join (loop->thread, NULL));
  current_loop = loop;
  while (has_posts (&loop->posts))
    run_posts (&loop->posts);
  current_loop = outer;
  release (loop);
}
