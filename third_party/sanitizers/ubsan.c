/* Asked for by the undefined behaviour sanitizer's run-time library before main(). */

const char *__ubsan_default_options (void);

const char *
__ubsan_default_options (void)
{
  return "print_stacktrace=1";
}
