/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The versions of a model that trainers may request again. A trainer may request the version that
 * was the answer to its last update. Of these versions, the newest TPS_MAX_KEPT_VERSIONS are kept.
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
  guint n_trainers; /* trainers whose last answer was this version */
} TpsKeptVersion;

typedef struct
{
  gint64 *last_answers; /* [n_trainers]; 0 = none */
  guint n_kept;
  TpsKeptVersion kept[TPS_MAX_KEPT_VERSIONS + 1]; /* oldest first */
} TpsKeptVersions;

/* Initialise and clear `versions` in the caller's storage. At first, no version is kept; clear()
 * releases all versions. */
void tps_kept_versions_init (TpsKeptVersions *versions, guint n_trainers);
void tps_kept_versions_clear (TpsKeptVersions *versions);

/* Adds `model` as the last answer to `trainers` [n_trainers]. `model`, to which a reference is
 * taken, must be newer than all kept versions; trainers must not repeat. Versions that no trainer
 * may request any more are moved to `dropped`. They may be large, so the caller should release them
 * without a lock. */
void tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model,
                            const gint32 *trainers, guint n_trainers, GPtrArray *dropped);

/* Moves all versions to `dropped` and forgets the last answers of all trainers. */
void tps_kept_versions_reset (TpsKeptVersions *versions, guint n_trainers, GPtrArray *dropped);

/* Returns the kept version with this number, or NULL if it is not kept. Borrowed. */
TpsModelVersion *tps_kept_versions_find (const TpsKeptVersions *versions, gint64 version);

G_END_DECLS
