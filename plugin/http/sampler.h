/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data of events: numbers of the time since the event before. Thread: one at a time. */

#pragma once

#include "plugin/http/reports.h"

G_BEGIN_DECLS

typedef struct TpsSampler TpsSampler;

/* `reports` is borrowed. */
TpsSampler *tps_sampler_new (const TpsReports *reports);
void tps_sampler_free (TpsSampler *sampler);

/* The data of "hello"; owned by the caller. */
GString *tps_sampler_greet (TpsSampler *sampler);

/* The first sample counts from now on. */
void tps_sampler_begin (TpsSampler *sampler, gint64 now_ns);

/* The data of "sample", and the beginning of the next one; owned by the caller. */
GString *tps_sampler_take (TpsSampler *sampler, gint64 now_ns);

G_END_DECLS
