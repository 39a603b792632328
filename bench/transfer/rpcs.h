/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The service Transfer of bench/peers/transfer.thrift, in the form in which plugin/wire describes
 * methods. */

#pragma once

#include "bench/transfer/system/row.h"
#include "plugin/client/client.h"

G_BEGIN_DECLS

/* The methods, indexed by TpsTransferOp. Arguments and results: push has a TpsTensor and no result,
 * pull a gint64 and a TpsTensor, echo a TpsTensor and a TpsTensor. */
extern const TpsRpc tps_transfer_rpcs[];

G_END_DECLS
