#!/bin/sh
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# Print what a machine with an NVIDIA GPU says of itself, each command's output in a section of its own, to be recorded
# under tests/recordings/gpudirect. Only reads; installs, loads and changes nothing. As root it sees more. Take serial
# numbers and UUIDs out of what is kept.
# Usage: sh tests/recordings/wanted-gpu.sh > OUTPUT
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
LC_ALL=C
export PATH LC_ALL
release=$(uname -r)

section() { printf '\n===== %s\n' "$*"; }
# a command, what it says and its exit status
ask() {
    section "$*"
    if command -v "$1" >/dev/null 2>&1; then
        timeout 60 "$@" 2>&1
        printf -- '----- exit status %d\n' "$?"
    else
        printf -- '----- no such command\n'
    fi
}
# files, whole
show() {
    for file in "$@"; do
        section "file $file"
        if [ -r "$file" ]; then cat "$file"; printf -- '\n----- end\n'; else printf -- '----- not there, or not readable\n'; fi
    done
}
# lines of a file that may be long
lines() {
    section "lines of $2 with $1"
    if [ -r "$2" ]; then grep -E "$1" "$2"; else printf -- '----- not there, or not readable\n'; fi
}

ask uname -a
show /etc/os-release /proc/uptime
section 'arguments of /proc/cmdline'
tr ' ' '\n' < /proc/cmdline | grep -E '^(.*iommu.*|pci=.*|.*module.*|.*nvidia.*|lockdown=.*|.*blacklist.*)$'
# what the choice is made from
show /proc/driver/nvidia/version /proc/driver/nvidia/params /sys/kernel/security/lockdown \
    /sys/module/module/parameters/sig_enforce /proc/sys/kernel/dmesg_restrict /proc/sys/kernel/tainted
for file in /proc/driver/nvidia/gpus/*/information; do show "$file"; done
for module in nvidia nvidia_uvm nvidia_peermem nv_peer_mem nvidia_fs gdrdrv ib_core ib_uverbs mlx5_core mlx5_ib mlx_compat; do
    for name in version srcversion taint initstate refcnt; do
        [ -r "/sys/module/$module/$name" ] && printf '%s: %s\n' "/sys/module/$module/$name" "$(cat "/sys/module/$module/$name")"
    done
    [ -d "/sys/module/$module/holders" ] && find "/sys/module/$module/holders" -mindepth 1
done
ask lsmod
for module in nvidia nvidia-peermem nvidia-fs gdrdrv ib_core ib_uverbs mlx5_core; do
    ask modinfo "$module"
    ask modprobe --dump-modversions "$(modinfo -n "$module" 2>/dev/null)"
done
for module in ib_core ib_uverbs nvidia; do
    ask modprobe --show-exports "$(modinfo -n "$module" 2>/dev/null)"
done
ask modprobe --version
ask modprobe --dry-run --verbose nvidia-peermem
lines 'ib_(un)?register_peer_memory_client|ib_umem_dmabuf_get|nvidia_p2p' "/lib/modules/$release/modules.symbols"
lines '(nvidia|gdrdrv|ib_core|ib_uverbs|mlx5_ib|mlx_compat)[^/]*\.ko[^/]*:' "/lib/modules/$release/modules.dep"
lines ' (ib_(un)?register_peer_memory_client|ib_umem_dmabuf_get|nv_dma_buf_export|dma_buf_export)\b' /proc/kallsyms
lines 'CONFIG_(DMA_SHARED_BUFFER|DMABUF|PCI_P2PDMA|INFINIBAND|MLX5|MODVERSIONS|MODULE_SIG|EXTENDED_MODVERSIONS|SECURITY_LOCKDOWN|LOCK_DOWN)' \
    "/boot/config-$release"
section 'lines of /proc/config.gz'
[ -r /proc/config.gz ] && zcat /proc/config.gz | grep -E 'CONFIG_(DMA_SHARED_BUFFER|DMABUF|PCI_P2PDMA|INFINIBAND|MODVERSIONS|MODULE_SIG)'
section 'names in /lib/modules, DKMS and OFED sources'
ls -l /lib/modules /lib/modules/"$release" /boot 2>&1
find /var/lib/dkms -maxdepth 4 -printf '%y %p -> %l\n' 2>&1
find /usr/src/ofa_kernel -maxdepth 3 -printf '%y %t %p -> %l\n' 2>&1 | head -50
ask dkms status
ask ofed_info -n
ask mokutil --sb-state
section 'memory peers'
for file in /sys/kernel/mm/memory_peers/*/*; do [ -r "$file" ] && printf '%s: %s\n' "$file" "$(cat "$file")"; done
section 'what loads modules at boot, and keeps them from it'
grep -rEn 'nvidia|gdrdrv|nv_peer_mem|ib_core|nouveau' /etc/modules /etc/modules-load.d /run/modules-load.d /usr/lib/modules-load.d \
    /etc/modprobe.d /run/modprobe.d /usr/lib/modprobe.d /lib/modprobe.d 2>&1
ls -l /dev/nvidia* /dev/gdrdrv /dev/infiniband /dev/nvidia-caps 2>&1
ls -l /run/nvidia /run/nvidia/driver 2>&1
# the GPUs and what they are beside
ask nvidia-smi
ask nvidia-smi -L
ask nvidia-smi --query-gpu=index,pci.bus_id,pci.device_id,name,driver_version,vbios_version,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max,compute_cap,mig.mode.current,persistence_mode,addressing_mode --format=csv
ask nvidia-smi topo -m
ask nvidia-smi topo -mp
ask nvidia-smi topo -p2p r
ask nvidia-smi -q -i 0
ask nvidia-smi -q -x -i 0
section 'PCI functions: address class vendor device numa_node driver, and their place'
for place in /sys/bus/pci/devices/*; do
    printf '%s %s %s %s %s %s %s\n' "${place##*/}" "$(cat "$place/class")" "$(cat "$place/vendor")" "$(cat "$place/device")" \
        "$(cat "$place/numa_node")" "$(readlink "$place/driver" 2>/dev/null | sed 's,.*/,,')" "$(readlink -f "$place")"
done
ask lspci -nnvvv -d 10de:
ask lspci -tv
ask lscpu
ask ibv_devinfo -v
ask rdma -j dev
ask gdrcopy_sanity -l
ask python3 -c 'import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
version, count, has = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
print("cuInit", cuda.cuInit(0))
print("cuDriverGetVersion", cuda.cuDriverGetVersion(ctypes.byref(version)), version.value)
print("cuDeviceGetCount", cuda.cuDeviceGetCount(ctypes.byref(count)), count.value)
for device in range(count.value):
    for name, number in (("GPU_DIRECT_RDMA_SUPPORTED", 116), ("DMA_BUF_SUPPORTED", 124)):
        print(device, name, cuda.cuDeviceGetAttribute(ctypes.byref(has), number, device), has.value)'
section 'the kernel log'
dmesg 2>&1 | grep -iE 'nvidia|nvrm|peermem|gdrdrv|mlx5|lockdown|secure ?boot|module verification|ib_core|iommu' | head -200
