/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The hardware of this machine as its kernel reports it. What the kernel does not report is left
 * out; no function here fails. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Lines "* CPU: …", "* NUMA node 0: …", "* GPU 0000:01:00.0: …" (its NUMA node says what it is near
 * to) or "* GPUs: none". `root` is where /sys and /proc are looked for: "/". Owned. */
gchar *tps_hardware_describe (const gchar *root);

/* What `nvidia-smi topo -m` says, under a title; "" where there is no such program or no driver.
 * Blocks for at most 10 seconds. Owned. */
gchar *tps_hardware_ask_gpu_topology (void);

/* The version of CUDA that the driver supports, as nvidia-smi says it; "none" without either.
 * Owned. */
gchar *tps_hardware_ask_cuda_version (void);

/* The version in the output of nvidia-smi, or NULL. Owned. */
gchar *tps_hardware_find_cuda_version (const gchar *output);

G_END_DECLS
