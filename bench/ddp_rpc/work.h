/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the benchmark ddp_rpc. */

#pragma once

#include "bench/ddp_rpc/growth.h"
#include "bench/ddp_rpc/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

/* The options of a run and its state. */
typedef struct
{
  TpsDdpRpcOptions options;
  TpsGrowth growth; /* with --growth */
  guint n_passes;   /* passes that have begun, with the warm-up */
} TpsDdpRpcWork;

/* Frees the contents of `work`. */
void tps_ddp_rpc_work_clear (TpsDdpRpcWork *work);

/* Returns a program whose `user_data` must be `work`. The options must have been parsed. */
TpsProgram tps_ddp_rpc_get_program (const TpsDdpRpcWork *work);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDdpRpcWork, tps_ddp_rpc_work_clear)

G_END_DECLS
