/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The run-time library of the thread sanitizer calls these functions. */

const char *__tsan_default_options (void);
const char *__tsan_default_suppressions (void);

const char *
__tsan_default_options (void)
{
  return "halt_on_error=0:"
         "second_deadlock_stack=1:"
         "history_size=4";
}

/* Each line suppresses reports. The comment before it says why the race is not a defect of this
 * project. The libraries themselves are not instrumented; the sanitizer sees only the libc
 * functions that they call. */
const char *
__tsan_default_suppressions (void)
{
  return
      /* GLib's locks are futexes, which the sanitizer does not see. Data that they guard therefore
       * seem unguarded. */
      "called_from_lib:libglib-2.0.so.0\n"
      "called_from_lib:libgobject-2.0.so.0\n"
      /* GLib ends the unlock of its recursive locks with a jump. The sanitizer therefore attributes
       * the lock to GLib, but not the unlock. */
      "mutex:_get_type_once$\n"
      "mutex:libgio-2.0.so.0\n"
      /* tps_error_quark() registers its domain with GLib, which guards its tables with its own
       * locks. */
      "race:^tps_error_quark$\n"
      /* GObject runs the initialization of a class in the first thread that needs it, and guards it
       * with its own locks. */
      "race:_class_intern_init$\n"
      /* The thread that frees a Gloo buffer waits until the thread of the device has released it.
       * It waits by the count of a shared_ptr. */
      "race:gloo::transport::tcp::UnboundBuffer::\n"
      "race:std::default_delete<gloo::transport::UnboundBuffer>\n"
      "race:gloo::transport::tcp::Pair::read\n"
      /* fuse_unmount() closes the device while the thread of fuse_loop() reads from it. This ends
       * that thread. */
      "race:libfuse3.so.3\n";
}
