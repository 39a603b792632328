/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/budget.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* What all budgets of one tree share. Lives as long as the root. */
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
  TpsBudget *parent; /* owned; NULL for the root */
  gsize max_bytes;   /* G_MAXSIZE: no limit of its own */
  atomic_size_t held;
  atomic_size_t peak;
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

static void
tree_free (Tree *tree)
{
  g_queue_clear (&tree->budgets);
  g_array_unref (tree->reclaimers);
  tps_mutex_clear (&tree->lock);
  g_free (tree);
}

TpsBudget *
tps_budget_new (TpsBudget *parent, const gchar *name, gsize max_bytes)
{
  TpsBudget *budget = g_new0 (TpsBudget, 1);

  tps_refcount_init (&budget->refcount);
  budget->parent = tps_budget_ref (parent);
  budget->name = g_strdup (name);
  budget->max_bytes = max_bytes > 0 ? max_bytes : G_MAXSIZE;
  budget->tree = parent != NULL ? parent->tree : tree_new ();
  tps_mutex_lock (&budget->tree->lock);
  g_queue_push_tail (&budget->tree->budgets, budget);
  tps_mutex_unlock (&budget->tree->lock);
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
    tree_free (tree);
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

/* ---- charges --------------------------------------------------------------------------------- */

static void
note_peak (TpsBudget *budget, gsize held)
{
  gsize peak = atomic_load_explicit (&budget->peak, memory_order_relaxed);

  while (held > peak
         && !atomic_compare_exchange_weak_explicit (&budget->peak, &peak, held,
                                                    memory_order_relaxed, memory_order_relaxed))
    ;
}

/* Counts `n_bytes` in `budget` alone. A compare-and-swap and not an addition that is undone: `held` exceeds the limit at no
 * time, so a large charge that is refused never makes a small one fail. */
static gboolean
try_one (TpsBudget *budget, gsize n_bytes)
{
  gsize held = atomic_load_explicit (&budget->held, memory_order_relaxed);

  do
    if (n_bytes > budget->max_bytes - held)
      return FALSE;
  while (!atomic_compare_exchange_weak_explicit (&budget->held, &held, held + n_bytes,
                                                 memory_order_relaxed, memory_order_relaxed));
  note_peak (budget, held + n_bytes);
  return TRUE;
}

/* From `budget` up to `end`, which is not included. */
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

/* From `budget` up to `end`, which is not included. Returns the budget that is full; NULL when the charge was made. */
static TpsBudget *
charge_up_to (TpsBudget *budget, const TpsBudget *end, gsize n_bytes)
{
  for (TpsBudget *full = budget; full != end; full = full->parent)
    if (!try_one (full, n_bytes))
      {
        release_up_to (budget, full, n_bytes);
        return full;
      }
  return NULL;
}

static gboolean
is_below (const TpsBudget *budget, const TpsBudget *ancestor)
{
  while (budget != NULL && budget != ancestor)
    budget = budget->parent;
  return budget != NULL;
}

/* How many bytes `full` lacks. */
static gsize
missing_bytes (TpsBudget *full, gsize n_bytes)
{
  gsize room = full->max_bytes - atomic_load_explicit (&full->held, memory_order_relaxed);

  return n_bytes > room ? n_bytes - room : 0;
}

/* Returns how many bytes were freed. */
static gsize
reclaim_for (TpsBudget *full, gsize n_bytes)
{
  Tree *tree = full->tree;
  gsize freed = 0;

  tps_mutex_lock (&tree->lock);
  for (guint i = 0; i < tree->reclaimers->len; i++)
    {
      const Reclaimer *reclaimer = &g_array_index (tree->reclaimers, Reclaimer, i);
      gsize missing = missing_bytes (full, n_bytes);

      if (missing > 0 && is_below (reclaimer->budget, full))
        freed += reclaimer->reclaim (reclaimer->user_data, missing);
    }
  tps_mutex_unlock (&tree->lock);
  return freed;
}

/* The smallest limit on the way up from `budget`, which no charge can exceed. */
static TpsBudget *
tightest_of (TpsBudget *budget)
{
  TpsBudget *tightest = budget;

  for (; budget != NULL; budget = budget->parent)
    if (budget->max_bytes < tightest->max_bytes)
      tightest = budget;
  return tightest;
}

/* `fits_never`: even when nothing is held. */
static void
set_error (GError **error, const TpsBudget *full, gsize n_bytes, gsize held, gboolean fits_never)
{
  g_autofree gchar *flag = NULL;
  GError *decided;

  if (error == NULL)
    return;
  flag = full->flag != NULL ? g_strconcat ("; see ", full->flag, NULL) : g_strdup ("");
  if (fits_never)
    decided = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "the budget of %s: %" G_GSIZE_FORMAT
                           " bytes exceed its limit of %" G_GSIZE_FORMAT " bytes%s",
                           full->name, n_bytes, full->max_bytes, flag);
  else
    decided = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                           "the budget of %s: no room for %" G_GSIZE_FORMAT
                           " bytes, %" G_GSIZE_FORMAT " of %" G_GSIZE_FORMAT " bytes are held%s",
                           full->name, n_bytes, held, full->max_bytes, flag);
  if (!fits_never)
    tps_error_set_retry_after_ms (decided, TPS_RETRY_AFTER_MS);
  g_propagate_error (error, decided);
}

