/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the roles of the DDP + RPC benchmark do. */

#pragma once

#include "bench/ddp_rpc/growth.h"
#include "bench/ddp_rpc/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDdpRpcOptions options;
  TpsGrowth growth; /* with --growth */
  guint n_passes;   /* begun, the warm-up included */
} TpsDdpRpcWork;

void tps_ddp_rpc_work_clear (TpsDdpRpcWork *work);

/* Its options are parsed; it is the program's user_data. */
TpsProgram tps_ddp_rpc_get_program (const TpsDdpRpcWork *work);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDdpRpcWork, tps_ddp_rpc_work_clear)

G_END_DECLS
