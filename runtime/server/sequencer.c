/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The path of a command:
 *
 *   enter()                  waits for room in each queue that is full
 *   number()                 gives it its LSN, and appends it to the list for the observer
 *   take_turns()             queues a turn for each object; without a wait, the command is ready
 *   run_all()                runs ready commands, and those that become ready when turns end
 *   tps_sequencer_finish()   marks the command as complete
 *   observe()                passes complete commands to the observer, in the order of the list
 *   tps_ordered_release()    calls ended(), and advances `ended_lsn`
 */

#include "runtime/server/sequencer.h"

#include "runtime/base/sync.h"

/* The number of consecutive commands that a thread runs, or passes to the observer, before a worker
 * takes over. The thread may be an I/O thread, which must serve other connections. */
#define MAX_IN_A_ROW 16

/* The load of a queue that is full. One large command runs, and the second one follows it at once,
 * so no thread waits for the next command to enter. */
#define FULL_LOAD 16
#define LARGE_LOAD (FULL_LOAD / 2)

struct TpsSequencer
{
  TpsSequencerOptions options;

  TpsMutex lock; /* guards the fields below, all queues, and the private fields of commands */
  gint64 last_lsn;
  TpsOrdered *first_admitted, *last_admitted; /* not yet passed to the observer */
  gboolean is_observing;                      /* a thread is passing commands to the observer */
  /* Used only with an observer. All commands up to `ended_lsn` have ended. A later command has
   * ended if has_ended[lsn & ended_mask] is TRUE. The array has room for all commands up to
   * `last_lsn`. */
  gint64 ended_lsn;
  guint8 *has_ended;
  gsize ended_mask;
  gboolean has_waiters;
  TpsCond ended;
};

/* ---- turns ----------------------------------------------------------------------------------- */

static const TpsTurn *
find_closed (const TpsOrdered *ordered)
{
  for (guint i = 0; i < ordered->n_turns; i++)
    if (ordered->turns[i].queue->is_closed)
      return &ordered->turns[i];
  return NULL;
}

/* Returns TRUE if `ordered`, which is about to join `queue`, may run at the same time as the
 * command before it. The queue must not be empty. Only the command that took the last turn can be
 * followed: the second of two commands may have ended before the first one. A command that had to
 * wait does not follow: while two commands run, a third one waits for both. */
static gboolean
can_follow (const TpsOrdered *ordered, const TpsTurnQueue *queue)
{
  return ordered->may_follow && !ordered->has_waited && queue->first == queue->last
         && queue->first->number == queue->n_taken && queue->first->ordered->has_begun;
}

static void
take_turns (TpsOrdered *ordered)
{
  ordered->n_waits = 0;
  ordered->has_begun = FALSE;
  ordered->is_following = FALSE;
  for (guint i = 0; i < ordered->n_turns; i++)
    {
      TpsTurn *turn = &ordered->turns[i];
      TpsTurnQueue *queue = turn->queue;

      turn->next = NULL;
      turn->ordered = ordered;
      if (queue->first == NULL)
        queue->first = turn;
      else
        {
          ordered->is_following = can_follow (ordered, queue);
          ordered->n_waits += !ordered->is_following;
          queue->last->next = turn;
        }
      queue->last = turn;
      turn->number = ++queue->n_taken;
    }
  ordered->has_waited |= ordered->n_waits > 0;
}

/* Removes a running turn, the first or the second one of its queue. Returns the turn whose time has
 * come now, or NULL. The lock is held. */
static TpsTurn *
leave_queue (TpsTurn *turn)
{
  TpsTurnQueue *queue = turn->queue;

  if (queue->first == turn)
    {
      queue->first = turn->next;
      return turn->next != NULL && !turn->next->ordered->is_following ? turn->next : NULL;
    }
  queue->first->next = turn->next;
  if (queue->last == turn)
    queue->last = queue->first;
  return NULL;
}

/* ---- admission ------------------------------------------------------------------------------- */

/* Doubles the room of `has_ended`, for the end of the last admitted command. The lock is held. */
static void
grow_ended (TpsSequencer *sequencer)
{
  gsize mask = 2 * sequencer->ended_mask + 1;
  guint8 *has_ended = g_new0 (guint8, mask + 1);

  for (gint64 lsn = sequencer->ended_lsn + 1; lsn < sequencer->last_lsn; lsn++)
    has_ended[(gsize) lsn & mask] = sequencer->has_ended[(gsize) lsn & sequencer->ended_mask];
  g_free (sequencer->has_ended);
  sequencer->has_ended = has_ended;
  sequencer->ended_mask = mask;
}

