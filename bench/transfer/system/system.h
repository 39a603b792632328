/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One system under test: a server process and a load generator, over one kind of socket. Scripts
 * stand still while others are measured: TensorPipe polls without rest. */

#pragma once

#include "bench/process/child.h"
#include "bench/transfer/system/row.h"

G_BEGIN_DECLS

/* How it is started; everything static. */
typedef struct
{
  const gchar *name;    /* "thriftps", "raw", "libthrift TThreaded" */
  const gchar *version; /* for reports */
  const gchar
      *transport;       /* "tcp"; "unix"; "shm": a Unix socket with shared memory, or none at all */
  const gchar *program; /* named from the repository's root; NULL = this program */
  const gchar *script;  /* the program is a Python script; "program" is not used */
  const gchar *kind;    /* passed on: --serve=KIND, --load=KIND */
  gboolean has_no_server;
  gboolean takes_certificate; /* --certificate=FILE */
  gboolean is_one_way;        /* no echo */
  gboolean has_no_cpu;        /* of its own processes, which start others */
  gsize min_bytes;
  guint max_connections; /* 0 = any, here and below */
  guint max_in_flight;
  gsize max_bytes_in_flight; /* on a connection */
  gdouble call_us, gb_per_s; /* of one call and of large ones on a usual machine, for estimates */
} TpsTransferSystemSpec;

typedef struct TpsTransferSystem TpsTransferSystem;

/* The times of one run of a row. */
typedef struct
{
  gdouble seconds;
  GArray *ms;         /* of gdouble, one a call */
  gdouble client_cpu; /* seconds */
  gdouble server_cpu;
} TpsTransferTimes;

void tps_transfer_times_clear (TpsTransferTimes *times);

/* Options of the processes: a folder for Unix sockets, the file of a certificate and its key (NULL
 * = none), and the limit on the bytes in flight of a connection. */
typedef struct
{
  const gchar *socket_dir;
  const gchar *certificate;
  gsize max_bytes;
} TpsTransferSystemOptions;

/* `spec` is static; the others are borrowed and outlive it. */
TpsTransferSystem *tps_transfer_system_new (TpsSupervisor *supervisor,
                                            const TpsTransferSystemSpec *spec,
                                            const TpsTransferSystemOptions *options);

/* Starts its processes. Errors: TPS_ERROR_UNAVAILABLE naming the process that did not start. */
gboolean tps_transfer_system_start (TpsTransferSystem *system, GError **error);
void tps_transfer_system_free (TpsTransferSystem *system);

const TpsTransferSystemSpec *tps_transfer_system_get_spec (const TpsTransferSystem *system);

/* Where its server listens; borrowed; NULL where there is none. */
const gchar *tps_transfer_system_get_address (const TpsTransferSystem *system);

/* The process; NULL where there is none. Borrowed. */
const TpsChild *tps_transfer_system_get_server (const TpsTransferSystem *system);

/* Whether it can run such a row at all. */
gboolean tps_transfer_system_can_run (const TpsTransferSystem *system, const TpsTransferRow *row);

/* Makes calls whose answers' contents are compared; peers are not asked. Errors as below. */
gboolean tps_transfer_system_check (TpsTransferSystem *system, const TpsTransferRow *row,
                                    GError **error);

/* Errors: those of the load generator; TPS_ERROR_ABORTED if a process has ended, or if
 * interrupted. */
gboolean tps_transfer_system_run (TpsTransferSystem *system, const TpsTransferRow *row,
                                  TpsTransferTimes *times, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsTransferTimes, tps_transfer_times_clear)

G_END_DECLS
