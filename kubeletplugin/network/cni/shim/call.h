/* One call of the container runtime, handed on to Rootport's kubelet plugin. */
#ifndef ROOTPORT_CALL_H
#define ROOTPORT_CALL_H

#include "json.h"

typedef struct {
    const char *command, *container, *netns, *interface;
    Text uid, namespace, name; /* the pod's */
} Call;

/* Whether the state knows the pod. Where that cannot be found out, yes: the kubelet plugin will know. */
bool is_ours(Text uid);

/*
 * Hand the call over; returns when it was done, and ends the program with an error object when it was not. Calls are
 * idempotent: one that got no answer, since the plugin was killed, is made again.
 */
void hand_over(const Call *call);

#endif