/* Gives the command its LSN, and appends the command to the list for the observer. The lock is
 * held. */
static void
number (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  ordered->command->lsn = ++sequencer->last_lsn;
  if (sequencer->options.observe == NULL)
    return;
  if ((gsize) (sequencer->last_lsn - sequencer->ended_lsn) > sequencer->ended_mask)
    grow_ended (sequencer);
  ordered->sequencer = sequencer;
  ordered->is_complete = FALSE;
  ordered->next_admitted = NULL;
  if (sequencer->first_admitted == NULL)
    sequencer->first_admitted = ordered;
  else
    sequencer->last_admitted->next_admitted = ordered;
  sequencer->last_admitted = ordered;
}

/* Admits a command that has entered all of its queues. Returns TRUE if it may run now. The lock is
 * held. */
static gboolean
admit (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  ordered->closed = find_closed (ordered);
  if (ordered->closed == NULL)
    number (sequencer, ordered);
  take_turns (ordered);
  return ordered->n_waits == 0;
}

/* ---- entering the queues --------------------------------------------------------------------- */

static guint
load_of (const TpsOrdered *ordered)
{
  return ordered->is_small ? 1 : LARGE_LOAD;
}

static gboolean
has_room (const TpsTurnQueue *queue, const TpsOrdered *ordered)
{
  return queue->load + load_of (ordered) <= FULL_LOAD;
}

static void
join_ring (TpsTurnQueue *queue, TpsTurn *turn)
{
  turn->next_tenant = NULL;
  if (queue->waiting == NULL)
    queue->waiting = turn;
  else
    queue->last_waiting->next_tenant = turn;
  queue->last_waiting = turn;
}

/* Waits behind the commands of the same tenant. */
static void
wait_to_enter (TpsOrdered *ordered, TpsTurn *turn)
{
  TpsTurn *first = turn->queue->waiting;

  ordered->has_waited = TRUE;
  turn->ordered = ordered;
  turn->next = NULL;
  while (first != NULL && first->ordered->tenant != ordered->tenant)
    first = first->next_tenant;
  if (first != NULL)
    first->last_of_tenant->next = turn;
  else
    join_ring (turn->queue, turn);
  (first != NULL ? first : turn)->last_of_tenant = turn;
}

/* Removes the first command of the first tenant, whose next command joins the end of the ring. */
static TpsTurn *
take_waiting (TpsTurnQueue *queue)
{
  TpsTurn *turn = queue->waiting;

  queue->waiting = turn->next_tenant;
  if (turn->next != NULL)
    {
      turn->next->last_of_tenant = turn->last_of_tenant;
      join_ring (queue, turn->next);
    }
  return turn;
}

/* Enters all queues. Returns FALSE if one of them, from that of turn `first` on, makes the command
 * wait first. The lock is held. */
static gboolean
enter (TpsOrdered *ordered, guint first)
{
  for (guint i = first; i < ordered->n_turns; i++)
    {
      const TpsTurnQueue *queue = ordered->turns[i].queue;

      if (G_LIKELY (queue->waiting == NULL && has_room (queue, ordered)))
        continue;
      wait_to_enter (ordered, &ordered->turns[i]);
      return FALSE;
    }
  for (guint i = 0; i < ordered->n_turns; i++)
    ordered->turns[i].queue->load += load_of (ordered);
  return TRUE;
}

/* Lets waiting commands enter the queue while it has room. Appends those that may run now to the
 * list `*end`. The lock is held. */
static TpsOrdered **
let_in (TpsSequencer *sequencer, TpsTurnQueue *queue, TpsOrdered **end)
{
  while (queue->waiting != NULL && has_room (queue, queue->waiting->ordered))
    {
      TpsTurn *turn = take_waiting (queue);
      TpsOrdered *ordered = turn->ordered;

      if (!enter (ordered, (guint) (turn - ordered->turns) + 1) || !admit (sequencer, ordered))
        continue;
      ordered->next_ready = NULL;
      *end = ordered;
      end = &ordered->next_ready;
    }
  return end;
}

/* Leaves all queues. Returns a list of the commands that may run now, in LSN order for each queue.
 * The lock is held. */
static TpsOrdered *
leave_turns (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  TpsOrdered *ready = NULL;
  TpsOrdered **end = &ready;

  for (guint i = 0; i < ordered->n_turns; i++)
    {
      TpsTurnQueue *queue = ordered->turns[i].queue;
      TpsTurn *next = leave_queue (&ordered->turns[i]);

      queue->load -= load_of (ordered);
      if (next != NULL && --next->ordered->n_waits == 0)
        {
          next->ordered->next_ready = NULL;
          *end = next->ordered;
          end = &next->ordered->next_ready;
        }
      if (G_UNLIKELY (queue->waiting != NULL))
        end = let_in (sequencer, queue, end);
    }
  return ready;
}

