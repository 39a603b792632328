/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The service Transfer of bench/peers/transfer.thrift, as plugin/wire describes methods. */

#pragma once

#include "bench/transfer/system/row.h"
#include "plugin/client/client.h"

G_BEGIN_DECLS

/* By TpsTransferOp: push is TpsTensor, pull gint64 -> TpsTensor, echo TpsTensor -> TpsTensor. */
extern const TpsRpc tps_transfer_rpcs[];

G_END_DECLS
