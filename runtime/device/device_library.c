/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Loading has four steps: load the driver (first, since most machines have none), load the library,
 * initialise the driver, and list the devices of the library. The first step that fails writes the
 * summary and ends the sequence. */

#include "runtime/device/device_library.h"

#include <dlfcn.h>

#include "runtime/base/error.h"
#include "runtime/base/module.h"
#include "runtime/base/sync.h"

#define LIBRARY_NAME "libtps_cuda.so"
#define DRIVER_NAME "libcuda.so.1"

/* From the driver's interface: cuInit() and cuGetErrorString(). */
typedef int (*DriverInit) (unsigned int flags);
typedef int (*DriverErrorString) (int code, const char **text);

/* Writes the summary: "cuda: none: REASON", on one line. */
static void conclude_none (TpsLoadedLibrary *loaded, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

static void
conclude_none (TpsLoadedLibrary *loaded, const gchar *format, ...)
{
  va_list args;
  g_autofree gchar *why = NULL;

  va_start (args, format);
  why = g_strdup_vprintf (format, args);
  va_end (args);
  g_strdelimit (why, "\r\n", ' ');
  loaded->summary = g_strconcat ("cuda: none: ", why, NULL);
}

static void *
open_driver (TpsLoadedLibrary *loaded, const gchar *name)
{
  void *handle = dlopen (name, RTLD_NOW | RTLD_LOCAL);

  if (handle == NULL)
    conclude_none (loaded, "no driver (%s)", dlerror ());
  return handle;
}

static gboolean
start_driver (TpsLoadedLibrary *loaded, void *handle, const gchar *name)
{
  DriverInit init;
  DriverErrorString error_string;
  const char *text = NULL;
  int code;

  if (!tps_module_find (handle, "cuInit", &init, sizeof init))
    {
      conclude_none (loaded, "%s is not a driver (it has no cuInit)", name);
      return FALSE;
    }
  code = init (0);
  if (code == 0)
    return TRUE;
  if (tps_module_find (handle, "cuGetErrorString", &error_string, sizeof error_string))
    error_string (code, &text);
  conclude_none (loaded, "the driver does not start (error %d: %s)", code,
                 text != NULL ? text : "unknown");
  return FALSE;
}

/* -- the library -- */

static void *
open_library (TpsLoadedLibrary *loaded, const gchar *const *paths)
{
  g_autoptr (GString) reasons = g_string_new (NULL);
  void *handle = tps_module_open (paths, reasons);

  if (handle == NULL)
    conclude_none (loaded, "a driver, but no " LIBRARY_NAME " (%s)", reasons->str);
  return handle;
}

/* Returns the description of the library; NULL if its ABI or version does not match. The ABI number
 * comes first in every version, so that it can be read from any version. */
static const TpsDeviceLibrary *
check_library (TpsLoadedLibrary *loaded, void *handle)
{
  const TpsDeviceLibrary *library = (const TpsDeviceLibrary *) dlsym (handle,
                                                                      TPS_DEVICE_LIBRARY_SYMBOL);

  if (library == NULL)
    conclude_none (loaded, LIBRARY_NAME
                   " is not a library of this program (no symbol " TPS_DEVICE_LIBRARY_SYMBOL ")");
  else if (library->abi != TPS_DEVICE_LIBRARY_ABI)
    conclude_none (loaded,
                   LIBRARY_NAME " has ABI %u, this program %d; use the one it was built with",
                   library->abi, TPS_DEVICE_LIBRARY_ABI);
  else if (g_strcmp0 (library->version, TPS_VERSION) != 0
           || library->ops_bytes != sizeof (TpsDeviceOps))
    conclude_none (loaded,
                   LIBRARY_NAME
                   " is version %s with %u bytes of operations, this program " TPS_VERSION
                   " with %" G_GSIZE_FORMAT "; use the one it was built with",
                   library->version, library->ops_bytes, sizeof (TpsDeviceOps));
  else
    return library;
  return NULL;
}

static void
open_devices (TpsLoadedLibrary *loaded, const TpsDeviceLibrary *library)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) words = g_string_new ("cuda: ");

  if (!library->open (loaded->devices, words, &error))
    {
      g_ptr_array_set_size (loaded->devices, 0);
      conclude_none (loaded, "%s", error != NULL ? error->message : "no reason given");
      return;
    }
  loaded->library = library;
  loaded->summary = g_string_free (g_steal_pointer (&words), FALSE);
}

void
tps_device_library_load (TpsLoadedLibrary *loaded, const TpsDeviceLibraryPaths *paths)
{
  const TpsDeviceLibrary *library;
  void *driver, *handle;

  (void) TPS_ERROR; /* registers the domain before the library can, see error.c */
  *loaded = (TpsLoadedLibrary) { .devices = g_ptr_array_new () };
  if (paths->libraries[0] == NULL)
    {
      conclude_none (loaded, "turned off");
      return;
    }
  if ((driver = open_driver (loaded, paths->driver)) == NULL
      || (handle = open_library (loaded, paths->libraries)) == NULL
      || (library = check_library (loaded, handle)) == NULL
      || !start_driver (loaded, driver, paths->driver))
    return;
  open_devices (loaded, library);
}

/* -- the library of the process -- */

static TpsLoadedLibrary own;

static void
load_own (void)
{
  g_auto (GStrv) names = tps_module_list_paths (LIBRARY_NAME, "THRIFTPS_CUDA_LIBRARY");
  TpsDeviceLibraryPaths paths = { .driver = DRIVER_NAME,
                                  .libraries = (const gchar *const *) names };

  tps_device_library_load (&own, &paths);
}

const TpsLoadedLibrary *
tps_device_library_get (void)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;

  tps_sync_check (pthread_once (&once, load_own));
  return &own;
}
