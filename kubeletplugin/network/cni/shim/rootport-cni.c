/*
 * Rootport's CNI plugin, chained behind the node's network: a pod whose claims lend it network interfaces is told to
 * Rootport's kubelet plugin, which moves them; every other pod's call passes through, whether Rootport runs or not.
 *
 * Which pods those are is a folder each, STATE_DIR/pods/<uid>, there from a claim's prepare to its unprepare. The call
 * goes as one JSON object over STATE_DIR/cni.sock (kubeletplugin/network/cni/protocol.py). While nobody answers there, as during
 * an update of the plugin, it is tried again, and then the call fails: a pod must not start without its interface.
 *
 * Rules: CNI specification 1.1.0 (containernetworking/cni, SPEC.md). A static program without dependencies, since it
 * runs on the host, on any distribution. Exit status 0, or 1 with an error object on stdout.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "json.h"
#include "output.h"

enum { INPUT_LIMIT = 1024 * 1024, VARIABLE_LIMIT = 4096 };

static const char *const VERSIONS[] = {"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"};
enum { VERSION_COUNT = sizeof(VERSIONS) / sizeof(VERSIONS[0]) };

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL ? value : "";
}

static void limit_variables(const Call *call, const char *arguments)
{
    const char *const values[] = {call->container, call->netns, call->interface, arguments};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        if (strlen(values[i]) > VARIABLE_LIMIT)
            fail(BAD_ENVIRONMENT, "a CNI_ variable of the environment has more than 4096 bytes");
}

/* A value of CNI_ARGS, "KEY=value;KEY=value": the last one, as in libcni. */
static Text argument(const char *arguments, const char *key)
{
    Text found = {"", 0};
    size_t key_length = strlen(key);
    for (const char *at = arguments; *at;) {
        size_t length = strcspn(at, ";");
        if (length > key_length && strncmp(at, key, key_length) == 0 && at[key_length] == '=')
            found = (Text){at + key_length + 1, length - key_length - 1};
        at += length + (at[length] == ';');
    }
    return found;
}

static Text read_input(void)
{
    static char buffer[INPUT_LIMIT + 1];
    size_t length = fread(buffer, 1, sizeof(buffer), stdin);
    if (ferror(stdin))
        fail(BAD_IO, "the network configuration cannot be read from stdin");
    if (length > INPUT_LIMIT)
        fail(BAD_JSON, "the network configuration has more than 1 MiB");
    return (Text){buffer, length};
}

static _Noreturn void print_versions(void)
{
    printf("{\"cniVersion\": \"%s\", \"supportedVersions\": [", cni_version);
    for (int i = 0; i < VERSION_COUNT; i++)
        printf("%s\"%s\"", i ? ", " : "", VERSIONS[i]);
    puts("]}");
    finish(0);
}

/* Take over the configuration's version; false where it is none that this program knows. */
static bool set_version(Text value)
{
    for (int i = 0; i < VERSION_COUNT; i++)
        if (is_word(value, VERSIONS[i])) {
            cni_version = VERSIONS[i];
            return true;
        }
    return false;
}

int main(void)
{
    const char *command = variable("CNI_COMMAND");
    if (strcmp(command, "VERSION") == 0)
        print_versions();
    /* Rootport undoes by itself what a crash left, and a node whose Rootport is away serves all other pods. */
    if (strcmp(command, "GC") == 0 || strcmp(command, "STATUS") == 0)
        finish(0);
    bool is_add = strcmp(command, "ADD") == 0, is_del = strcmp(command, "DEL") == 0;
    if (!is_add && !is_del && strcmp(command, "CHECK") != 0)
        fail(BAD_ENVIRONMENT, "CNI_COMMAND is none of ADD, DEL, CHECK, GC, STATUS and VERSION");

    const char *arguments = variable("CNI_ARGS");
    Call call = {
        .command = command,
        .container = variable("CNI_CONTAINERID"),
        .netns = variable("CNI_NETNS"),
        .interface = variable("CNI_IFNAME"),
        .uid = argument(arguments, "K8S_POD_UID"),
        .namespace = argument(arguments, "K8S_POD_NAMESPACE"),
        .name = argument(arguments, "K8S_POD_NAME"),
    };
    bool ours = is_ours(call.uid);
    if (!is_add && !ours)
        finish(0);
    if (ours)
        limit_variables(&call, arguments);

    Member config[] = {{.name = "cniVersion"}, {.name = "prevResult"}};
    Text input = read_input();
    bool is_config = read_members(input, config, 2);
    bool is_known = is_config && set_version(config[0].value);
    if (is_add) {
        if (!is_config)
            fail(BAD_JSON, "the network configuration on stdin is no JSON object");
        if (!is_object(config[1].value))
            fail(BAD_CONFIG, "the network configuration has no prevResult: rootport-cni belongs behind the node's own "
                             "network in a list of plugins, it cannot be the first");
    }
    /* What is only passed on may be of any version; and DEL does what it can, whatever it is given. */
    if (ours && !is_del && !is_known)
        fail(BAD_VERSION, "the configuration's cniVersion is not one of 0.3.0, 0.3.1, 0.4.0, 1.0.0 and 1.1.0");
    if (ours)
        hand_over(&call);
    if (is_add) {
        fwrite(config[1].value.start, 1, config[1].value.length, stdout);
        putchar('\n');
    }
    finish(0);
}
