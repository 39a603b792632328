/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:tenants. */

#pragma once

#include "bench/process/flags.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. */
typedef struct
{
  TpsRunFlags run;
  gint64 n_ids, n_calls, limit;
  gint n_clients;
} TpsTenantsOptions;

/* Parses `argv`, sets defaults and checks the values. Errors: INVALID_ARGUMENT. */
gboolean tps_tenants_options_parse (TpsTenantsOptions *options, gint argc, gchar **argv,
                                    GError **error);
/* Frees the strings. */
void tps_tenants_options_clear (TpsTenantsOptions *options);

/* Returns a line "name=value" for each flag. The caller owns the result. */
GPtrArray *tps_tenants_options_describe (const TpsTenantsOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTenantsOptions, tps_tenants_options_clear)

G_END_DECLS
