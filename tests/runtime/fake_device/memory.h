/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory of the devices: bytes that are mapped twice, without access at their public address, and
 * with access at an internal address that operations use.
 *
 * Call all functions here with lock () held. */

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "runtime/device/backend.h"

namespace fake_device {

struct Device;

struct Block
{
  Device *device;
  bool is_host; /* page-locked */
  uint8_t *address;
  uint8_t *inside;
  size_t n_bytes;
  size_t n_mapped;
  int fd;           /* of exported memory, else -1 */
  int n_queued = 0; /* queued operations on it */

  ~Block ();
};

/* Implements TpsDevice. */
struct Device
{
  TpsDevice base;
  guint fail_alloc;
  gboolean is_lost;
  guint n_allocs;
  size_t n_bytes;
};

/* The lock of the whole fake. */
std::mutex &lock ();

/* Ends the process. */
[[noreturn]] G_GNUC_PRINTF (1, 2) void die (const char *format, ...);

/* NULL and an error if it fails, if a failure was requested, or if the device is lost. */
TpsBuffer *allocate (TpsDevice *device, size_t n_bytes, bool is_host, guint8 *handle,
                     GError **error);
TpsBuffer *open_exported (TpsDevice *device, const guint8 *handle, size_t n_bytes, GError **error);

/* The block that contains an address, or nullptr. */
std::shared_ptr<Block> find_block (const void *address);

bool check_lost (TpsDevice *device, GError **error); /* FALSE: the device is lost */

} // namespace fake_device
