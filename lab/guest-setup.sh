#!/bin/sh
# Copyright (c) 2026, Railyard contributors
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Shapes the guests' root filesystem. mmdebstrap calls it twice as a hook: "early" before the packages are installed,
# "late" after. It is part of the image's recipe: a change here makes a new image.
#
# usage: guest-setup.sh early|late ROOT PUBLIC_KEY_FILE networkd|netplan|networkmanager
set -eu
phase=$1 root=$2 key=$3 network=$4

early() {
    # Only what the lab's virtual hardware needs: a small initrd unpacks quickly under emulation, both at boot and when
    # a guest rebuilds it. ib_core is deliberately not in it, as on a stock host.
    mkdir -p "$root/etc/initramfs-tools/conf.d" "$root/usr/share/initramfs-tools/modules.d"
    printf 'MODULES=list\nCOMPRESS=zstd\nCOMPRESSLEVEL=1\n' >"$root/etc/initramfs-tools/conf.d/railyard-lab.conf"
    printf 'virtio_pci\nvirtio_blk\next4\n' >"$root/usr/share/initramfs-tools/modules.d/railyard-lab"
    # The kernel creates /dev/vda, so the initrd does not start udev.
    scripts=$root/etc/initramfs-tools/scripts
    mkdir -p "$scripts/init-top" "$scripts/init-bottom"
    printf '#!/bin/sh\n' >"$scripts/init-top/udev"
    printf '#!/bin/sh\n[ "$1" = prereqs ] || mount -n -o move /dev "${rootmnt:?}/dev"\n' >"$scripts/init-bottom/udev"
    chmod 755 "$scripts"/*/udev
}

people() {
    chroot "$root" useradd --create-home --shell /bin/bash ops
    for home in "$root/root" "$root/home/ops"; do
        mkdir -p "$home/.ssh"
        chmod 700 "$home/.ssh"
        cp "$key" "$home/.ssh/authorized_keys"
        chmod 600 "$home/.ssh/authorized_keys"
    done
    chroot "$root" chown -R ops:ops /home/ops
    # PAM sessions and syslog are half of sudo's processor time, which is that of a short module.
    printf 'ops ALL=(ALL:ALL) NOPASSWD: ALL\nDefaults !pam_session, !pam_setcred, !syslog\n' >"$root/etc/sudoers.d/ops"
    chmod 440 "$root/etc/sudoers.d/ops"
}

access() {
    mkdir -p "$root/etc/ssh/sshd_config.d"
    cat >"$root/etc/ssh/sshd_config.d/railyard-lab.conf" <<EOF
UseDNS no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
MaxSessions 100
EOF
    rm -f "$root"/etc/ssh/ssh_host_*
    ssh-keygen -q -t ed25519 -N '' -C 'railyard lab' -f "$root/etc/ssh/ssh_host_ed25519_key"
}

network() {
    # The kernel names the node (systemd.hostname=); its own name is found without asking any server.
    rm -f "$root/etc/hostname" "$root/etc/resolv.conf"
    : >"$root/etc/resolv.conf"
    printf '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n' >"$root/etc/hosts"
    # Management alone is configured, the rails' interfaces (igb, igbvf) are not. DHCP inside a closed user network offers
    # no gateway, so the files set the default route.
    "network_$network"
}

network_networkd() {
    cat >"$root/etc/systemd/network/10-management.network" <<EOF
[Match]
Driver=virtio_net

[Network]
DHCP=ipv4
LinkLocalAddressing=no
IPv6AcceptRA=no

[DHCPv4]
ClientIdentifier=mac

[Route]
Gateway=10.0.2.2
GatewayOnLink=yes
EOF
    chroot "$root" systemctl --quiet enable systemd-networkd.service
    mkdir -p "$root/etc/systemd/system/systemd-networkd-wait-online.service.d"
    cat >"$root/etc/systemd/system/systemd-networkd-wait-online.service.d/management.conf" <<'EOF'
# Online means that management answers; a rail without a cable must not hold up the boot.
[Service]
ExecStart=
ExecStart=/lib/systemd/systemd-networkd-wait-online --ipv4 --interface=enp0s30
EOF
}

network_netplan() {
    # netplan enables systemd-networkd at boot, and configures which interfaces the boot waits for.
    mkdir -p "$root/etc/netplan"
    cat >"$root/etc/netplan/50-management.yaml" <<EOF
network:
  version: 2
  renderer: networkd
  ethernets:
    enp0s30:
      dhcp4: true
      dhcp-identifier: mac
      dhcp4-overrides: {use-dns: false}
      link-local: []
      accept-ra: false
      routes: [{to: 0.0.0.0/0, via: 10.0.2.2, on-link: true}]
EOF
    chmod 600 "$root/etc/netplan/50-management.yaml"
}

network_networkmanager() {
    # As on a server, NetworkManager makes no profiles for interfaces without one. The kernel names the node.
    mkdir -p "$root/etc/NetworkManager/conf.d" "$root/etc/NetworkManager/system-connections"
    cat >"$root/etc/NetworkManager/conf.d/railyard-lab.conf" <<EOF
[main]
no-auto-default=*
dns=none
hostname-mode=none
EOF
    cat >"$root/etc/NetworkManager/system-connections/management.nmconnection" <<EOF
[connection]
id=management
uuid=4c1a2b6e-5a0e-4b53-9d1c-0a1e0c2f3b10
type=ethernet
interface-name=enp0s30

[ipv4]
method=auto
route1=0.0.0.0/0,10.0.2.2

[ipv6]
method=disabled
EOF
    chmod 600 "$root/etc/NetworkManager/system-connections/management.nmconnection"
    chroot "$root" systemctl --quiet enable NetworkManager.service
}

bytecode() {
    cp "$(dirname "$0")/guest-bytecode.py" "$root/usr/lib/python3/dist-packages/railyard_lab_bytecode.py"
    echo 'import railyard_lab_bytecode' >"$root/usr/lib/python3/dist-packages/railyard-lab.pth"
    # writable: the first process makes its own directory there, all others only read it
    mkdir -m 1777 "$root/var/cache/railyard-lab"
}

mask() {
    for unit in "$@"; do
        ln -sf /dev/null "$root/etc/systemd/system/$unit"
    done
}

quiet() {
    # Background work that a short-lived guest under emulation would only wait for.
    mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
        fstrim.timer man-db.timer motd-news.timer ua-timer.timer getty@tty1.service serial-getty@ttyS0.service \
        systemd-pstore.service systemd-firstboot.service snapd.service unattended-upgrades.service \
        systemd-tmpfiles-clean.timer
    : >"$root/etc/machine-id"
    echo '/dev/vda / ext4 defaults,noatime 0 0' >"$root/etc/fstab"
    mkdir -p "$root/etc/systemd/system.conf.d"
    printf '[Manager]\nDefaultTimeoutStopSec=15s\n' >"$root/etc/systemd/system.conf.d/railyard-lab.conf"
    # There is no way out of a guest, so there is nothing to install from.
    rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/var/lib/apt/lists/* \
        "$root"/var/cache/apt/*
    # Python's own bytecode is written now, at the host's speed, and not by each guest at its first import.
    chroot "$root" python3 -m compileall -q /usr/lib/python3 /usr/lib/python3.[0-9]* >/dev/null 2>&1 || true
}

short_boot() {
    # Parts of the boot that the lab does not use. An emulated guest needs up to a second for each of them.
    mask modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@fuse.service \
        modprobe@loop.service modprobe@efi_pstore.service sys-fs-fuse-connections.mount sys-kernel-config.mount \
        sys-kernel-tracing.mount dev-mqueue.mount proc-sys-fs-binfmt_misc.automount systemd-binfmt.service \
        systemd-random-seed.service systemd-update-utmp.service systemd-update-utmp-runlevel.service \
        systemd-network-generator.service systemd-rfkill.socket systemd-initctl.socket \
        systemd-ask-password-wall.path systemd-ask-password-console.path
    mkdir -p "$root/etc/systemd/system-generators" "$root/etc/systemd/journald.conf.d" \
        "$root/etc/systemd/system/ssh.service.d" "$root/etc/systemd/system/systemd-udev-trigger.service.d"
    for generator in "$root"/usr/lib/systemd/system-generators/systemd-*; do
        case $generator in
        */systemd-fstab-generator) ;;
        *) ln -sf /dev/null "$root/etc/systemd/system-generators/${generator##*/}" ;;
        esac
    done
    printf '[Journal]\nStorage=volatile\n' >"$root/etc/systemd/journald.conf.d/railyard-lab.conf"
    # Without the test of the SSH server's configuration, which does not change.
    printf '[Service]\nExecStartPre=\n' >"$root/etc/systemd/system/ssh.service.d/railyard-lab.conf"
    # Without terminals and tables of the firmware, which are half of all devices and have no rules of udev.
    cat >"$root/etc/systemd/system/systemd-udev-trigger.service.d/railyard-lab.conf" <<'EOF'
[Service]
ExecStart=
ExecStart=-udevadm trigger --type=subsystems --action=add
ExecStart=-udevadm trigger --type=devices --action=add --subsystem-nomatch=acpi --subsystem-nomatch=tty \
    --subsystem-nomatch=vc --subsystem-nomatch=wakeup --subsystem-nomatch=pci_express --subsystem-nomatch=memory
EOF
    for module in cfg80211 drm iTCO_wdt lpc_ich pcspkr psmouse serio_raw evdev aesni_intel ghash_clmulni_intel sha1_ssse3 \
        sha256_ssse3 sha512_ssse3 crct10dif_pclmul crc32_pclmul; do
        echo "blacklist $module"
    done >"$root/etc/modprobe.d/railyard-lab.conf"
}

case $phase in
early) early ;;
late)
    people
    access
    network
    bytecode
    quiet
    short_boot
    ;;
*)
    echo "guest-setup.sh: no phase '$phase'" >&2
    exit 2
    ;;
esac
