/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The options of thriftps_server, one row of a table each (runtime/base/options.h). */

#pragma once

#include "plugin/plugin.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/options.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_TLS_OFF,
  TPS_TLS_ALLOWED,
  TPS_TLS_REQUIRED,
} TpsTlsMode;

typedef enum
{
  TPS_LOG_AUTO, /* the journal's if stderr is the journal, else text */
  TPS_LOG_TEXT,
  TPS_LOG_JSON,
  TPS_LOG_JOURNAL,
} TpsLogFormat;

typedef struct
{
  GStrv listen;   /* at least one */
  GStrv services; /* names, each known, none twice, Node always */
  gchar *device;  /* where gradients are added up: "cpu", "cuda:0"; not yet looked for */
  gchar *config;
  TpsArguments *arguments; /* as they were given; owned */
  TpsTlsMode tls;
  TpsTlsOptions tls_files;          /* its text is owned by the flags */
  gboolean allow_plain_collectives; /* although --tls=required */
  TpsAccessOptions access;          /* its text is owned by the flags */
  gboolean insecure;
  gchar *make_token; /* NAME or NAME,TENANT: asked to print one and end */
  gsize log_segment_bytes;
  GStrv http;       /* addresses of the HTTP server; NULL = there is none */
  GStrv http_names; /* that the header Host may have besides; NULL = none */
  GStrv faults;     /* specifications (runtime/base/fault.h), each checked; NULL = none */
  gboolean enable_faults;
  TpsTracerOptions tracing;
  gchar *otlp;      /* endpoint of a collector; NULL = none */
  gchar *log_level; /* as tps_trace_set_levels() reads it; checked */
  TpsLogFormat log_format;
  gchar *log_file; /* NULL = stderr */
  gboolean help;   /* asked to print it and end; so with the next three */
  gboolean help_markdown;
  gboolean tuning;
  gboolean version;
  /* Devices and links of the options are not filled in; texts are owned by the flags. */
  TpsPluginOptions plugin;
  TpsServerOptions server;
} TpsServerFlags;

/* `argv` as main() has it, ended by NULL; a --config file is read. `flags` is filled on success
 * only. Errors: INVALID_ARGUMENT, one line that names the option. */
gboolean tps_server_flags_parse (const gchar *const *argv, TpsServerFlags *flags, GError **error);
/* Whether a server of these flags may listen on `addresses`, ended by NULL. Errors:
 * INVALID_ARGUMENT for one that other hosts reach, without rules or with tokens that may travel
 * unencrypted. */
gboolean tps_server_flags_check_exposure (const TpsServerFlags *flags,
                                          const gchar *const *addresses, GError **error);
void tps_server_flags_clear (TpsServerFlags *flags);

/* The table, ended by a NULL name; for help. */
const TpsOption *tps_server_flags_get_options (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsServerFlags, tps_server_flags_clear)

G_END_DECLS
