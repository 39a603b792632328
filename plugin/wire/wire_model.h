/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* thrift/parameter_server.thrift: arguments and results of the methods that train a model; functions named, and ownership
 * and errors as in wire_parameter_server.h.
 */

#pragma once

#include "plugin/wire/wire_tensor.h"
#include "runtime/tensor/model_version.h"

G_BEGIN_DECLS

/* -- init_model -- */

typedef struct
{
  guint n_parameters;
  TpsNamedTensor *parameters;
  TpsOptimizerSpec optimizer;
} TpsInitModelArguments;

gboolean tps_init_model_arguments_decode (TpsReader *in, TpsInitModelArguments *arguments,
                                          GError **error);
/* `data`: const TpsInitModelArguments *. */
void tps_init_model_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_init_model_arguments_clear (TpsInitModelArguments *arguments);

/* -- update_and_fetch_model -- */

typedef struct
{
  gint32 trainer;
  guint n_gradients;
  TpsTensor *gradients;
  TpsPushId push; /* client NULL = none */
  gint64 version;
} TpsUpdateModelArguments;

gboolean tps_update_model_arguments_decode (TpsReader *in, TpsUpdateModelArguments *arguments,
                                            GError **error);
/* `data`: const TpsUpdateModelArguments *. */
void tps_update_model_arguments_encode (TpsWriter *out, gconstpointer data);
void tps_update_model_arguments_clear (TpsUpdateModelArguments *arguments);

/* -- what get_model and update_and_fetch_model answer -- */

/* `data`: const TpsModelVersion *. */
void tps_model_result_encode (TpsWriter *out, gconstpointer data);

/* `target`: TpsModelVersion **, NULL before; the caller's. */
gboolean tps_model_result_decode (TpsReader *in, TpsWireType type, gpointer target, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsInitModelArguments, tps_init_model_arguments_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsUpdateModelArguments, tps_update_model_arguments_clear)

G_END_DECLS
