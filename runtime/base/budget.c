/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/budget.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* State that all budgets of one tree share. It lives as long as the root. */
typedef struct
{
  TpsMutex lock;      /* guards the following */
  GQueue budgets;     /* of TpsBudget, in the order of creation */
  GArray *reclaimers; /* of Reclaimer */
  guint last_reclaimer;
} Tree;

struct TpsBudget
{
  TpsRefcount refcount;
  TpsBudget *parent;       /* owned; NULL for the root */
  atomic_size_t max_bytes; /* G_MAXSIZE: no limit of its own */
  gsize headroom;          /* bytes that charges leave free in the parent, unless they are small */
  gsize max_small_bytes;   /* the largest small charge */
  atomic_size_t held;
  atomic_size_t peak;
  atomic_uint_fast64_t n_refused;
  Tree *tree; /* the root owns it */
  gchar *name;
  gchar *flag; /* NULL: none */
};

typedef struct
{
  guint id;
  TpsBudget *budget; /* borrowed */
  TpsBudgetReclaim reclaim;
  gpointer user_data;
} Reclaimer;

/* ---- life ------------------------------------------------------------------------------------ */

static Tree *
tree_new (void)
{
  Tree *tree = g_new0 (Tree, 1);

  tps_mutex_init (&tree->lock);
  g_queue_init (&tree->budgets);
  tree->reclaimers = g_array_new (FALSE, FALSE, sizeof (Reclaimer));
  return tree;
}

TpsBudget *
tps_budget_new (TpsBudget *parent, const gchar *name, gsize max_bytes)
{
  TpsBudget *budget = g_new0 (TpsBudget, 1);

  tps_refcount_init (&budget->refcount);
  budget->parent = tps_budget_ref (parent);
  budget->name = g_strdup (name);
  tps_budget_set_max (budget, max_bytes);
  budget->tree = parent != NULL ? parent->tree : tree_new ();
  TPS_LOCK_SCOPE (&budget->tree->lock);
  g_queue_push_tail (&budget->tree->budgets, budget);
  return budget;
}

TpsBudget *
tps_budget_ref (TpsBudget *budget)
{
  if (budget != NULL)
    tps_refcount_inc (&budget->refcount);
  return budget;
}

static void
free_budget (TpsBudget *budget)
{
  Tree *tree = budget->tree;

  if (atomic_load (&budget->held) != 0)
    g_critical ("budget %s is freed with %" G_GSIZE_FORMAT " bytes held", budget->name,
                atomic_load (&budget->held));
  tps_mutex_lock (&tree->lock);
  g_queue_remove (&tree->budgets, budget);
  tps_mutex_unlock (&tree->lock);
  if (budget->parent == NULL)
    {
      g_queue_clear (&tree->budgets);
      g_array_unref (tree->reclaimers);
      tps_mutex_clear (&tree->lock);
      g_free (tree);
    }
  g_free (budget->name);
  g_free (budget->flag);
  g_free (budget);
}

void
tps_budget_unref (TpsBudget *budget)
{
  while (budget != NULL && tps_refcount_dec (&budget->refcount))
    {
      TpsBudget *parent = budget->parent;

      free_budget (budget);
      budget = parent;
    }
}

void
tps_budget_set_flag (TpsBudget *budget, const gchar *flag)
{
  if (budget == NULL)
    return;
  g_free (budget->flag);
  budget->flag = g_strdup (flag);
}

void
tps_budget_set_max (TpsBudget *budget, gsize max_bytes)
{
  if (budget != NULL)
    atomic_store_explicit (&budget->max_bytes, max_bytes > 0 ? max_bytes : G_MAXSIZE,
                           memory_order_relaxed);
}

void
tps_budget_set_headroom (TpsBudget *budget, gsize n_bytes, gsize max_small_bytes)
{
  if (budget == NULL)
    return;
  budget->headroom = n_bytes;
  budget->max_small_bytes = max_small_bytes;
}

/* ---- charges --------------------------------------------------------------------------------- */

