/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The options of the program and where their values come from, as the HTTP path /flags shows
 * them. */

#pragma once

#include "plugin/app/flags.h"
#include "plugin/http/http_endpoint.h"

G_BEGIN_DECLS

/* The answer in JSON, owned by the caller. Values of options that are secrets are left out. */
GString *tps_flags_report_new (const TpsServerFlags *flags);

/* The handler of the path; `flags` are the TpsServerFlags. */
void tps_flags_report_serve (TpsHttpRequest *request, gpointer flags);

G_END_DECLS
