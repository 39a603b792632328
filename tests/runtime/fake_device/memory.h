/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory of the devices: bytes that are mapped twice, where everybody knows them, without access,
 * and inside, where operations get at them.
 *
 * Everything here is called with lock () held.
 */

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
  int n_queued = 0; /* operations on it that wait to be done */

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

/* Of everything. */
std::mutex &lock ();

/* Ends the process. */
[[noreturn]] G_GNUC_PRINTF (1, 2) void die (const char *format, ...);

/* NULL and an error where it fails, is told to, or the device is lost. */
TpsBuffer *allocate (TpsDevice *device, size_t n_bytes, bool is_host, guint8 *handle,
                     GError **error);
TpsBuffer *open_exported (TpsDevice *device, const guint8 *handle, size_t n_bytes, GError **error);

/* What an address lies in, or nullptr. */
std::shared_ptr<Block> find_block (const void *address);

bool check_lost (TpsDevice *device, GError **error); /* FALSE: it is */

} // namespace fake_device
