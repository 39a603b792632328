/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A limit on memory, the charges against it, and the tree that budgets form.
 *
 *   process = tps_budget_new (NULL, "process", 900 MiB);
 *   tables = tps_budget_new (process, "tables", 800 MiB);
 *   averages = tps_budget_new (process, "averages", 250 MiB);
 *
 *   if (!tps_budget_charge (tables, n_bytes, error))    before the memory is allocated
 *     return FALSE;
 *   ...
 *   tps_budget_release (tables, n_bytes);               after it has been freed
 *
 * A charge counts against its budget and against every budget above it, or against none of them.
 * The limits of siblings may add up to more than the limit of their parent, but their charges never
 * exceed it.
 *
 * Memory that is only kept for reuse stays charged. Its owner must add a reclaimer, which frees
 * such memory when a charge would otherwise be refused.
 *
 * Threads: any function may be called from any thread. Charges and releases take no lock; they cost
 * one compare-and-swap for each level of the tree. Only a charge that does not fit takes the tree's
 * lock, to reclaim memory. Ownership: a budget keeps its parent. An owner must release its charges
 * before it drops its reference. NULL is a budget without a limit: every function accepts it and
 * does nothing.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsBudget TpsBudget;

/* A budget below `parent` (NULL: the root of a new tree). `name` is a noun for error messages, such
 * as "tables"; it is copied. `max_bytes` 0 means that only the parent limits it. Owned by the
 * caller. */
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

/* Charges `n_bytes`. Returns FALSE if nothing was charged. Errors: RESOURCE_EXHAUSTED, which names
 * the full budget. The error has retry_after_ms, unless the charge would exceed a limit even if
 * nothing else were charged. */
gboolean tps_budget_charge (TpsBudget *budget, gsize n_bytes, GError **error);

/* Releases `n_bytes` of earlier charges. */
void tps_budget_release (TpsBudget *budget, gsize n_bytes);

/* Moves a charge of `n_bytes` to a different budget; the charges of common ancestors do not change.
 * Returns FALSE if the charge does not fit; nothing is moved then. Takes no lock and reclaims
 * nothing. Either budget may be NULL. */
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

/* Releases the whole charge. */
void tps_charge_clear (TpsCharge *charge);

/* ---- memory kept for reuse ------------------------------------------------------------------- */

/* Frees kept memory, at least `n_bytes` if possible, releases its charge and returns its size.
 * The lock of the tree is held during the call. The function must neither charge, nor create or
 * free a budget, nor take a lock under which another thread does so. Another thread may move
 * charges under such a lock. Thread: any. */
typedef gsize (*TpsBudgetReclaim) (gpointer user_data, gsize n_bytes);

/* Adds a reclaimer for memory that is charged to `budget`. The reclaimer is called when a charge
 * does not fit `budget` or a budget above it. Returns a number for tps_budget_remove_reclaimer();
 * the reclaimer is not called after its removal. */
guint tps_budget_add_reclaimer (TpsBudget *budget, TpsBudgetReclaim reclaim, gpointer user_data);
void tps_budget_remove_reclaimer (TpsBudget *budget, guint id);

/* Frees memory that is kept for reuse and charged to `budget` or a budget below it, at least
 * `n_bytes` if possible. Returns the number of bytes that were freed. */
gsize tps_budget_reclaim (TpsBudget *budget, gsize n_bytes);

/* ---- present use ----------------------------------------------------------------------------- */

/* Return the name and the parent, both borrowed. The parent of the root is NULL. */
const gchar *tps_budget_get_name (TpsBudget *budget);
TpsBudget *tps_budget_get_parent (TpsBudget *budget);

/* Return, as values at one moment: the number of bytes that are charged; the largest such number
 * so far; and the smallest limit on the way to the root, which no charge can exceed (G_MAXSIZE if
 * there is none). */
gsize tps_budget_get_held (TpsBudget *budget);
gsize tps_budget_get_peak (TpsBudget *budget);
gsize tps_budget_get_max (TpsBudget *budget);

/* Returns the number of charges that were refused because this budget, and not a budget above it,
 * was full. */
guint64 tps_budget_get_n_refused (TpsBudget *budget);

/* Returns the number of bytes that are free up to the budget's own limit, regardless of the budgets
 * above it; G_MAXSIZE if the budget has no limit. */
gsize tps_budget_get_free (TpsBudget *budget);

/* Calls `visit` for every budget of the tree in the order of creation, so that parents precede
 * their children. The tree's lock is held: `visit` must neither charge, nor create or free a
 * budget. */
typedef void (*TpsBudgetVisit) (TpsBudget *budget, gpointer user_data);
void tps_budget_visit (TpsBudget *budget, TpsBudgetVisit visit, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBudget, tps_budget_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsCharge, tps_charge_clear)

G_END_DECLS
