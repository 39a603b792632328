/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A limit on memory, the charges against it, and the tree that budgets form.
 *
 * A charge counts against its budget and against every budget above it, or against none of them. It
 * must precede the allocation; the release must follow the free. The limits of siblings may add up
 * to more than their parent's, but their charges never exceed it. Memory that is kept for reuse
 * stays charged; its owner must add a reclaimer, which frees it when a charge would otherwise be
 * refused.
 *
 * Thread: any. Charges and releases take no lock; only a charge that does not fit takes the tree's
 * lock, to reclaim. Ownership: a budget keeps its parent; charges must be released before the last
 * reference. NULL is a budget without a limit. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsBudget TpsBudget;

/* A budget below `parent` (NULL: a root), owned by the caller. `name` is a noun for messages, such
 * as "tables"; it is copied. `max_bytes` 0 means that only the parent limits it. */
TpsBudget *tps_budget_new (TpsBudget *parent, const gchar *name, gsize max_bytes);
TpsBudget *tps_budget_ref (TpsBudget *budget);
void tps_budget_unref (TpsBudget *budget);

/* Names the flag that changes the limit, such as "--max-table-mib", for error messages. Copied.
 * Must be called before the budget is used by another thread. */
void tps_budget_set_flag (TpsBudget *budget, const gchar *flag);

/* Changes the limit; 0 = only the parent limits it. Present charges stay, even if they exceed the
 * new limit. Thread: any. */
void tps_budget_set_max (TpsBudget *budget, gsize max_bytes);

/* Sets the headroom, which is 0 at first: a charge to `budget` of more than `max_small_bytes` is
 * refused unless it leaves `n_bytes` of the parent free, for siblings and for small charges. Must
 * be called before the budget is used by another thread. */
void tps_budget_set_headroom (TpsBudget *budget, gsize n_bytes, gsize max_small_bytes);

/* Charges `n_bytes`, or returns FALSE with RESOURCE_EXHAUSTED, which names the full budget and has
 * retry_after_ms, unless the charge alone would exceed a limit. */
gboolean tps_budget_charge (TpsBudget *budget, gsize n_bytes, GError **error);

void tps_budget_release (TpsBudget *budget, gsize n_bytes);

/* Moves a charge to a different budget; common ancestors do not change. Returns FALSE if it does
 * not fit. Takes no lock, reclaims nothing. Either budget may be NULL. */
gboolean tps_budget_move (TpsBudget *from, TpsBudget *to, gsize n_bytes);

/* ---- one charge that grows and shrinks ------------------------------------------------------- */

/* The share of a budget that one object holds. All zero is an empty charge without a budget.
 * Thread: one at a time. */
typedef struct
{
  TpsBudget *budget; /* borrowed; must outlive the charge */
  gsize n_bytes;
} TpsCharge;

/* Changes the charge to `n_bytes`. Errors: as tps_budget_charge(); the charge is unchanged then. A
 * change to a smaller charge never fails. */
gboolean tps_charge_set (TpsCharge *charge, gsize n_bytes, GError **error);

/* Adds `n_bytes`. Errors: as tps_budget_charge(). */
gboolean tps_charge_add (TpsCharge *charge, gsize n_bytes, GError **error);
void tps_charge_clear (TpsCharge *charge);

/* ---- memory kept for reuse ------------------------------------------------------------------- */

/* Frees kept memory, at least `n_bytes` if possible, releases its charge and returns its size. The
 * tree's lock is held: the function must neither charge, nor create or free a budget, nor take a
 * lock under which another thread does so (moving charges is allowed). Thread: any. */
typedef gsize (*TpsBudgetReclaim) (gpointer user_data, gsize n_bytes);

/* Adds a reclaimer, called when a charge does not fit `budget` or one above it. Returns a number
 * for tps_budget_remove_reclaimer(), after which it is not called. */
guint tps_budget_add_reclaimer (TpsBudget *budget, TpsBudgetReclaim reclaim, gpointer user_data);
void tps_budget_remove_reclaimer (TpsBudget *budget, guint id);

/* Frees memory that is kept for reuse and charged to `budget` or a budget below it, at least
 * `n_bytes` if possible. Returns the number of bytes that were freed. */
gsize tps_budget_reclaim (TpsBudget *budget, gsize n_bytes);

/* ---- present use ----------------------------------------------------------------------------- */

/* Return the name and the parent, both borrowed. The parent of the root is NULL. */
const gchar *tps_budget_get_name (TpsBudget *budget);
TpsBudget *tps_budget_get_parent (TpsBudget *budget);

/* Return, at one moment: the bytes charged; the most so far; the smallest limit on the way to the
 * root (G_MAXSIZE if there is none). */
gsize tps_budget_get_held (TpsBudget *budget);
gsize tps_budget_get_peak (TpsBudget *budget);
gsize tps_budget_get_max (TpsBudget *budget);

/* Returns the number of charges that were refused because this budget itself was full. */
guint64 tps_budget_get_n_refused (TpsBudget *budget);

/* Returns the number of bytes that are free up to the budget's own limit, regardless of the budgets
 * above it; G_MAXSIZE if the budget has no limit. */
gsize tps_budget_get_free (TpsBudget *budget);

/* Calls `visit` for every budget of the tree, parents before children. The tree's lock is held:
 * `visit` must neither charge, nor create or free a budget. */
typedef void (*TpsBudgetVisit) (TpsBudget *budget, gpointer user_data);
void tps_budget_visit (TpsBudget *budget, TpsBudgetVisit visit, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBudget, tps_budget_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsCharge, tps_charge_clear)

G_END_DECLS
