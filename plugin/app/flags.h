/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The options of thriftps_server, and of programs that add a service to it. Each is a row of a
 * table (runtime/base/options.h). */

#pragma once

#include "plugin/plugin.h"
#include "plugin/tracing/tracer.h"
#include "runtime/base/options.h"

typedef enum
{
  TPS_TLS_OFF,
  TPS_TLS_ALLOWED,
  TPS_TLS_REQUIRED,
} TpsTlsMode;

typedef enum
{
  TPS_LOG_AUTO, /* TPS_LOG_JOURNAL if stderr is connected to the journal, otherwise TPS_LOG_TEXT */
  TPS_LOG_TEXT,
  TPS_LOG_JSON,
  TPS_LOG_JOURNAL,
} TpsLogFormat;

typedef struct
{
  GStrv listen;   /* at least one */
  GStrv services; /* of the plugin: known names without duplicates; always includes Node */
  gboolean serves_addition; /* the service that the program adds, see thriftps_server.h */
  gchar *device;            /* adds up gradients: "cpu", "cuda:0"; its existence is not checked */
  gchar *config;
  TpsArguments *arguments; /* as they were given; owned */
  TpsTlsMode tls;
  TpsTlsOptions tls_files;          /* its strings are owned by the flags */
  gboolean allow_plain_collectives; /* even with --tls=required */
  TpsAccessOptions access;          /* its strings are owned by the flags */
  gboolean insecure;
  gchar *make_token; /* NAME or NAME,TENANT: print a token and exit; NULL = no */
  GStrv http;        /* addresses of the HTTP server; NULL = there is none */
  GStrv http_names;  /* additional names that the Host header may contain; NULL = none */
  GStrv faults;      /* valid specifications of faults (runtime/base/fault.h); NULL = none */
  gboolean enable_faults;
  TpsTracerOptions tracing;
  gchar *otlp;      /* endpoint of a collector; NULL = none */
  gchar *log_level; /* valid levels in the format of tps_trace_set_levels() */
  TpsLogFormat log_format;
  gchar *log_file;        /* NULL = stderr */
  gboolean help;          /* print the help and exit */
  gboolean help_markdown; /* print the help in Markdown and exit */
  gboolean tuning;        /* print the list of tuning_list.h and exit */
  gboolean version;       /* print the version and exit */
  /* Strings are owned by the flags. */
  TpsPluginOptions plugin;
  TpsServerOptions server;
} TpsServerFlags;

/* Parses the options in `argv`, as the argument of main(), and in the file of --config. `addition`
 * is the name of the service that the program adds, or NULL. With --help, only `help` and
 * `arguments` are set. Sets `flags` on success only; the caller must clear them. Errors:
 * INVALID_ARGUMENT, one line. */
gboolean tps_server_flags_parse (const gchar *const *argv, const gchar *addition,
                                 TpsServerFlags *flags, GError **error);
/* Returns TRUE if a server with these flags may listen on `addresses`, ended by NULL. Errors:
 * INVALID_ARGUMENT if other hosts can reach an address, and there are no rules, or tokens may
 * travel unencrypted. The options --insecure and --make-token disable this check. */
gboolean tps_server_flags_check_exposure (const TpsServerFlags *flags,
                                          const gchar *const *addresses, GError **error);
void tps_server_flags_clear (TpsServerFlags *flags);

/* Returns the table of all options, ended by a NULL name; static. */
const TpsOption *tps_server_flags_get_options (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsServerFlags, tps_server_flags_clear)
