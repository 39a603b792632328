/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Other systems that train the same samples, with a process for each trainer: PyTorch
 * (../peers/pytorch_dlrm.py) and TorchRec (../peers/torchrec_dlrm.py). */

#pragma once

#include "bench/dlrm/options.h"
#include "bench/dlrm/system.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;     /* "pytorch"; static */
  const gchar *title;    /* of its column of ratios; static */
  TpsDlrmSystem *system; /* NULL = left out */
  gchar *version;        /* "torch 2.14.1"; NULL = left out */
  gchar *reason;         /* why it is left out; else NULL */
} TpsDlrmPeer;

/* Creates an empty array of TpsDlrmPeer. The array owns its elements; the caller owns the array. */
GPtrArray *tps_dlrm_peers_new (void);

/* Writes the samples of all steps to a file in `folder`, starts the peers that --peer names, and
 * adds them to `peers`. A peer that cannot run here is added with its reason. Errors: those of the
 * file system, and those of a peer that has started and then failed. */
gboolean tps_dlrm_peers_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor,
                               const gchar *folder, GPtrArray *peers, GError **error);

G_END_DECLS
