#include "output.h"

#include <stdlib.h>
#include <string.h>

const char *cni_version = "1.1.0";

void put_quoted(FILE *out, const char *text, size_t length)
{
    fputc('"', out);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

_Noreturn void finish(int status)
{
    exit(fflush(stdout) == 0 && !ferror(stdout) ? status : 1);
}

_Noreturn void fail(int code, const char *message)
{
    printf("{\"cniVersion\": \"%s\", \"code\": %d, \"msg\": ", cni_version, code);
    put_quoted(stdout, message, strlen(message));
    puts("}");
    finish(1);
}
