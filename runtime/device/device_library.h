/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Devices in a shared library: libtps_cuda.so, loaded by the first search for a device other than
 * the CPU, if the library and a driver are installed. The result is one line for the log. The
 * library exports one symbol, a TpsDeviceLibrary, whose version, ABI number and size of the table
 * of operations must equal the program's. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

#define TPS_DEVICE_LIBRARY_SYMBOL "tps_device_library"
/* Must be increased with every change of TpsDeviceLibrary, of a function's type in its tables, or
 * of the tables of its interfaces (TpsDenseOps, TpsDeviceGroups, TpsProcessGroupOps). */
#define TPS_DEVICE_LIBRARY_ABI 4

typedef struct
{
  guint32 abi;          /* TPS_DEVICE_LIBRARY_ABI; first in every version */
  guint32 ops_bytes;    /* sizeof (TpsDeviceOps) */
  const gchar *version; /* TPS_VERSION */

  /* Appends the usable devices, which live as long as the process, and to `words` a description of
   * each ("cuda:0 NVIDIA H200, 139 GiB"), separated by "; ". FALSE with an error if there are none.
   * Called once, after the driver was initialised. */
  gboolean (*open) (GPtrArray *devices, GString *words, GError **error);

  /* Returns a further interface of the library by name, for functions that do not belong to one
   * device, or NULL if the name is unknown. Static. */
  gconstpointer (*find_interface) (const gchar *name);
} TpsDeviceLibrary;

/* The files to load. All members are borrowed. */
typedef struct
{
  const gchar *driver; /* as for dlopen() */
  /* A NULL-terminated list of paths or names, tried in order until one can be loaded. An empty list
   * disables devices from libraries. */
  const gchar *const *libraries;
} TpsDeviceLibraryPaths;

typedef struct
{
  const TpsDeviceLibrary *library; /* NULL: not usable */
  /* of TpsDevice; they live as long as the process; may be empty */
  GPtrArray *devices;
  /* one line: "cuda: cuda:0 NVIDIA H200, 139 GiB" or "cuda: none: no driver (libcuda.so.1: …)" */
  gchar *summary;
} TpsLoadedLibrary;

/* Loads the library; never fails. If there are no devices, `summary` gives the reason. Libraries
 * are never unloaded. */
void tps_device_library_load (TpsLoadedLibrary *loaded, const TpsDeviceLibraryPaths *paths);
/* Returns the library of the process, which the first call loads: libcuda.so.1, and libtps_cuda.so
 * from $THRIFTPS_CUDA_LIBRARY ("none" disables it) or tps_module_list_paths(). Borrowed for ever.
 * Must not be called before fork(). Thread: any. */
const TpsLoadedLibrary *tps_device_library_get (void);

G_END_DECLS
