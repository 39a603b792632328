/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Faults on purpose, for tests of clients, operators and this tree: a plan says where a message is
 * dropped, a write fails, or the process is killed, and how often.
 *
 * Specifications, one each:
 *
 *   POINT:ACTION[,p=PROBABILITY][,after=N][,count=N][,on=TEXT]
 *   seed=N
 *
 * `after`: the first N times nothing happens; `count`: at most N times; `on`: only where the name
 * contains the text (the method of a request or reply, the path of a file). Of several
 * specifications that apply, the first one is carried out. The same seed and order of events give
 * the same faults.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_FAULT_AT_REQUEST = 1, /* a request has been received */
  TPS_FAULT_AT_REPLY,       /* a reply is about to leave */
  TPS_FAULT_AT_READ,        /* a file is about to be read */
  TPS_FAULT_AT_RESERVE,     /* room is about to be reserved for a file */
  TPS_FAULT_AT_WRITE,       /* a file is about to be written */
  TPS_FAULT_AT_SYNC,        /* it has been written, and is about to be synced */
  TPS_FAULT_AT_SYNCED,      /* it has been synced, and the caller has not been told */
} TpsFaultPoint;

typedef enum
{
  TPS_FAULT_NONE = 0,
  TPS_FAULT_DROP,
  TPS_FAULT_DELAY,
  TPS_FAULT_DUPLICATE,
  TPS_FAULT_DISCONNECT,
  TPS_FAULT_FAIL,
  TPS_FAULT_FULL, /* no room */
  TPS_FAULT_KILL, /* never returned: the process ends by SIGKILL */
} TpsFaultAction;

typedef struct
{
  TpsFaultAction action;
  gint64 delay_ns; /* DELAY */
} TpsFault;

typedef struct TpsFaultPlan TpsFaultPlan;

/* Whether a specification can be understood. Errors: INVALID_ARGUMENT, which says what was
 * expected. */
gboolean tps_fault_check (const gchar *spec, GError **error);

/* `specs` ends with NULL. Errors: those of tps_fault_check(). */
TpsFaultPlan *tps_fault_plan_new (const gchar *const *specs, GError **error);
void tps_fault_plan_free (TpsFaultPlan *plan);

/* Returns the actions at this point; `name` may be NULL. Kills the process itself. Every fault is
 * written to the log (fault_injected). Thread: any. */
TpsFault tps_fault_plan_draw (TpsFaultPlan *plan, TpsFaultPoint point, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFaultPlan, tps_fault_plan_free)

G_END_DECLS
