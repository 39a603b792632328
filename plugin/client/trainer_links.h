/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How a trainer reaches the parameter servers, the embedding tables and the rendezvous of its plan: over Thrift. */

#pragma once

#include "runtime/trainer/pass/trainer.h"

G_BEGIN_DECLS

/* `master` (borrowed, may be NULL) is the rendezvous of plans that name none. */
TpsTrainerLinks tps_trainer_links (const gchar *master);

G_END_DECLS