/* ---- the end of a command -------------------------------------------------------------------- */

static void
end (TpsOrdered *ordered, const GError *error)
{
  if (ordered->ended != NULL)
    ordered->ended (ordered, error);
}

void
tps_ordered_release (TpsOrdered *ordered, const GError *error)
{
  TpsSequencer *sequencer = ordered->sequencer;
  gint64 lsn = ordered->command->lsn;
  guint8 *has_ended;

  /* This may free `ordered`, whose fields have therefore already been read. */
  end (ordered, error);
  TPS_LOCK_SCOPE (&sequencer->lock);
  has_ended = sequencer->has_ended;
  has_ended[(gsize) lsn & sequencer->ended_mask] = TRUE;
  while (sequencer->ended_lsn < sequencer->last_lsn
         && has_ended[(gsize) (sequencer->ended_lsn + 1) & sequencer->ended_mask])
    has_ended[(gsize) ++sequencer->ended_lsn & sequencer->ended_mask] = FALSE;
  if (sequencer->has_waiters)
    tps_cond_broadcast (&sequencer->ended);
}

static void observe_handed_over (gpointer sequencer);

/* Passes complete records to the observer, in LSN order. After MAX_IN_A_ROW records, a worker
 * continues. The lock is held, but is released during the calls. `is_observing` must be set, and
 * only this function resets it, so only one thread at a time passes records. */
static void
observe (TpsSequencer *sequencer)
{
  TpsWorkerPool *workers = sequencer->options.workers;

  for (guint n = 0; sequencer->first_admitted != NULL && sequencer->first_admitted->is_complete;
       n++)
    {
      TpsOrdered *ordered = sequencer->first_admitted;

      if (n == MAX_IN_A_ROW && workers != NULL)
        {
          tps_worker_pool_submit (workers, observe_handed_over, sequencer);
          return;
        }
      sequencer->first_admitted = ordered->next_admitted;
      tps_mutex_unlock (&sequencer->lock);
      sequencer->options.observe (sequencer->options.user_data, ordered);
      tps_mutex_lock (&sequencer->lock);
    }
  sequencer->is_observing = FALSE;
}

static void
observe_handed_over (gpointer user_data)
{
  TpsSequencer *sequencer = user_data;

  TPS_LOCK_SCOPE (&sequencer->lock);
  observe (sequencer);
}

/* From the moment at which a command is complete, the observer owns it, and a different thread may
 * end it at once. This function must therefore not use it any more. */
