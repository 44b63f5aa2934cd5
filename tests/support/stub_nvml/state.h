/* Of nvml_stub.c: what the stub keeps in files, for all processes. */
/* ---- what outlives the process: MIG mode, instances, compute mode ---- */

struct instance {
    unsigned int used, profile, start, size, serial; /* the serial makes the MIG device's UUID */
};
struct mig_state {
    unsigned int current, pending, compute_mode, next_serial;
    struct instance gpu[MAX_GPU_INSTANCES], compute[MAX_GPU_INSTANCES][MAX_COMPUTE_INSTANCES];
};

/* Holds the state's lock, or -1 where the folder is read-only: then nothing changes there either. */
static int lock_state(void) {
    char path[4096], lock[4200];
    if (!folder("state", path, sizeof path))
        return -1;
    mkdir(path, 0755);
    snprintf(lock, sizeof lock, "%s/lock", path);
    int file = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file >= 0)
        flock(file, LOCK_EX);
    return file;
}

static void unlock_state(int *file) {
    if (*file >= 0)
        close(*file);
}
#define WITH_STATE() __attribute__((cleanup(unlock_state))) int state_lock = lock_state(); (void)state_lock

/* A file gpuN in the state's folder, of lines "mig CURRENT PENDING", "compute MODE", "serial NEXT", "gi ID PROFILE START
 * SIZE" and "ci GPU_INSTANCE ID PROFILE START SIZE SERIAL". */
static nvmlReturn_t read_state(nvmlDevice_t device, struct mig_state *state) {
    char path[4096], name[4200], line[256];
    memset(state, 0, sizeof *state);
    RETURN_UNLESS_SUCCESS(give_pair(gpu_fact(device, "mig"), &state->current, &state->pending));
    if (!folder("state", path, sizeof path))
        return NVML_SUCCESS;
    snprintf(name, sizeof name, "%s/gpu%d", path, device->index);
    FILE *file = fopen(name, "r");
    if (!file)
        return NVML_SUCCESS;
    while (fgets(line, sizeof line, file)) {
        unsigned int gi, ci;
        struct instance read = {.used = 1};
        sscanf(line, "mig %u %u", &state->current, &state->pending);
        sscanf(line, "compute %u", &state->compute_mode);
        sscanf(line, "serial %u", &state->next_serial);
        if (sscanf(line, "gi %u %u %u %u", &gi, &read.profile, &read.start, &read.size) == 4 && gi < MAX_GPU_INSTANCES)
            state->gpu[gi] = read;
        if (sscanf(line, "ci %u %u %u %u %u %u", &gi, &ci, &read.profile, &read.start, &read.size, &read.serial) == 6 &&
            gi < MAX_GPU_INSTANCES && ci < MAX_COMPUTE_INSTANCES)
            state->compute[gi][ci] = read;
    }
    fclose(file);
    return NVML_SUCCESS;
}

static void make_folders(char *path) {
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0755);
        *at = '/';
    }
}

/* The access file of a GPU instance (compute instance -1) or compute instance: there or not. The minors are the driver's
 * own, as /proc/driver/nvidia-caps/mig-minors lists them: 135 a GPU and 9 a GPU instance, from 3 on. */
static void write_capability(const char *root, unsigned int gpu, int gi, int ci, int there) {
    char path[4400], compute[16] = "";
    unsigned int minor = 3 + 135 * gpu + 9 * (unsigned int)gi + (unsigned int)(ci + 1);
    if (ci >= 0)
        snprintf(compute, sizeof compute, "/ci%d", ci);
    snprintf(path, sizeof path, "%s/gpu%u/mig/gi%d%s/access", root, gpu, gi, compute);
    if (there && access(path, F_OK) != 0) {
        make_folders(path);
        FILE *file = fopen(path, "w");
        if (file) {
            fprintf(file, "DeviceFileMinor: %u\nDeviceFileMode: 292\nDeviceFileModify: 1\n", minor);
            fclose(file);
        }
    } else if (!there && unlink(path) == 0) {
        *strrchr(path, '/') = '\0';
        rmdir(path);
    }
}

static void write_capabilities(nvmlDevice_t device, const struct mig_state *state) {
    char root[4096];
    unsigned int minor;
    if (!folder("capabilities", root, sizeof root) || give_number(gpu_fact(device, "minor"), &minor) != NVML_SUCCESS)
        return;
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++) {
        for (int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++)
            write_capability(root, minor, gi, ci, state->gpu[gi].used && state->compute[gi][ci].used);
        write_capability(root, minor, gi, -1, state->gpu[gi].used != 0);
    }
}

static void write_all_capabilities(void) {
    WITH_STATE();
    struct mig_state state;
    if (!fact("capabilities"))
        return;
    for (int i = 0; i < gpu_count(); i++)
        if (read_state(&devices[i], &state) == NVML_SUCCESS)
            write_capabilities(&devices[i], &state);
}

static nvmlReturn_t write_state(nvmlDevice_t device, const struct mig_state *state) {
    char path[4096], name[4200], new_name[4200];
    if (!folder("state", path, sizeof path))
        return NVML_ERROR_NOT_SUPPORTED;
    snprintf(name, sizeof name, "%s/gpu%d", path, device->index);
    snprintf(new_name, sizeof new_name, "%s/new-gpu%d", path, device->index);
    FILE *file = fopen(new_name, "w");
    if (!file)
        return NVML_ERROR_UNKNOWN;
    fprintf(file, "mig %u %u\ncompute %u\nserial %u\n", state->current, state->pending, state->compute_mode,
            state->next_serial);
    for (int gi = 0; gi < MAX_GPU_INSTANCES; gi++) {
        const struct instance *gpu = &state->gpu[gi];
        if (gpu->used)
            fprintf(file, "gi %d %u %u %u\n", gi, gpu->profile, gpu->start, gpu->size);
        for (int ci = 0; ci < MAX_COMPUTE_INSTANCES; ci++) {
            const struct instance *compute = &state->compute[gi][ci];
            if (compute->used)
                fprintf(file, "ci %d %d %u %u %u %u\n", gi, ci, compute->profile, compute->start, compute->size,
                        compute->serial);
        }
    }
    if (fclose(file) != 0 || rename(new_name, name) != 0)
        return NVML_ERROR_UNKNOWN;
    write_capabilities(device, state);
    return NVML_SUCCESS;
}
