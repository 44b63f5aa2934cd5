/*
 * A stand-in for libnvidia-ml.so.1: the real pynvml binding (and any other NVML client) loads it and sees the machine
 * that a text file describes. It fakes the library, so everything above it is the real thing.
 *
 *     cc -shared -fPIC -o DIR/libnvidia-ml.so.1 nvml_stub.c
 *     LD_LIBRARY_PATH=DIR ROOTPORT_STUB_NVML=machine.txt rootport topo --live
 *
 * The file that the environment variable ROOTPORT_STUB_NVML names is read at each first nvmlInit, never between, so one
 * library serves all machines. The state's file `live` has facts as well, which win; it is read again at each call. One fact a line, `key=value`; blank lines and lines that begin with '#' are skipped; a
 * value runs to the end of its line, byte for byte; the last line of a key wins. A fact that is not there is answered
 * with NVML_ERROR_NOT_SUPPORTED, as NVML does for a part that lacks the feature. N and L count from 0.
 *
 *   gpus=8                                      number of GPUs that nvmlDeviceGetCount_v2 tells
 *   driver=580.159.03                           nvmlSystemGetDriverVersion
 *   cuda=13000                                  nvmlSystemGetCudaDriverVersion (1000 * major + 10 * minor)
 *   trace=FILE                                  append the name of each called function, one a line, to FILE
 *   state=FOLDER                                MIG mode, instances and compute mode of each GPU are kept here, shared by
 *                                               all processes, as hardware keeps them; without it nothing can be changed
 *   capabilities=FOLDER                         /proc/driver/nvidia/capabilities, written to fit the state
 *   fail.FUNCTION=NVML_ERROR_... [FROM [COUNT]] FUNCTION (its exported name) fails so, a number works as well; from
 *                                               this process's call FROM (1) on, COUNT times (always)
 *   gpuN.fail.FUNCTION=NVML_ERROR_...           the same for one GPU only
 *   die.FUNCTION=1                              the process ends without a word when FUNCTION has done its work
 *   gpuN.uuid, gpuN.name, gpuN.pci, gpuN.minor  as NVML writes them (pci: 00000000:3B:00.0)
 *   gpuN.memory=85520809984                     bytes in total (nvmlDeviceGetMemoryInfo and _v2)
 *   gpuN.architecture=9                         NVML_DEVICE_ARCH_*
 *   gpuN.cuda=9 0                               compute capability, major and minor
 *   gpuN.ecc=1 1                                ECC mode, current and pending
 *   gpuN.mig=0 0                                MIG mode, current and pending; what it is at first where there is a state
 *   gpuN.activation=0 0                         what keeps MIG mode from being switched on, and off: NVML_ERROR_* numbers
 *   gpuN.profileP=19 1 7 16 9984 1 1 0 1 0 MIG 1g.10gb
 *                                               the GPU instance profile NVML_GPU_INSTANCE_PROFILE_* = P: its id, compute
 *                                               slices, instances, multiprocessors, MiB, copy engines, decoders,
 *                                               encoders, JPEG engines, OFAs, and name
 *   gpuN.placements.ID=0:1 1:1                  where instances of the profile with that id can stand, start:size
 *   gpuN.linkL=2 00000000:05:00.0               an active NVLink: NVML_NVLINK_DEVICE_TYPE_* of its far end (0 GPU,
 *                                               1 IBM NPU, 2 NVSwitch, 255 unknown, '-' not supported), and its
 *                                               address ('-' not supported)
 *   gpuN.linkL=down                             an inactive NVLink
 *   gpuN.recovery_action=0                      NVML_GPU_RECOVERY_ACTION_*, the only field of nvmlDeviceGetFieldValues
 *   gpuN.ecc_corrected=0, gpuN.ecc_uncorrected=0
 *                                               volatile ECC errors in total
 *   gpuN.retired_pending=0                      nvmlDeviceGetRetiredPagesPendingStatus
 *   gpuN.remapped_rows=0 0 0 0                  rows for corrected and for uncorrected errors, whether some are pending,
 *                                               whether one failed
 *   gpuN.clock_reasons=1                        nvmlClocksEventReason* (nvmlDeviceGetCurrentClocksEventReasons)
 *   gpuN.utilization=0                          percent of the GPU
 *   gpuN.temperature=34, gpuN.power=71000       degrees Celsius, milliwatts
 *   gpuN.memory_used=0                          bytes; none is 0
 *   gpuN.events=27                              supported event types, nvmlEventType*
 *   gpuN.lost=1                                 the GPU has fallen off the bus: each of its calls says so
 *
 * An event set tells what is appended to the state's file `events` after it was made. A line is `gpuN xid 79` or
 * `gpuN ecc` (a double-bit ECC error), with the GPU instance and compute instance behind it where it is one of theirs
 * (`gpuN xid 79 1 0`); gpu-1 for a GPU that NVML does not tell.
 *
 * A relative FOLDER is one below the description's own folder.
 *
 * Struct layouts and numbers are nvml.h's (NVML API reference, driver branches 470 to 590), cut to what pynvml calls.
 * Thread-safe, as NVML is: one call at a time. A call that is not listed here is not exported, so pynvml raises NVMLError_FunctionNotFound.
 */
