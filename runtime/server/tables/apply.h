/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradients of one push, from their checks to the steps of the tables. Internal to this folder.
 *
 *   init()   checks everything, finds the tables, reserves all temporary space, and groups the ids
 *            by row: all work that may fail and does not depend on the contents of rows. Other
 *            pushes may run meanwhile
 *   run()    in the push's turn: takes one step of each table
 *   clear()
 */

#pragma once

#include "runtime/server/command.h"
#include "runtime/server/tables/host/scratch.h"
#include "runtime/server/tables/host/table_step.h"
#include "runtime/server/tables/table_calls.h"

/* One gradient. A bag contributes to each of its rows: its gradient times the weight (SUM), or its
 * gradient divided by the number of ids (MEAN). */
typedef struct
{
  TpsOpenQuery open;
  gconstpointer gradient; /* [bags, dim] */
  TpsDType dtype;         /* of the gradient */
  guint step;             /* the index of its step in TpsApply.steps */
  gfloat *scaled;         /* MEAN: [bags, dim] */
  gsize place_of_scaled;  /* an offset in the scratch */
} TpsApplyPart;

/* The step of one table. */
typedef struct
{
  TpsTable *table; /* borrowed from the parts */
  gsize n_contributions;
  gboolean has_weights;
  /* On replay: the record says that the table did not take its step, or the table already contains
   * the step. */
  gboolean is_left_out;
  TpsTableStep host;
} TpsApplyStep;

typedef struct TpsApply
{
  TpsTableStore *store;
  const TpsTablePush *push;
  TpsScratch lists; /* of parts, steps, turns, records */
  TpsScratch scratch;
  guint n_parts, n_steps;
  guint n_in[TPS_N_ROW_STORES]; /* parts whose tables are in each row store */
  TpsDurability durability;     /* the strongest of the tables */
  TpsApplyPart *parts;
  TpsApplyStep *steps;
  TpsTurn *turns;          /* [n_steps] */
  TpsCommandTable *tables; /* [n_steps] */
  gsize on_devices;        /* an offset in the scratch: TpsDeviceGradient [n_parts] */
} TpsApply;
