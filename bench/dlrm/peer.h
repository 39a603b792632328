/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Peers that train the same samples, with a process for each trainer: PyTorch
 * (../peers/pytorch_dlrm.py) and TorchRec (../peers/torchrec_dlrm.py). */

#pragma once

#include "bench/dlrm/options.h"
#include "bench/dlrm/system.h"

G_BEGIN_DECLS

/* A peer; the strings are owned unless stated otherwise. */
typedef struct
{
  const gchar *name;     /* "pytorch"; static */
  const gchar *title;    /* of the column of ratios; static */
  TpsDlrmSystem *system; /* NULL = left out */
  gchar *version;        /* such as "torch 2.14.1"; NULL = left out */
  gchar *reason;         /* why the peer is left out; NULL = takes part */
} TpsDlrmPeer;

/* Creates an empty array of TpsDlrmPeer. The array owns its elements, and the caller owns the
 * array. */
GPtrArray *tps_dlrm_peers_new (void);

/* Writes the samples of all steps to a file in `folder`, starts the peers that --peer names, and
 * adds them to `peers`. A peer that cannot run on this machine is added with the reason. Blocks.
 * Errors: those of the file system, and those of a peer that fails after its start. */
gboolean tps_dlrm_peers_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor,
                               const gchar *folder, GPtrArray *peers, GError **error);

G_END_DECLS