#include "description.h"
#include "state.h"

/* ---- the library and the system ---- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    ONE_AT_A_TIME();
    if (init_count == 0) {
        forget();
        RETURN_UNLESS_SUCCESS(read_description());
        for (int i = 0; i < gpu_count(); i++)
            devices[i].index = i;
        write_all_capabilities();
    }
    init_count++;
    nvmlReturn_t result = enter(__func__);
    if (result != NVML_SUCCESS)
        init_count--;
    return result;
}

nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

nvmlReturn_t nvmlShutdown(void) {
    ENTER();
    init_count--; /* the facts stay, so that a call after the last shutdown is traced too */
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result) {
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; i++)
        if (error_names[i].code == (int)result)
            return error_names[i].name;
    return "an error that the stub has no name for";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    ENTER();
    return give_text(fact("driver"), version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) {
    ENTER();
    return give_number(fact("cuda"), (unsigned int *)version);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
    ENTER();
    *count = (unsigned int)gpu_count();
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
    ENTER();
    if (index >= (unsigned int)gpu_count())
        return NVML_ERROR_INVALID_ARGUMENT;
    RETURN_UNLESS_SUCCESS(enter_device(__func__, &devices[index]));
    *device = &devices[index];
    return NVML_SUCCESS;
}

/* As NVML takes it: hexadecimal, in either case, with a domain of four digits or eight. */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device) {
    ENTER();
    unsigned int wanted[4], found[4];
    if (sscanf(bus_id, "%x:%x:%x.%x", &wanted[0], &wanted[1], &wanted[2], &wanted[3]) != 4)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < gpu_count(); i++) {
        const char *pci = gpu_fact(&devices[i], "pci");
        if (!pci || sscanf(pci, "%x:%x:%x.%x", &found[0], &found[1], &found[2], &found[3]) != 4)
            continue;
        if (memcmp(wanted, found, sizeof found) == 0) {
            RETURN_UNLESS_SUCCESS(enter_device(__func__, &devices[i]));
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    ENTER();
    for (int i = 0; i < gpu_count(); i++) {
        const char *own = gpu_fact(&devices[i], "uuid");
        if (own && strcmp(own, uuid) == 0) {
            RETURN_UNLESS_SUCCESS(enter_device(__func__, &devices[i]));
            *device = &devices[i];
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

/* ---- one GPU ---- */

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    ENTER_DEVICE(device);
    return give_pci(gpu_fact(device, "pci"), pci);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
    ENTER_DEVICE(device);
    if (is_mig_device(device)) {
        WITH_STATE();
        struct mig_state state;
        char text[64];
        RETURN_UNLESS_SUCCESS(read_state(&devices[device->index], &state));
        const struct instance *compute = &state.compute[device->gpu_instance][device->compute_instance];
        if (!compute->used)
            return NVML_ERROR_NOT_FOUND;
        snprintf(text, sizeof text, "MIG-%08x-%04x-4%03x-8000-%012x", device->index, device->gpu_instance,
                 device->compute_instance, compute->serial);
        return give_text(text, uuid, length);
    }
    return give_text(gpu_fact(device, "uuid"), uuid, length);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
    ENTER_DEVICE(device);
    return give_text(gpu_fact(device, "name"), name, length);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "minor"), minor);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    ENTER_DEVICE(device);
    const char *total = gpu_fact(device, "memory");
    if (!total)
        return NVML_ERROR_NOT_SUPPORTED;
    const char *used = gpu_fact(device, "memory_used");
    memory->total = strtoull(total, NULL, 10);
    memory->used = used ? strtoull(used, NULL, 10) : 0;
    memory->free = memory->total - memory->used;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    ENTER_DEVICE(device);
    if (memory->version != STRUCT_VERSION(nvmlMemory_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    const char *total = gpu_fact(device, "memory");
    if (!total)
        return NVML_ERROR_NOT_SUPPORTED;
    const char *used = gpu_fact(device, "memory_used");
    memory->total = strtoull(total, NULL, 10);
    memory->used = used ? strtoull(used, NULL, 10) : 0;
    memory->free = memory->total - memory->used;
    memory->reserved = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture) {
    ENTER_DEVICE(device);
    return give_number(gpu_fact(device, "architecture"), architecture);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    ENTER_DEVICE(device);
    return give_pair(gpu_fact(device, "cuda"), (unsigned int *)major, (unsigned int *)minor);
}

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ENTER_DEVICE(device);
    return give_pair(gpu_fact(device, "ecc"), current, pending);
}

/* ---- NVLink ---- */

static const char *active_link(nvmlDevice_t device, unsigned int link) {
    const char *text = gpu_fact_at(device, "link", link);
    return text && strcmp(text, "down") != 0 ? text : NULL;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *is_active) {
    ENTER_DEVICE(device);
    if (link >= MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!gpu_fact_at(device, "link", link))
        return NVML_ERROR_NOT_SUPPORTED;
    *is_active = active_link(device, link) != NULL;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link, unsigned int *type) {
    ENTER_DEVICE(device);
    return give_number(active_link(device, link), type); /* '-' is no number: not supported */
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci) {
    ENTER_DEVICE(device);
    const char *text = active_link(device, link);
    const char *address = text ? strchr(text, ' ') : NULL;
    return give_pci(address && strcmp(address, " -") != 0 ? address + 1 : NULL, pci);
}

/* ---- compute mode ---- */

nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    read_state(device, &state); /* a GPU without MIG has a compute mode as well */
    *mode = state.compute_mode;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    if (mode > 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    read_state(device, &state);
    state.compute_mode = mode;
    RETURN_UNLESS_SUCCESS(write_state(device, &state));
    die_if_told(__func__);
    return NVML_SUCCESS;
}

/* ---- MIG: what a GPU can be cut into ---- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(read_state(device, &state));
    *current = state.current, *pending = state.pending;
    return NVML_SUCCESS;
}

static nvmlReturn_t read_profile(nvmlDevice_t device, unsigned int number, nvmlGpuInstanceProfileInfo_v2_t *info) {
    int name_at = 0;
    const char *text = gpu_fact_at(device, "profile", number);
    if (!text || sscanf(text, "%u %u %u %u %llu %u %u %u %u %u %n", &info->id, &info->sliceCount, &info->instanceCount,
                        &info->multiprocessorCount, &info->memorySizeMB, &info->copyEngineCount, &info->decoderCount,
                        &info->encoderCount, &info->jpegCount, &info->ofaCount, &name_at) != 10)
        return NVML_ERROR_NOT_SUPPORTED;
    return give_text(text + name_at, info->name, sizeof info->name);
}

static int find_profile(nvmlDevice_t device, unsigned int id, nvmlGpuInstanceProfileInfo_v2_t *info) {
    for (unsigned int number = 0; number < PROFILE_COUNT; number++)
        if (read_profile(device, number, info) != NVML_ERROR_NOT_SUPPORTED && info->id == id)
            return 1;
    return 0;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile,
                                                  nvmlGpuInstanceProfileInfo_v2_t *info) {
    ENTER_DEVICE(device);
    if (info->version != STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (profile >= PROFILE_COUNT)
        return NVML_ERROR_INVALID_ARGUMENT;
    return read_profile(device, profile, info);
}

nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int profile_id,
                                                           nvmlGpuInstancePlacement_t *placements,
                                                           unsigned int *count) {
    ENTER_DEVICE(device);
    const char *text = gpu_fact_at(device, "placements.", profile_id);
    unsigned int found = 0, start, size;
    int length;
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    /* With NULL for placements the call only counts (NVML API reference). */
    for (; sscanf(text, "%u:%u%n", &start, &size, &length) == 2; text += length, found++) {
        if (placements && found >= *count)
            return NVML_ERROR_INSUFFICIENT_SIZE;
        if (placements)
            placements[found].start = start, placements[found].size = size;
    }
    *count = found;
    return NVML_SUCCESS;
}

#include "health.h"
#include "mig.h"
