/* Of nvml_stub.c: MIG instances are made, looked at and destroyed. */
/* ---- MIG: making and destroying ---- */

typedef struct {
    nvmlDevice_t device;
    unsigned int id, profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
    unsigned int version, id, sliceCount, instanceCount, multiprocessorCount;
    unsigned int sharedCopyEngineCount, sharedDecoderCount, sharedEncoderCount, sharedJpegCount, sharedOfaCount;
    char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
    nvmlDevice_t device;
    nvmlGpuInstance_t gpuInstance;
    unsigned int id, profileId;
    nvmlGpuInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

static int overlap(const struct instance *one, unsigned int start, unsigned int size) {
    return one->used && one->start < start + size && start < one->start + one->size;
}

nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    unsigned int status[2] = {0, 0};
    if (mode > 1)
        return NVML_ERROR_INVALID_ARGUMENT;
    RETURN_UNLESS_SUCCESS(read_state(device, &state));
    give_pair(gpu_fact(device, "activation"), &status[1], &status[0]);
    *activation = state.current == mode ? NVML_SUCCESS : (nvmlReturn_t)status[mode];
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++)
        if (state.gpu[gi].used && !mode)
            *activation = NVML_ERROR_IN_USE;
    state.pending = mode;
    if (*activation == NVML_SUCCESS)
        state.current = mode;
    RETURN_UNLESS_SUCCESS(write_state(device, &state));
    die_if_told(__func__);
    return NVML_SUCCESS;
}

/* Where an instance's profile finds no room: its place, the number of its kind, or the engines that are left. */
static int has_room(nvmlDevice_t device, const struct mig_state *state, const nvmlGpuInstanceProfileInfo_v2_t *wanted) {
    unsigned int used[6] = {wanted->sliceCount,   wanted->copyEngineCount, wanted->decoderCount,
                            wanted->encoderCount, wanted->jpegCount,       wanted->ofaCount};
    unsigned int most[6] = {0}, alike = 1;
    nvmlGpuInstanceProfileInfo_v2_t info;
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++) {
        if (!state->gpu[gi].used || !find_profile(device, state->gpu[gi].profile, &info))
            continue;
        unsigned int of[6] = {info.sliceCount,   info.copyEngineCount, info.decoderCount,
                              info.encoderCount, info.jpegCount,       info.ofaCount};
        for (int i = 0; i < 6; i++)
            used[i] += of[i];
        alike += info.id == wanted->id;
    }
    for (unsigned int number = 0; number < PROFILE_COUNT; number++) {
        if (read_profile(device, number, &info) == NVML_ERROR_NOT_SUPPORTED)
            continue;
        unsigned int of[6] = {info.sliceCount,   info.copyEngineCount, info.decoderCount,
                              info.encoderCount, info.jpegCount,       info.ofaCount};
        for (int i = 0; i < 6; i++)
            most[i] = of[i] > most[i] ? of[i] : most[i];
    }
    for (int i = 0; i < 6; i++)
        if (used[i] > most[i])
            return 0;
    return alike <= wanted->instanceCount;
}

static int is_possible(nvmlDevice_t device, unsigned int profile, const nvmlGpuInstancePlacement_t *placement) {
    const char *text = gpu_fact_at(device, "placements.", profile);
    unsigned int start, size;
    int length;
    for (; text && sscanf(text, "%u:%u%n", &start, &size, &length) == 2; text += length)
        if (start == placement->start && size == placement->size)
            return 1;
    return 0;
}

nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int profile,
                                                      const nvmlGpuInstancePlacement_t *placement,
                                                      nvmlGpuInstance_t *instance) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    nvmlGpuInstanceProfileInfo_v2_t info;
    unsigned int id = 1; /* 0 is the whole GPU's */
    RETURN_UNLESS_SUCCESS(read_state(device, &state));
    if (!state.current)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!find_profile(device, profile, &info) || !is_possible(device, profile, placement))
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++)
        if (overlap(&state.gpu[gi], placement->start, placement->size))
            return NVML_ERROR_INSUFFICIENT_RESOURCES;
    while (id < MAX_GPU_INSTANCES && state.gpu[id].used)
        id++;
    if (id == MAX_GPU_INSTANCES || !has_room(device, &state, &info))
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    state.gpu[id] = (struct instance){1, profile, placement->start, placement->size, 0};
    RETURN_UNLESS_SUCCESS(write_state(device, &state));
    die_if_told(__func__);
    gpu_instances[device->index][id] = (struct nvmlGpuInstance_st){device, id};
    *instance = &gpu_instances[device->index][id];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int profile, nvmlGpuInstance_t *instances,
                                       unsigned int *count) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    nvmlGpuInstanceProfileInfo_v2_t info;
    RETURN_UNLESS_SUCCESS(read_state(device, &state));
    if (!state.current)
        return NVML_ERROR_NOT_SUPPORTED;
    if (!find_profile(device, profile, &info))
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    for (unsigned int gi = 0; gi < MAX_GPU_INSTANCES; gi++)
        if (state.gpu[gi].used && state.gpu[gi].profile == profile) {
            gpu_instances[device->index][gi] = (struct nvmlGpuInstance_st){device, gi};
            instances[(*count)++] = &gpu_instances[device->index][gi];
        }
    return NVML_SUCCESS;
}

/* What every call on a GPU instance does first: its GPU's state, if the instance is there. */
static nvmlReturn_t enter_gpu_instance(const char *function, nvmlGpuInstance_t instance, struct mig_state *state) {
    RETURN_UNLESS_SUCCESS(enter_device(function, instance->device));
    RETURN_UNLESS_SUCCESS(read_state(instance->device, state));
    return state->gpu[instance->id].used ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t enter_compute_instance(const char *function, nvmlComputeInstance_t instance,
                                           struct mig_state *state) {
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(function, instance->gpu_instance, state));
    return state->compute[instance->gpu_instance->id][instance->id].used ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *info) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(__func__, instance, &state));
    const struct instance *found = &state.gpu[instance->id];
    *info = (nvmlGpuInstanceInfo_t){instance->device, instance->id, found->profile, {found->start, found->size}};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t instance) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(__func__, instance, &state));
    for (int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++)
        if (state.compute[instance->id][ci].used)
            return NVML_ERROR_IN_USE;
    state.gpu[instance->id].used = 0;
    RETURN_UNLESS_SUCCESS(write_state(instance->device, &state));
    die_if_told(__func__);
    return NVML_SUCCESS;
}

