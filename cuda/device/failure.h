/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How far the damage of an error of CUDA goes. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

G_BEGIN_DECLS

/* Whether the device goes on after it: the call was refused, or there was no memory. Anything else,
 * and anything unknown, leaves the process's context on that device broken for good. */
gboolean tps_cuda_failure_is_passing (cudaError_t code);

G_END_DECLS
