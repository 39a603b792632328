/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A command: the record of one request that changed lasting state. The state of a server is a
 * function of its commands in LSN order, to the bit. A record therefore holds the request and the
 * decisions that were made when it took effect: the tables whose step was skipped because their
 * device had failed, and whether it was answered with an error. Everything in it is borrowed and
 * read-only. */

#pragma once

#include "runtime/base/durability.h"
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

/* The moment of a record; 0 = unknown. The epoch is never lower than in the record before, and the
 * time only if that record has no epoch. */
typedef struct
{
  guint32 epoch;  /* of the data directory: see runtime/server/durable/FORMAT.md */
  gint64 time_ms; /* since 1970 in UTC, by the clock of the server */
} TpsMoment;

/* The push id of a command, or of a push that an update answers. */
typedef struct
{
  const gchar *client; /* NULL: the push has no id, and the other fields are not set */
  gint64 sequence;
  TpsPushDigest digest;
  const gchar *tenant; /* of the caller; NULL = none */
} TpsCommandId;

/* The effect of a command on one of the tables that it names. */
typedef struct
{
  const gchar *name;
  gint64 incarnation; /* the LSN of the command that created the table */
  /* the device of the table failed before the step: its rows and number of steps are unchanged */
  gboolean is_skipped;
} TpsCommandTable;

typedef struct
{
  TpsTensorView indices; /* INT64 [n] */
  TpsTensorView values;  /* [n, dim] */
  /* ASSIGN_ROWS: rows that have changed after this LSN are not assigned; 0 = all are assigned */
  gint64 as_of_lsn;
} TpsCommandRows;

typedef struct
{
  guint n_gradients;
  const TpsBagGradient *gradients;
} TpsCommandBags;

typedef struct
{
  guint n_parameters;
  const TpsNamedTensor *parameters;
  const TpsOptimizerSpec *optimizer;
} TpsCommandModel;

/* The contribution of one trainer to an update. */
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
  gint64 lsn;       /* from 1, without gaps */
  TpsMoment moment; /* of the record. The state does not depend on it */
  TpsCommandKind kind;
  TpsCommandId id;
  /* The request was answered with an error. Its push id counts as unused, unless a table has taken
   * its step. */
  gboolean has_failed;
  /* The strongest durability of the tables that the command changes; 0 = the server's durability.
   * Not part of the record. */
  TpsDurability durability;
  guint n_tables;
  const TpsCommandTable *tables; /* the tables whose rows the command changes, each once */
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
