#!/bin/sh
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Makes the guests' root filesystem one of a Kubernetes node: files, kubelet, and containerd's store with the pods' image.
# mmdebstrap calls it as a hook. It is part of the image's recipe: a change here makes a new image.
#
# usage: guest-node.sh ROOT FILES KUBELET POD_IMAGE
set -eu
root=$1 files=$2 kubelet=$3 image=$4

cp -R --no-preserve=ownership "$files/." "$root/"
install -m 755 "$kubelet" "$root/usr/local/bin/kubelet"
chroot "$root" systemctl --quiet enable containerd.service kubelet.service

# The store is filled here: an emulated guest needs minutes to unpack an image.
cp "$image" "$root/pod.tar"
printf 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n' >"$root/store.toml"
chroot "$root" containerd --config /store.toml --log-level error &
pid=$!
tries=0
until chroot "$root" ctr version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ "$tries" -gt 300 ] || ! kill -0 "$pid"; then
        echo "guest-node.sh: containerd does not start" >&2
        exit 1
    fi
    sleep 0.2
done
status=0
chroot "$root" ctr -n k8s.io images import --snapshotter overlayfs /pod.tar || status=$?
kill "$pid"
wait "$pid" || true
rm -rf "$root/pod.tar" "$root/store.toml" "$root"/run/containerd
exit "$status"
