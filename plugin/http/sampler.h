/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data of server-sent events: counts since the previous event. Thread: one at a time. */

#pragma once

#include "plugin/http/reports.h"

G_BEGIN_DECLS

typedef struct TpsSampler TpsSampler;

/* Creates a sampler, which the caller owns. `reports` is borrowed. */
TpsSampler *tps_sampler_new (const TpsReports *reports);
void tps_sampler_free (TpsSampler *sampler);

/* Returns the data of the event "hello". The caller owns it. */
GString *tps_sampler_greet (TpsSampler *sampler);

/* Begins an interval: the next sample counts from `now_ns`. */
void tps_sampler_begin (TpsSampler *sampler, gint64 now_ns);

/* Returns the data of the event "sample", and begins the next interval. The caller owns the
 * data. */
GString *tps_sampler_take (TpsSampler *sampler, gint64 now_ns);

G_END_DECLS
