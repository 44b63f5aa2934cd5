/*
 * Reads texts, each behind its length (8 bytes of this machine's order), as rootport-cni reads the network configuration.
 * For each it says whether it is one JSON object, and where the value of prevResult stands in it (-1: nowhere).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"

int main(void)
{
    uint64_t length;
    while (fread(&length, sizeof(length), 1, stdin) == 1) {
        char *text = malloc(length ? length : 1); /* exactly as long as it is: a byte beyond it is seen */
        if (text == NULL || fread(text, 1, length, stdin) != length)
            return 2;
        Member members[] = {{.name = "cniVersion"}, {.name = "prevResult"}};
        bool valid = read_members((Text){text, length}, members, 2);
        bool is_version = is_word(members[0].value, "1.0.0");
        Text found = members[1].value;
        bool there = found.start != NULL && is_object(found);
        printf("%d %d %ld %zu\n", valid, is_version, there ? (long)(found.start - text) : -1, found.length);
        fflush(stdout);
        free(text);
    }
    return 0;
}
