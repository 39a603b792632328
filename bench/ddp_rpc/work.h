/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the DDP + RPC benchmark. */

#pragma once

#include "bench/ddp_rpc/growth.h"
#include "bench/ddp_rpc/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDdpRpcOptions options;
  TpsGrowth growth; /* with --growth */
  guint n_passes;   /* passes begun, including the warm-up */
} TpsDdpRpcWork;

void tps_ddp_rpc_work_clear (TpsDdpRpcWork *work);

/* Returns a program whose user_data is `work`. The options must be parsed. */
TpsProgram tps_ddp_rpc_get_program (const TpsDdpRpcWork *work);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDdpRpcWork, tps_ddp_rpc_work_clear)

G_END_DECLS
