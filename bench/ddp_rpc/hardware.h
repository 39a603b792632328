/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The hardware of this machine as reported by its kernel. Anything that the kernel does not report
 * is left out; no function here fails. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns lines "* CPU: …", "* NUMA node 0: …", "* GPU 0000:01:00.0: …" (with the GPU's NUMA node)
 * or "* GPUs: none". `root` is the parent of /sys and /proc: "/". Owned by the caller. */
gchar *tps_hardware_describe (const gchar *root);

/* Returns the output of `nvidia-smi topo -m` under a title; "" without this program or a driver.
 * Blocks for at most 10 seconds. Owned by the caller. */
gchar *tps_hardware_get_gpu_topology (void);

/* Returns the version of CUDA that the driver supports, from nvidia-smi; "none" without either.
 * Owned by the caller. */
gchar *tps_hardware_get_cuda_version (void);

/* Finds the version in the output of nvidia-smi; NULL if there is none. Owned by the caller. */
gchar *tps_hardware_find_cuda_version (const gchar *output);

G_END_DECLS
