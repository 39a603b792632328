/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A command: one request that changed lasting state, as it is recorded.
 *
 * The state of a server is a function of its commands in LSN order. A server that applies the
 * records of another one, one by one, has the same bits in every row, optimizer state and model. A
 * record therefore holds what the request said, and what was decided when the command took effect:
 * which rows were the maxima of MAX bags, which tables a failed device left without their step, and
 * whether the request was answered with an error.
 *
 * Everything in a record is borrowed. Values are read only.
 */

#pragma once

#include "runtime/base/durability.h"
#include "runtime/embedding/bag_query.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/push_window.h"
#include "runtime/tensor/model_version.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_COMMAND_CREATE_TABLE = 1,
  TPS_COMMAND_DROP_TABLE = 2,
  TPS_COMMAND_APPLY_ROWS = 3,
  TPS_COMMAND_APPLY_BAGS = 4,
  TPS_COMMAND_INIT_MODEL = 5,
  TPS_COMMAND_UPDATE_MODEL = 6,
  TPS_COMMAND_RESET_MODEL = 7,
  TPS_COMMAND_ASSIGN_ROWS = 8,
} TpsCommandKind;

/* The push id of a command, or of a push that an update answers. */
typedef struct
{
  const gchar *client; /* NULL: the push has no id; the rest is not set then */
  gint64 sequence;
  TpsPushDigest digest;
} TpsCommandId;

/* What a command changed in one of the tables that it names. */
typedef struct
{
  const gchar *name;
  gint64 incarnation; /* the LSN of the command that created the table */
  /* its device failed before the step: the rows and the number of steps are as before */
  gboolean is_skipped;
} TpsCommandTable;

typedef struct
{
  TpsTensorView indices; /* INT64 [n] */
  TpsTensorView values;  /* [n, dim] */
  gint64 as_of_lsn;      /* ASSIGN_ROWS: rows that have changed since are left; 0 = none are */
} TpsCommandRows;

typedef struct
{
  guint n_gradients;
  const TpsBagGradient *gradients;
  /* [n_gradients]: for each MAX gradient the slots of the rows that were the maxima, INT64 [bags,
   * dim], -1 for an empty bag; NULL for the others. The array is NULL where no gradient is MAX. */
  const gint64 *const *maxima;
} TpsCommandBags;

typedef struct
{
  guint n_parameters;
  const TpsNamedTensor *parameters;
  const TpsOptimizerSpec *optimizer;
} TpsCommandModel;

/* One trainer's part of an update. */
typedef struct
{
  gint32 trainer;
  const TpsTensor *gradients; /* one for each parameter */
} TpsCommandContribution;

typedef struct
{
  guint n_contributions;
  guint n_parameters;                          /* of the model: gradients of each contribution */
  const TpsCommandContribution *contributions; /* in the order in which they were added up */
  guint n_ids;
  const TpsCommandId *ids; /* of the pushes that the update answers */
} TpsCommandUpdate;

typedef struct
{
  gint64 lsn; /* from 1, without gaps */
  TpsCommandKind kind;
  TpsCommandId id;
  /* the request was answered with an error: its push id is as if it had never been used */
  gboolean has_failed;
  /* the strongest of the tables that it changes; 0 = the server's. Not part of the record */
  TpsDurability durability;
  guint n_tables;
  const TpsCommandTable *tables; /* those whose rows it changes, each once */
  union
  {
    const TpsTableSpec *create; /* resolved */
    const gchar *drop;
    TpsCommandRows rows; /* APPLY_ROWS, ASSIGN_ROWS: of tables[0] */
    TpsCommandBags bags;
    TpsCommandModel model;
    TpsCommandUpdate update;
  };
} TpsCommand;

G_END_DECLS
