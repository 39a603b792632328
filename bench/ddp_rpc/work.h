/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the roles of the DDP + RPC benchmark do. */

#pragma once

#include "bench/ddp_rpc/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

/* Its user_data is `options`, which are parsed. */
TpsProgram tps_ddp_rpc_get_program (const TpsDdpRpcOptions *options);

G_END_DECLS
