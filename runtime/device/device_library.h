/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Devices that come in a library of their own, loaded when they are first asked for:
 * libtps_cuda.so, where it and a driver are found. So one program runs everywhere; what it found,
 * or why it found nothing, is one line for the log.
 *
 * The library exports one symbol, a TpsDeviceLibrary. It is built from the same source as the
 * program: version, ABI number and the size of the table of operations must be equal, else it is
 * refused.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

#define TPS_DEVICE_LIBRARY_SYMBOL "tps_device_library"
/* Goes up with every change of TpsDeviceLibrary. */
#define TPS_DEVICE_LIBRARY_ABI 1

typedef struct
{
  guint32 abi;          /* TPS_DEVICE_LIBRARY_ABI; first in every version */
  guint32 ops_bytes;    /* sizeof (TpsDeviceOps) */
  const gchar *version; /* TPS_VERSION */

  /* Called once, with a driver that answers. Appends the usable devices, which live as long as the
   * process, to `devices`, and for each a few words ("cuda:0 NVIDIA H200, 139 GiB") to `words`
   * (separated by "; "). FALSE: none, and why. */
  gboolean (*open) (GPtrArray *devices, GString *words, GError **error);

  /* Another interface of the library by its name, or NULL: what is not about one device. Static. */
  gconstpointer (*find_interface) (const gchar *name);
} TpsDeviceLibrary;

/* What to load; all borrowed. */
typedef struct
{
  const gchar *driver; /* as dlopen() takes it */
  /* Paths or names, tried in order until one can be loaded; NULL-terminated. Empty: devices of
   * libraries are turned off. */
  const gchar *const *libraries;
} TpsDeviceLibraryPaths;

typedef struct
{
  const TpsDeviceLibrary *library; /* NULL: not usable */
  GPtrArray *devices;              /* of TpsDevice, borrowed for ever; maybe empty */
  /* one line: "cuda: cuda:0 NVIDIA H200, 139 GiB" or "cuda: none: no driver (libcuda.so.1: …)" */
  gchar *summary;
} TpsLoadedLibrary;

/* Never fails: where there is nothing, `summary` says why. Libraries stay loaded for ever. */
void tps_device_library_load (TpsLoadedLibrary *loaded, const TpsDeviceLibraryPaths *paths);
/* Not the library and its devices. */
void tps_loaded_library_clear (TpsLoadedLibrary *loaded);

/* The process's own, loaded at the first call: libcuda.so.1, and libtps_cuda.so at
 * $THRIFTPS_CUDA_LIBRARY ("none": not at all) or at the places of tps_module_list_paths(). Borrowed
 * for ever. Processes that fork must not call this before. Thread: any. */
const TpsLoadedLibrary *tps_device_library_get (void);

G_END_DECLS
