// Base64 as RFC 4648 has it.
#ifndef PUMICE_CLI_BASE64_H
#define PUMICE_CLI_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

void base64_encode(const char *bytes, size_t n, buf *out);
// Padding may be missing. False: other characters, or a length that no bytes have.
bool base64_decode(const char *text, size_t n, buf *out);

#endif
