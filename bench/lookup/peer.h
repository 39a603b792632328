/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The peers: processes of PyTorch and FBGEMM with the same ids (../peers/embedding_work.py). */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/lookup/bags.h"
#include "bench/process/child.h"

/* The peers. */
typedef enum
{
  TPS_LOOKUP_PYTORCH, /* EmbeddingBag, with sparse gradients and their optimizers */
  TPS_LOOKUP_FBGEMM,  /* table batched embeddings (TBE), with fused optimizers */
} TpsLookupPeerKind;
#define TPS_LOOKUP_N_PEERS 2

/* A peer. Strings are owned unless they are static. */
typedef struct
{
  const gchar *name;  /* "pytorch"; static */
  const gchar *title; /* of the column of ratios; static */
  const TpsLookupBags *bags;
  TpsChild *child; /* NULL = there is no peer */
  gchar *version;  /* such as "torch 2.14.1" */
  gchar *reason;   /* why there is no peer; NULL = there is one */
} TpsLookupPeer;

/* Starts the peer. `bags` is borrowed. If one of the peer's libraries is missing, the call succeeds
 * with `reason` and without a child. The caller must clear `peer`, after an error, too. Blocks.
 * Errors: UNAVAILABLE, and those of files. */
gboolean tps_lookup_peer_start (TpsLookupPeer *peer, TpsLookupPeerKind kind,
                                const TpsLookupBags *bags, TpsBenchRun *run, GError **error);
void tps_lookup_peer_clear (TpsLookupPeer *peer);

/* The work of tps_lookup_peer_run(). */
typedef struct
{
  const gchar *name; /* "lookup", or an optimizer such as "adagrad" */
  guint n_threads;
  gsize first, n_batches; /* number of the first batch, and of batches */
} TpsLookupPeerWork;

/* Runs batches. Returns their duration in seconds; -1 with an error. `*checksum` receives the
 * peer's checksum. Blocks. Errors: those of tps_child_ask(); INTERNAL. */
gdouble tps_lookup_peer_run (const TpsLookupPeer *peer, const TpsLookupPeerWork *work,
                             gdouble *checksum, GError **error);