void
tps_sequencer_finish (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  if (sequencer->options.observe == NULL)
    {
      end (ordered, NULL);
      return;
    }
  TPS_LOCK_SCOPE (&sequencer->lock);
  ordered->is_complete = TRUE;
  if (!sequencer->is_observing)
    {
      sequencer->is_observing = TRUE;
      observe (sequencer);
    }
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct
{
  TpsSequencer *sequencer;
  TpsOrdered *first;
} Handover;

static void run_all (TpsSequencer *sequencer, TpsOrdered *first);

static void
run_handed_over (gpointer user_data)
{
  Handover *handover = user_data;

  run_all (handover->sequencer, handover->first);
  g_free (handover);
}

/* The ready commands that this thread has yet to run, and the bounds for adding more. */
typedef struct
{
  TpsOrdered *first, *last;
  gboolean may_run_large;
  gboolean has_large; /* others go to workers, which run them in parallel */
  guint n_run;
} Batch;

static void
batch_add (Batch *batch, TpsOrdered *ordered)
{
  ordered->next_ready = NULL;
  if (batch->first == NULL)
    batch->first = ordered;
  else
    batch->last->next_ready = ordered;
  batch->last = ordered;
  batch->has_large |= !ordered->is_small;
}

/* Returns TRUE if this thread may run the command; otherwise, a worker must run it. */
static gboolean
is_for_batch (const TpsSequencer *sequencer, const Batch *batch, const TpsOrdered *ordered)
{
  if (sequencer->options.workers == NULL)
    return TRUE;
  return batch->n_run < MAX_IN_A_ROW
         && (ordered->is_small || (batch->may_run_large && !batch->has_large));
}

static TpsOrdered *
end_turn (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  TPS_LOCK_SCOPE (&sequencer->lock);
  return leave_turns (sequencer, ordered);
}

/* Marks the command as running. A later command may then run at the same time. */
static void
begin (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  if (!ordered->may_follow || ordered->closed != NULL)
    return;
  TPS_LOCK_SCOPE (&sequencer->lock);
  ordered->has_begun = TRUE;
}

/* Runs `first`, whose turns have all come. Commands that become ready meanwhile run in the loop of
 * this thread, or on workers. */
static void
run_all (TpsSequencer *sequencer, TpsOrdered *first)
{
  Batch batch = { .may_run_large = !first->is_small };

  batch_add (&batch, first);
  while (batch.first != NULL)
    {
      TpsOrdered *ordered = batch.first;
      TpsOrdered *next;

      batch.first = ordered->next_ready;
      begin (sequencer, ordered);
      if (ordered->closed == NULL)
        ordered->run (ordered);
      batch.n_run++;
      batch.has_large &= ordered->is_small;
      for (TpsOrdered *ready = end_turn (sequencer, ordered); ready != NULL; ready = next)
        {
          next = ready->next_ready; /* read first, because a worker may take `ready` */
          if (is_for_batch (sequencer, &batch, ready))
            batch_add (&batch, ready);
          else
            {
              Handover *handover = g_new (Handover, 1);

              *handover = (Handover) { sequencer, ready };
              tps_worker_pool_submit (sequencer->options.workers, run_handed_over, handover);
            }
        }
      if (ordered->closed == NULL)
        tps_sequencer_finish (sequencer, ordered);
      else
        ordered->refused (ordered, ordered->closed);
    }
}

void
tps_sequencer_run (TpsSequencer *sequencer, TpsOrdered *ordered)
{
  gboolean is_ready;

  ordered->has_waited = FALSE;
  tps_mutex_lock (&sequencer->lock);
  is_ready = enter (ordered, 0) && admit (sequencer, ordered);
  tps_mutex_unlock (&sequencer->lock);
  if (is_ready)
    run_all (sequencer, ordered);
}

gint64
tps_sequencer_admit (TpsSequencer *sequencer, TpsOrdered *ordered, TpsTurnQueue *closes)
{
  gint64 lsn;

  TPS_LOCK_SCOPE (&sequencer->lock);
  number (sequencer, ordered);
  lsn = ordered->command->lsn;
  if (closes != NULL)
    closes->is_closed = TRUE;
  return lsn;
}

/* ---- life ------------------------------------------------------------------------------------ */

TpsSequencer *
tps_sequencer_new (const TpsSequencerOptions *options)
{
  TpsSequencer *sequencer = g_new0 (TpsSequencer, 1);

  sequencer->options = *options;
  tps_mutex_init (&sequencer->lock);
  tps_cond_init (&sequencer->ended);
  return sequencer;
}

void
tps_sequencer_free (TpsSequencer *sequencer)
{
  tps_mutex_clear (&sequencer->lock);
  tps_cond_clear (&sequencer->ended);
  g_free (sequencer->has_ended);
  g_free (sequencer);
}

gboolean
tps_sequencer_has_observer (TpsSequencer *sequencer)
{
  return sequencer->options.observe != NULL;
}

gboolean
tps_sequencer_may_admit (TpsSequencer *sequencer, gsize n_bytes, GError **error)
{
  const TpsSequencerOptions *options = &sequencer->options;

  return options->may_admit == NULL || options->may_admit (options->user_data, n_bytes, error);
}

void
tps_sequencer_set_lsn (TpsSequencer *sequencer, gint64 lsn)
{
  TPS_LOCK_SCOPE (&sequencer->lock);
  sequencer->last_lsn = lsn;
  sequencer->ended_lsn = lsn;
}

gint64
tps_sequencer_get_lsn (TpsSequencer *sequencer)
{
  TPS_LOCK_SCOPE (&sequencer->lock);
  return sequencer->last_lsn;
}

gint64
tps_sequencer_get_ended_lsn (TpsSequencer *sequencer)
{
  TPS_LOCK_SCOPE (&sequencer->lock);
  return sequencer->ended_lsn;
}

gboolean
tps_sequencer_wait_ended (TpsSequencer *sequencer, gint64 lsn, gint64 deadline_ns)
{
  TPS_LOCK_SCOPE (&sequencer->lock);
  sequencer->has_waiters = TRUE;
  while (sequencer->ended_lsn < lsn
         && tps_cond_wait_until (&sequencer->ended, &sequencer->lock, deadline_ns))
    ;
  sequencer->has_waiters = FALSE;
  return sequencer->ended_lsn >= lsn;
}
