/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Asked for by the thread sanitizer's run-time library before main(). */

const char *__tsan_default_options (void);
const char *__tsan_default_suppressions (void);

const char *
__tsan_default_options (void)
{
  return "halt_on_error=0:"
         "second_deadlock_stack=1:"
         "history_size=4";
}

/* Each line: what is ignored, and why it is no race of ours. The libraries themselves are not
 * instrumented; what is seen of them are the libc functions that they call. */
const char *
__tsan_default_suppressions (void)
{
  return
      /* GLib's locks are futexes, which the sanitizer does not see: what they guard looks
       * unguarded. */
      "called_from_lib:libglib-2.0.so.0\n"
      "called_from_lib:libgobject-2.0.so.0\n"
      /* GLib jumps into the unlock of its recursive locks, so that only the lock counts as its
       * own. */
      "mutex:_get_type_once$\n"
      /* G_DEFINE_EXTENDED_ERROR keeps the quark behind g_once_init_enter(), a futex too. */
      "race:^tps_error_quark$\n"
      /* Who frees a Gloo buffer waits, by the count of a shared_ptr, until the device's thread has
       * let go of it. */
      "race:gloo::transport::tcp::UnboundBuffer::\n"
      "race:gloo::transport::tcp::Pair::read\n";
}
