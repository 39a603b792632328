/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The thread sanitizer's run-time library calls this before main(). */

const char *__tsan_default_options (void);
const char *__tsan_default_suppressions (void);

const char *
__tsan_default_options (void)
{
  return "halt_on_error=0:"
         "second_deadlock_stack=1:"
         "history_size=4";
}

/* Each line: an ignored report, and the reason why the race is not ours. The libraries themselves
 * are not instrumented; the sanitizer only sees the libc functions that they call. */
const char *
__tsan_default_suppressions (void)
{
  return
      /* GLib's locks are futexes, which the sanitizer does not see, so data that they guard seems
       * unguarded. */
      "called_from_lib:libglib-2.0.so.0\n"
      "called_from_lib:libgobject-2.0.so.0\n"
      /* GLib jumps into the unlock of its recursive locks, so the sanitizer attributes only the
       * lock to GLib. */
      "mutex:_get_type_once$\n"
      "mutex:libgio-2.0.so.0\n"
      /* G_DEFINE_EXTENDED_ERROR guards the quark with g_once_init_enter(), which is also a
       * futex. */
      "race:^tps_error_quark$\n"
      /* The thread that frees a Gloo buffer waits, by the count of a shared_ptr, until the device's
       * thread has released it. */
      "race:gloo::transport::tcp::UnboundBuffer::\n"
      "race:gloo::transport::tcp::Pair::read\n"
      /* fuse_unmount() closes the device from which the thread of fuse_loop() reads; this ends that
       * thread. */
      "race:libfuse3.so.3\n";
}
