#!/bin/sh
# Turns a bare Debian into a clean machine. It runs in the new root, as root.
set -eu

# A user as the installer creates it: in group sudo, with a password.
useradd --create-home --shell /bin/bash --groups sudo dev
echo "dev:$CLEANVM_PASSWORD" | chpasswd

echo cleanvm >/etc/hostname
printf '127.0.0.1 localhost\n127.0.1.1 cleanvm\n::1 localhost\n' >/etc/hosts
printf 'LABEL=cleanvm-root / ext4 errors=remount-ro 0 1\nLABEL=cleanvm-home /home ext4 defaults 0 2\n' >/etc/fstab
# The name server of QEMU's user network.
echo 'nameserver 10.0.2.3' >/etc/resolv.conf
printf '[Match]\nName=en*\n[Network]\nDHCP=ipv4\n[DHCPv4]\nUseDNS=no\n' >/etc/systemd/network/20-wired.network
systemctl enable systemd-networkd.service ssh.service docker.service

# The results of timers that start some minutes after a boot would look like residue of the cluster.
systemctl mask apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service \
	fstrim.timer logrotate.timer man-db.timer systemd-tmpfiles-clean.timer

# Without it, git explains at each clone of a bundle how branches are named.
git config --system init.defaultBranch main

chmod 600 /etc/ssh/ssh_host_ed25519_key
rm -f /etc/ssh/ssh_host_ed25519_key.pub /etc/ssh/ssh_host_rsa_key* /etc/ssh/ssh_host_ecdsa_key*
update-ca-certificates
apt-get clean