gboolean
tps_budget_charge (TpsBudget *budget, gsize n_bytes, GError **error)
{
  TpsBudget *full = charge_up_to (budget, NULL, n_bytes);
  TpsBudget *tightest;

  if (full == NULL)
    return TRUE;
  tightest = tightest_of (budget);
  if (n_bytes > tightest->max_bytes)
    {
      set_error (error, tightest, n_bytes, 0, TRUE);
      return FALSE;
    }
  while (full != NULL && reclaim_for (full, n_bytes) > 0)
    full = charge_up_to (budget, NULL, n_bytes);
  if (full != NULL) /* once more: another thread may have reclaimed enough */
    full = charge_up_to (budget, NULL, n_bytes);
  if (full != NULL)
    set_error (error, full, n_bytes, atomic_load_explicit (&full->held, memory_order_relaxed),
               FALSE);
  return full == NULL;
}

void
tps_budget_release (TpsBudget *budget, gsize n_bytes)
{
  release_up_to (budget, NULL, n_bytes);
}

static TpsBudget *
common_ancestor (TpsBudget *a, TpsBudget *b)
{
  while (a != NULL && !is_below (b, a))
    a = a->parent;
  return a;
}

gboolean
tps_budget_move (TpsBudget *from, TpsBudget *to, gsize n_bytes)
{
  TpsBudget *common = common_ancestor (from, to);

  if (charge_up_to (to, common, n_bytes) != NULL)
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
  tps_mutex_lock (&budget->tree->lock);
  reclaimer.id = ++budget->tree->last_reclaimer;
  g_array_append_val (budget->tree->reclaimers, reclaimer);
  tps_mutex_unlock (&budget->tree->lock);
  return reclaimer.id;
}

void
tps_budget_remove_reclaimer (TpsBudget *budget, guint id)
{
  GArray *reclaimers;

  if (budget == NULL)
    return;
  tps_mutex_lock (&budget->tree->lock);
  reclaimers = budget->tree->reclaimers;
  for (guint i = reclaimers->len; i > 0; i--)
    if (g_array_index (reclaimers, Reclaimer, i - 1).id == id)
      g_array_remove_index (reclaimers, i - 1);
  tps_mutex_unlock (&budget->tree->lock);
}

/* ---- what is held ---------------------------------------------------------------------------- */

const gchar *
tps_budget_get_name (TpsBudget *budget)
{
  return budget != NULL ? budget->name : "nothing";
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
  return budget != NULL ? tightest_of (budget)->max_bytes : G_MAXSIZE;
}

gsize
tps_budget_get_free (TpsBudget *budget)
{
  if (budget == NULL || budget->max_bytes == G_MAXSIZE)
    return G_MAXSIZE;
  return budget->max_bytes - tps_budget_get_held (budget);
}

void
tps_budget_visit (TpsBudget *budget, TpsBudgetVisit visit, gpointer user_data)
{
  if (budget == NULL)
    return;
  tps_mutex_lock (&budget->tree->lock);
  for (GList *item = budget->tree->budgets.head; item != NULL; item = item->next)
    visit (item->data, user_data);
  tps_mutex_unlock (&budget->tree->lock);
}