/* NVML_COMPUTE_INSTANCE_PROFILE_* to compute slices; the profile's id is the same number. */
static unsigned int compute_slices(unsigned int profile) {
    static const unsigned int slices[COMPUTE_PROFILE_COUNT] = {1, 2, 3, 4, 7, 8, 6, 0, 0};
    return profile < COMPUTE_PROFILE_COUNT ? slices[profile] : 0;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t instance, unsigned int profile,
                                                           unsigned int engines,
                                                           nvmlComputeInstanceProfileInfo_v2_t *info) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    nvmlGpuInstanceProfileInfo_v2_t gpu;
    unsigned int slices = compute_slices(profile);
    if (info->version != STRUCT_VERSION(nvmlComputeInstanceProfileInfo_v2_t, 2))
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(__func__, instance, &state));
    if (profile >= COMPUTE_PROFILE_COUNT || engines != 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!slices || !find_profile(instance->device, state.gpu[instance->id].profile, &gpu) || slices > gpu.sliceCount)
        return NVML_ERROR_NOT_SUPPORTED;
    info->id = profile;
    info->sliceCount = slices;
    info->instanceCount = gpu.sliceCount / slices;
    info->multiprocessorCount = gpu.multiprocessorCount * slices / gpu.sliceCount;
    info->sharedCopyEngineCount = gpu.copyEngineCount;
    info->sharedDecoderCount = gpu.decoderCount;
    info->sharedEncoderCount = gpu.encoderCount;
    info->sharedJpegCount = gpu.jpegCount;
    info->sharedOfaCount = gpu.ofaCount;
    snprintf(info->name, sizeof info->name, "MIG %uc", slices);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t instance, unsigned int profile,
                                                  nvmlComputeInstance_t *compute) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    nvmlGpuInstanceProfileInfo_v2_t gpu;
    unsigned int slices = compute_slices(profile), id = 0;
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(__func__, instance, &state));
    struct instance *of = state.compute[instance->id];
    if (!slices || !find_profile(instance->device, state.gpu[instance->id].profile, &gpu) || slices > gpu.sliceCount)
        return NVML_ERROR_NOT_SUPPORTED;
    while (id < MAX_COMPUTE_INSTANCES && of[id].used)
        id++;
    for (unsigned int start = 0; id < MAX_COMPUTE_INSTANCES && start + slices <= gpu.sliceCount; start += slices) {
        int taken = 0;
        for (int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++)
            taken |= overlap(&of[ci], start, slices);
        if (taken)
            continue;
        of[id] = (struct instance){1, profile, start, slices, state.next_serial++};
        RETURN_UNLESS_SUCCESS(write_state(instance->device, &state));
        die_if_told(__func__);
        compute_instances[instance->device->index][instance->id][id] = (struct nvmlComputeInstance_st){instance, id};
        *compute = &compute_instances[instance->device->index][instance->id][id];
        return NVML_SUCCESS;
    }
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t instance, unsigned int profile,
                                                nvmlComputeInstance_t *computes, unsigned int *count) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(enter_gpu_instance(__func__, instance, &state));
    *count = 0;
    for (unsigned int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++)
        if (state.compute[instance->id][ci].used && state.compute[instance->id][ci].profile == profile) {
            struct nvmlComputeInstance_st *handle = &compute_instances[instance->device->index][instance->id][ci];
            *handle = (struct nvmlComputeInstance_st){instance, ci};
            computes[(*count)++] = handle;
        }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute, nvmlComputeInstanceInfo_t *info) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(enter_compute_instance(__func__, compute, &state));
    nvmlGpuInstance_t of = compute->gpu_instance;
    const struct instance *found = &state.compute[of->id][compute->id];
    *info = (nvmlComputeInstanceInfo_t){of->device, of, compute->id, found->profile, {found->start, found->size}};
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute) {
    ONE_AT_A_TIME();
    WITH_STATE();
    struct mig_state state;
    RETURN_UNLESS_SUCCESS(enter_compute_instance(__func__, compute, &state));
    state.compute[compute->gpu_instance->id][compute->id].used = 0;
    RETURN_UNLESS_SUCCESS(write_state(compute->gpu_instance->device, &state));
    die_if_told(__func__);
    return NVML_SUCCESS;
}

/* ---- MIG devices ---- */

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
    ENTER_DEVICE(device);
    *count = gpu_fact(device, "mig") ? MAX_MIG_DEVICES : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig) {
    ENTER_DEVICE(device);
    WITH_STATE();
    struct mig_state state;
    if (index >= MAX_MIG_DEVICES)
        return NVML_ERROR_INVALID_ARGUMENT;
    RETURN_UNLESS_SUCCESS(read_state(device, &state));
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++)
        for (int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++)
            if (state.compute[gi][ci].used && index-- == 0) {
                *mig = &mig_devices[device->index][gi][ci];
                **mig = (struct nvmlDevice_st){device->index, gi, ci};
                return NVML_SUCCESS;
            }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t mig, unsigned int *id) {
    ENTER_DEVICE(mig);
    if (!is_mig_device(mig))
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = (unsigned int)mig->gpu_instance;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t mig, unsigned int *id) {
    ENTER_DEVICE(mig);
    if (!is_mig_device(mig))
        return NVML_ERROR_INVALID_ARGUMENT;
    *id = (unsigned int)mig->compute_instance;
    return NVML_SUCCESS;
}
