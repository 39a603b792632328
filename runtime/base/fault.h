/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Fault injection, for tests of clients, operators and this tree. A plan says where a message is
 * dropped, a write fails, or the process is killed, and how often.
 *
 * Specifications, one each:
 *
 *   POINT:ACTION[,p=PROBABILITY][,after=N][,count=N][,on=TEXT]
 *   seed=N
 *
 * POINT and ACTION are named as in the enums below, in lower case; a delay has milliseconds:
 * "reply:delay=20". `after`: the first N events have no fault; `count`: at most N faults; `on`:
 * only if the name contains the text (the name of the method for requests and replies, the path for
 * files). If several specifications apply to an event, the first one is used. The same seed and
 * order of events give the same faults.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef enum
{
  TPS_FAULT_AT_REQUEST = 1, /* a request has been received */
  TPS_FAULT_AT_REPLY,       /* a reply is about to be sent */
  TPS_FAULT_AT_READ,        /* a file is about to be read */
  TPS_FAULT_AT_RESERVE,     /* room for a file is about to be reserved */
  TPS_FAULT_AT_WRITE,       /* a file is about to be written */
  TPS_FAULT_AT_SYNC,        /* a file has been written, and is about to be synced */
  TPS_FAULT_AT_SYNCED,      /* a file has been synced, and the call is about to return */
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
  TPS_FAULT_KILL, /* never returned: SIGKILL terminates the process */
} TpsFaultAction;

typedef struct
{
  TpsFaultAction action;
  gint64 delay_ns; /* DELAY */
} TpsFault;

typedef struct TpsFaultPlan TpsFaultPlan;

/* Checks the syntax of a specification. Errors: INVALID_ARGUMENT, with the expected syntax. */
gboolean tps_fault_check (const gchar *spec, GError **error);

/* Creates a plan of the specifications `specs`, which end with NULL. The caller owns the plan.
 * Errors: as tps_fault_check(). */
TpsFaultPlan *tps_fault_plan_new (const gchar *const *specs, GError **error);
void tps_fault_plan_free (TpsFaultPlan *plan);

/* Returns the fault for one event at `point`, possibly TPS_FAULT_NONE. `name` may be NULL. The
 * caller must carry it out, except TPS_FAULT_KILL. Every fault is logged (fault_injected). Thread:
 * any. */
TpsFault tps_fault_plan_draw (TpsFaultPlan *plan, TpsFaultPoint point, const gchar *name);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsFaultPlan, tps_fault_plan_free)

G_END_DECLS
