/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The extent of the damage after a CUDA error. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

G_BEGIN_DECLS

/* Returns TRUE if the device is still usable after the error: the call was refused, or memory ran
 * out. Any other error, known or unknown, leaves the process's context on that device permanently
 * broken. */
gboolean tps_cuda_failure_is_passing (cudaError_t code);

G_END_DECLS
