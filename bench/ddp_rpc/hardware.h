/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The hardware of this machine, as its kernel reports it. Functions leave out properties that the
 * kernel does not report; no function fails. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns lines "* CPU: …", "* NUMA node 0: …", and "* GPU 0000:01:00.0: …" with the NUMA node of
 * the GPU, or "* GPUs: none". `root` is the parent of /sys and /proc, usually "/". The caller owns
 * the result. */
gchar *tps_hardware_describe (const gchar *root);

/* Returns the output of `nvidia-smi topo -m` under a title; "" if there is no such program, or if
 * it fails. Blocks for at most 10 seconds. The caller owns the result. */
gchar *tps_hardware_get_gpu_topology (void);

/* Returns the CUDA version that the driver supports, from the output of nvidia-smi; "none" if there
 * is no such program, or if it fails. Blocks for at most 10 seconds. The caller owns the result. */
gchar *tps_hardware_get_cuda_version (void);

/* Finds the CUDA version in the output of nvidia-smi; NULL if there is none. The caller owns the
 * result. */
gchar *tps_hardware_find_cuda_version (const gchar *output);

G_END_DECLS
