/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The options of the program with the origins of their values: the HTTP path /flags. */

#pragma once

#include "plugin/app/flags.h"
#include "plugin/http/http_endpoint.h"

G_BEGIN_DECLS

/* Returns the reply in JSON, which the caller owns. Values of secret options are left out. */
GString *tps_flags_report_new (const TpsServerFlags *flags);

/* The handler of the path: replies to `request` with the report. `flags` are the TpsServerFlags,
 * borrowed. */
void tps_flags_report_serve (TpsHttpRequest *request, gpointer flags);

G_END_DECLS