static gsize
own_limit_of (const TpsBudget *budget)
{
  return atomic_load_explicit (&budget->max_bytes, memory_order_relaxed);
}

/* Returns the limit of `budget` for a charge that must leave `headroom` bytes free. */
static gsize
limit_of (const TpsBudget *budget, gsize headroom)
{
  gsize max_bytes = own_limit_of (budget);

  return max_bytes == G_MAXSIZE ? G_MAXSIZE : max_bytes - MIN (headroom, max_bytes);
}

/* Returns the headroom that a charge of `n_bytes` to `budget` must leave in the parent. */
static gsize
headroom_for (const TpsBudget *budget, gsize n_bytes)
{
  return n_bytes > budget->max_small_bytes ? budget->headroom : 0;
}

static void
note_peak (TpsBudget *budget, gsize held)
{
  gsize peak = atomic_load_explicit (&budget->peak, memory_order_relaxed);

  while (held > peak
         && !atomic_compare_exchange_weak_explicit (&budget->peak, &peak, held,
                                                    memory_order_relaxed, memory_order_relaxed))
    ;
}

/* Charges `n_bytes` to `budget` alone, unless `held` would exceed `limit`. Uses compare-and-swap
 * instead of an addition that is undone after a failure. A large charge that fails therefore never
 * takes room from a small charge of another thread. */
static gboolean
try_one (TpsBudget *budget, gsize n_bytes, gsize limit)
{
  gsize held = atomic_load_explicit (&budget->held, memory_order_relaxed);

  do
    if (held > limit || n_bytes > limit - held)
      return FALSE;
  while (!atomic_compare_exchange_weak_explicit (&budget->held, &held, held + n_bytes,
                                                 memory_order_relaxed, memory_order_relaxed));
  note_peak (budget, held + n_bytes);
  return TRUE;
}

/* Releases `n_bytes` in each budget from `budget` up to `end`, exclusive. */
static void
release_up_to (TpsBudget *budget, const TpsBudget *end, gsize n_bytes)
{
  for (; budget != end; budget = budget->parent)
    {
      gsize held = atomic_fetch_sub_explicit (&budget->held, n_bytes, memory_order_relaxed);

      if (G_UNLIKELY (held < n_bytes))
        g_error ("budget %s: %" G_GSIZE_FORMAT " bytes are released, %" G_GSIZE_FORMAT " are held",
                 budget->name, n_bytes, held);
    }
}

/* The budget that refused a charge, and its limit for this charge. */
typedef struct
{
  TpsBudget *budget; /* NULL = none: the charge was made */
  gsize limit;
} Full;

/* Charges `n_bytes` to each budget from `budget` up to `end`, exclusive. If one of them refuses,
 * releases the charges made so far and returns that budget. */
static Full
charge_up_to (TpsBudget *budget, const TpsBudget *end, gsize n_bytes)
{
  gsize headroom = 0;

  for (TpsBudget *next = budget; next != end; next = next->parent)
    {
      Full full = { next, limit_of (next, headroom) };

      if (!try_one (next, n_bytes, full.limit))
        {
          release_up_to (budget, next, n_bytes);
          return full;
        }
      headroom = headroom_for (next, n_bytes);
    }
  return (Full) { NULL, 0 };
}

static gboolean
is_below (const TpsBudget *budget, const TpsBudget *ancestor)
{
  while (budget != NULL && budget != ancestor)
    budget = budget->parent;
  return budget != NULL;
}

static gsize
missing_bytes (Full full, gsize n_bytes)
{
  gsize held = atomic_load_explicit (&full.budget->held, memory_order_relaxed);
  gsize room = full.limit > held ? full.limit - held : 0;

  return n_bytes > room ? n_bytes - room : 0;
}

/* Calls the reclaimers of the full budget and of its descendants until there is room for `n_bytes`.
 * Returns the number of freed bytes. A reclaimer runs under the lock of the tree, so it cannot be
 * removed meanwhile. */
