/* What the program prints, and how it ends: JSON on stdout, as the CNI specification wants it. */
#ifndef ROOTPORT_OUTPUT_H
#define ROOTPORT_OUTPUT_H

#include <stddef.h>
#include <stdio.h>

/* Well-known error codes of the CNI specification. */
enum {
    BAD_VERSION = 1,
    BAD_ENVIRONMENT = 4,
    BAD_IO = 5,
    BAD_JSON = 6,
    BAD_CONFIG = 7,
    TRY_LATER = 11,
};

extern const char *cni_version; /* of what is printed: the configuration's, where it is known */

/* A JSON string of these bytes. */
void put_quoted(FILE *out, const char *text, size_t length);

/* Exit with a status; with 1 where stdout could not be written, since a result that nobody can read is none. */
_Noreturn void finish(int status);

/* Print an error object and exit with 1. */
_Noreturn void fail(int code, const char *message);

#endif
