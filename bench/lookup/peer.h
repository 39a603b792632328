/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The peers: PyTorch and FBGEMM, each in a process of its own, on the ids of the bags
 * (../peers/embedding_work.py). */

#pragma once

#include "bench/engine/benchmark.h"
#include "bench/lookup/bags.h"
#include "bench/process/child.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_LOOKUP_PYTORCH, /* EmbeddingBag, with sparse gradients and their optimizers */
  TPS_LOOKUP_FBGEMM,  /* table batched embeddings (TBE), with fused optimizers */
} TpsLookupPeerKind;
#define TPS_LOOKUP_N_PEERS 2

typedef struct
{
  const gchar *name;  /* "pytorch"; static */
  const gchar *title; /* of the column of ratios; static */
  const TpsLookupBags *bags;
  TpsChild *child; /* NULL: there is no peer */
  gchar *version;  /* "torch 2.14.1" */
  gchar *reason;   /* why there is no peer */
} TpsLookupPeer;

/* Starts the peer, which uses the ids of `bags`, borrowed. If a library of the peer is missing,
 * this succeeds with `reason` set and no child. `peer` must be cleared in any case. */
gboolean tps_lookup_peer_start (TpsLookupPeer *peer, TpsLookupPeerKind kind,
                                const TpsLookupBags *bags, TpsBenchRun *run, GError **error);
void tps_lookup_peer_clear (TpsLookupPeer *peer);

/* The work of tps_lookup_peer_run(). */
typedef struct
{
  const gchar *name; /* "lookup", or an optimizer: "adagrad" */
  guint n_threads;
  gsize first, n_batches;
} TpsLookupPeerWork;

/* Returns the duration of the work in seconds, or -1 with an error. `checksum` receives the peer's
 * checksum. Blocks. */
gdouble tps_lookup_peer_run (const TpsLookupPeer *peer, const TpsLookupPeerWork *work,
                             gdouble *checksum, GError **error);

G_END_DECLS