static gsize
reclaim_for (Full full, gsize n_bytes)
{
  Tree *tree = full.budget->tree;
  gsize freed = 0;

  TPS_LOCK_SCOPE (&tree->lock);
  for (guint i = 0; i < tree->reclaimers->len; i++)
    {
      const Reclaimer *reclaimer = &g_array_index (tree->reclaimers, Reclaimer, i);
      gsize missing = missing_bytes (full, n_bytes);

      if (missing > 0 && is_below (reclaimer->budget, full.budget))
        freed += reclaimer->reclaim (reclaimer->user_data, missing);
    }
  return freed;
}

/* Returns the smallest limit from `budget` up to the root for a charge of `n_bytes`. A charge that
 * exceeds it can never succeed. */
static Full
tightest_of (TpsBudget *budget, gsize n_bytes)
{
  Full tightest = { budget, own_limit_of (budget) };

  for (; budget->parent != NULL; budget = budget->parent)
    {
      gsize limit = limit_of (budget->parent, headroom_for (budget, n_bytes));

      if (limit < tightest.limit)
        tightest = (Full) { budget->parent, limit };
    }
  return tightest;
}

/* Counts and reports a refusal. `fits_never` means that the charge would not fit into an empty
 * budget either. A retry is useless then, so the error has no retry time. */
static void
refuse (GError **error, Full full, gsize n_bytes, gboolean fits_never)
{
  TpsBudget *budget = full.budget;
  gsize held = atomic_load_explicit (&budget->held, memory_order_relaxed);
  const gchar *flag = budget->flag != NULL ? budget->flag : "";
  const gchar *see = budget->flag != NULL ? "; see " : "";
  GError *decided;

  atomic_fetch_add_explicit (&budget->n_refused, 1, memory_order_relaxed);
  if (error == NULL)
    return;
  if (fits_never)
    decided = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "the budget of %s: %" G_GSIZE_FORMAT
                           " bytes exceed its limit of %" G_GSIZE_FORMAT " bytes%s%s",
                           budget->name, n_bytes, full.limit, see, flag);
  else
    decided = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "the budget of %s: no room for %" G_GSIZE_FORMAT
                           " bytes, %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes are held%s%s",
                           budget->name, n_bytes, held, full.limit, see, flag);
  if (!fits_never)
    tps_error_set_retry_after_ms (decided, TPS_RETRY_AFTER_MS);
  g_propagate_error (error, decided);
}

gboolean
tps_budget_charge (TpsBudget *budget, gsize n_bytes, GError **error)
{
  Full full = charge_up_to (budget, NULL, n_bytes);
  Full tightest;

  if (full.budget == NULL)
    return TRUE;
  tightest = tightest_of (budget, n_bytes);
  if (n_bytes > tightest.limit)
    {
      refuse (error, tightest, n_bytes, TRUE);
      return FALSE;
    }
  while (full.budget != NULL && reclaim_for (full, n_bytes) > 0)
    full = charge_up_to (budget, NULL, n_bytes);
  if (full.budget != NULL) /* a last attempt: another thread may have reclaimed memory */
    full = charge_up_to (budget, NULL, n_bytes);
  if (full.budget != NULL)
    refuse (error, full, n_bytes, FALSE);
  return full.budget == NULL;
}

void
tps_budget_release (TpsBudget *budget, gsize n_bytes)
{
  release_up_to (budget, NULL, n_bytes);
}

gboolean
tps_budget_move (TpsBudget *from, TpsBudget *to, gsize n_bytes)
{
  TpsBudget *common = from;

  while (common != NULL && !is_below (to, common))
    common = common->parent;
  if (charge_up_to (to, common, n_bytes).budget != NULL)
    return FALSE;
  release_up_to (from, common, n_bytes);
  return TRUE;
}

/* ---- one charge ------------------------------------------------------------------------------ */

gboolean
tps_charge_add (TpsCharge *charge, gsize n_bytes, GError **error)
{
  if (!tps_budget_charge (charge->budget, n_bytes, error))
    return FALSE;
  charge->n_bytes += n_bytes;
  return TRUE;
}

