/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A digest for comparing two models. Internal to this folder. */

#pragma once

#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

/* Computes the digest of the model's parameters, as tps_ddp_digest(). */
gboolean tps_parameters_digest (const TpsModel *model, guint8 digest[16], GError **error);

G_END_DECLS
