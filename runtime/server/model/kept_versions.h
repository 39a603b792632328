/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The versions of a model that trainers may ask for again: of each trainer the one that its last
 * update was answered with, of those the newest TPS_MAX_KEPT_VERSIONS.
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
  guint n_trainers; /* whose last answer it is */
} TpsKeptVersion;

typedef struct
{
  gint64 *last_answers; /* [n_trainers]; 0 = none */
  guint n_kept;
  TpsKeptVersion kept[TPS_MAX_KEPT_VERSIONS + 1]; /* oldest first */
} TpsKeptVersions;

void tps_kept_versions_init (TpsKeptVersions *versions, guint n_trainers);
void tps_kept_versions_clear (TpsKeptVersions *versions);

/* `model`, newer than all, was the answer to `trainers` [n], each once. What nobody may ask for any
 * more goes to `dropped`, for the caller to release (large memory: not under a lock). */
void tps_kept_versions_add (TpsKeptVersions *versions, TpsModelVersion *model,
                            const gint32 *trainers, guint n_trainers, GPtrArray *dropped);

/* Forgets all. */
void tps_kept_versions_reset (TpsKeptVersions *versions, guint n_trainers, GPtrArray *dropped);

/* Borrowed; NULL = not kept. */
TpsModelVersion *tps_kept_versions_find (const TpsKeptVersions *versions, gint64 version);

G_END_DECLS