gboolean
tps_charge_set (TpsCharge *charge, gsize n_bytes, GError **error)
{
  if (n_bytes > charge->n_bytes)
    return tps_charge_add (charge, n_bytes - charge->n_bytes, error);
  tps_budget_release (charge->budget, charge->n_bytes - n_bytes);
  charge->n_bytes = n_bytes;
  return TRUE;
}

void
tps_charge_clear (TpsCharge *charge)
{
  tps_budget_release (charge->budget, charge->n_bytes);
  charge->n_bytes = 0;
}

/* ---- memory kept for reuse ------------------------------------------------------------------- */

guint
tps_budget_add_reclaimer (TpsBudget *budget, TpsBudgetReclaim reclaim, gpointer user_data)
{
  Reclaimer reclaimer = { .budget = budget, .reclaim = reclaim, .user_data = user_data };

  if (budget == NULL)
    return 0;
  TPS_LOCK_SCOPE (&budget->tree->lock);
  reclaimer.id = ++budget->tree->last_reclaimer;
  g_array_append_val (budget->tree->reclaimers, reclaimer);
  return reclaimer.id;
}

void
tps_budget_remove_reclaimer (TpsBudget *budget, guint id)
{
  GArray *reclaimers;

  if (budget == NULL)
    return;
  TPS_LOCK_SCOPE (&budget->tree->lock);
  reclaimers = budget->tree->reclaimers;
  for (guint i = reclaimers->len; i > 0; i--)
    if (g_array_index (reclaimers, Reclaimer, i - 1).id == id)
      g_array_remove_index (reclaimers, i - 1);
}

gsize
tps_budget_reclaim (TpsBudget *budget, gsize n_bytes)
{
  Tree *tree;
  gsize freed = 0;

  if (budget == NULL)
    return 0;
  tree = budget->tree;
  TPS_LOCK_SCOPE (&tree->lock);
  for (guint i = 0; i < tree->reclaimers->len && freed < n_bytes; i++)
    {
      const Reclaimer *reclaimer = &g_array_index (tree->reclaimers, Reclaimer, i);

      if (is_below (reclaimer->budget, budget))
        freed += reclaimer->reclaim (reclaimer->user_data, n_bytes - freed);
    }
  return freed;
}

/* ---- present use ----------------------------------------------------------------------------- */

const gchar *
tps_budget_get_name (TpsBudget *budget)
{
  return budget != NULL ? budget->name : "nothing";
}

TpsBudget *
tps_budget_get_parent (TpsBudget *budget)
{
  return budget != NULL ? budget->parent : NULL;
}

gsize
tps_budget_get_held (TpsBudget *budget)
{
  return budget != NULL ? atomic_load_explicit (&budget->held, memory_order_relaxed) : 0;
}

gsize
tps_budget_get_peak (TpsBudget *budget)
{
  return budget != NULL ? atomic_load_explicit (&budget->peak, memory_order_relaxed) : 0;
}

gsize
tps_budget_get_max (TpsBudget *budget)
{
  return budget != NULL ? tightest_of (budget, G_MAXSIZE).limit : G_MAXSIZE;
}

guint64
tps_budget_get_n_refused (TpsBudget *budget)
{
  return budget != NULL ? atomic_load_explicit (&budget->n_refused, memory_order_relaxed) : 0;
}

gsize
tps_budget_get_free (TpsBudget *budget)
{
  gsize max_bytes = budget != NULL ? own_limit_of (budget) : G_MAXSIZE;
  gsize held;

  if (max_bytes == G_MAXSIZE)
    return G_MAXSIZE;
  held = tps_budget_get_held (budget); /* read once, since other threads change it */
  return max_bytes - MIN (held, max_bytes);
}

void
tps_budget_visit (TpsBudget *budget, TpsBudgetVisit visit, gpointer user_data)
{
  if (budget == NULL)
    return;
  TPS_LOCK_SCOPE (&budget->tree->lock);
  for (GList *item = budget->tree->budgets.head; item != NULL; item = item->next)
    visit (item->data, user_data);
}
