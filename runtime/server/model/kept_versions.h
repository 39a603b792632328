/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The versions of a model that trainers may request again. For each trainer this is the answer to
 * its last update; of these the newest TPS_MAX_KEPT_VERSIONS are kept.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

#define TPS_MAX_KEPT_VERSIONS 8

typedef struct
{
  TpsModelVersion *model;
  guint n_trainers; /* the number of trainers with this version as their last answer */
} TpsKeptVersion;

typedef struct
{
  gint64 *last_answers; /* [n_trainers]; 0 = none */
  guint n_kept;
  TpsKeptVersion kept[TPS_MAX_KEPT_VERSIONS + 1]; /* oldest first */
} TpsKeptVersions;

/* Nothing is kept at first. clear() releases all versions. */
void tps_kept_versions_init (TpsKeptVersions *versions, guint n_trainers);
void tps_kept_versions_clear (TpsKeptVersions *versions);

/* `model`, newer than all others, was the answer to `trainers` [n], each once. Versions that no
 * trainer may request any more are moved to `dropped`. The caller must release them without a lock,
 * since they may be large. */
void tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model,
                            const gint32 *trainers, guint n_trainers, GPtrArray *dropped);

/* Forgets all. */
void tps_kept_versions_reset (TpsKeptVersions *versions, guint n_trainers, GPtrArray *dropped);

/* Borrowed; NULL = not kept. */
TpsModelVersion *tps_kept_versions_find (const TpsKeptVersions *versions, gint64 version);

G_END_DECLS
