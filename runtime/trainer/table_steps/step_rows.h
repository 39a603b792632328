/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rows of one table in one step: the different ids of the bags, pooled vectors from the rows of
 * these ids, and gradients added up by id. Makes no calls to servers. */

#pragma once

#include "runtime/device/cpu/kernels/group.h"
#include "runtime/trainer/table_steps/step_bags.h"

typedef struct
{
  gsize dim;
  TpsStepBags bags;    /* the arrays are borrowed */
  gpointer memory;     /* of the groups; reused */
  gsize capacity;      /* ids that fit into the memory */
  TpsCpuGroups groups; /* the different ids, ascending, with their positions in the bags */
  const gfloat **rows; /* [n_ids], the row of each position */
  gint64 *stale;       /* [n_stale], ascending: ids whose rows must be fetched again */
  gsize *stale_groups; /* [n_stale], their groups */
  gsize n_stale;
  gfloat *sums;        /* [n_groups, dim], gradients added up by id */
  gsize sums_capacity; /* floats */
} TpsStepRows;

/* Initialises `rows`, without bags, for a table with `dim` floats in a row. */
void tps_step_rows_init (TpsStepRows *rows, gsize dim);
void tps_step_rows_clear (TpsStepRows *rows);

/* Finds the different ids of `bags`, whose arrays stay borrowed until the next call. No id is
 * stale. */
void tps_step_rows_set_bags (TpsStepRows *rows, const TpsStepBags *bags);

/* Marks the ids among ids[n], which must be ascending and different, as stale. */
void tps_step_rows_mark_stale (TpsStepRows *rows, const gint64 *ids, gsize n);

/* Take the values of rows. tps_step_rows_take_all() takes the rows of all different ids, [n_groups,
 * dim]. tps_step_rows_take_stale() takes the rows of the stale ids, [n_stale, dim]; afterwards no
 * id is stale. The values stay borrowed until the next tps_step_rows_pool() has returned. */
void tps_step_rows_take_all (TpsStepRows *rows, const gfloat *values);
void tps_step_rows_take_stale (TpsStepRows *rows, const gfloat *values);

/* Adds up the rows of each bag, in the order of its ids; an empty bag gives zeros. The results have
 * the same bits as a lookup of the bags with TPS_POOLING_SUM. */
void tps_step_rows_pool (const TpsStepRows *rows, TpsStepVectors vectors);

/* Adds up the gradients of the pooled vectors by id, into rows->sums. The sums have the same bits
 * as those that a push of the bags computes for each row. */
void tps_step_rows_add_up (TpsStepRows *rows, TpsStepVectors gradients);
