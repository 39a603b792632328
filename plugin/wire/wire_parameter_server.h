/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/parameter_server.thrift: the methods as TpsRpcs (rpc.h), with their arguments and results.
 * Ownership is as in wire_tensor.h. */

#pragma once

#include "plugin/wire/rpc.h"
#include "plugin/wire/wire_tensor.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 trainer;
  gint64 batch;
  gint32 param_loc;
  TpsGradient gradient;
} TpsAverageGradientArguments;

typedef struct
{
  guint n_parameters;
  TpsNamedTensor *parameters;
  TpsOptimizerSpec optimizer;
} TpsInitModelArguments;

typedef struct
{
  gint32 trainer;
  TpsTensorList gradients;
  TpsPushId push; /* client NULL = no push id */
  gint64 version;
} TpsUpdateModelArguments;

/* Free the members. */
void tps_average_gradient_arguments_clear (TpsAverageGradientArguments *arguments);
void tps_init_model_arguments_clear (TpsInitModelArguments *arguments);
void tps_update_model_arguments_clear (TpsUpdateModelArguments *arguments);

extern const TpsRpc tps_average_gradient_rpc; /* TpsAverageGradientArguments -> TpsGradient */
extern const TpsRpc tps_reset_state_rpc;
extern const TpsRpc tps_init_model_rpc; /* TpsInitModelArguments */
extern const TpsRpc tps_get_model_rpc;  /* -> TpsModelVersion * */
/* TpsUpdateModelArguments -> TpsModelVersion * */
extern const TpsRpc tps_update_and_fetch_model_rpc;

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsAverageGradientArguments, tps_average_gradient_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsInitModelArguments, tps_init_model_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsUpdateModelArguments, tps_update_model_arguments_clear)

G_END_DECLS
