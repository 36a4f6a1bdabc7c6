#!/bin/sh
# The first process of a user-mode Linux machine on the host's own files: makes what a kernel with IPVS needs, runs
# the program named by GUEST_PROGRAM (with GUEST_NODE, reporting to GUEST_FOLDER) and powers off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
if [ -e /proc/sys/kernel/modprobe ]; then
  # The kernel asks for modules under /lib/modules, where the host has its own or none: a helper looks elsewhere.
  mkdir -p /run/modules/lib/modules
  ln -s "/usr/lib/uml/modules/$(uname -r)" "/run/modules/lib/modules/$(uname -r)"
  printf '#!/bin/sh\nexec /sbin/modprobe -d /run/modules "$@"\n' >/run/modprobe
  chmod +x /run/modprobe
  echo /run/modprobe >/proc/sys/kernel/modprobe
  for module in ip_vs ip_vs_rr dummy ip_set ip_set_hash_ipport ip_set_hash_ipportip ip_set_hash_ipportnet ip_set_hash_net ip_set_hash_ip ip_set_bitmap_port; do
    /run/modprobe "$module"
  done
fi
# Node uses it where it is there, and pages of it break this kind of kernel (seen with 6.12: "Bad page map").
[ ! -e /proc/sys/kernel/io_uring_disabled ] || echo 2 >/proc/sys/kernel/io_uring_disabled
"$GUEST_NODE" "$GUEST_PROGRAM" >"$GUEST_FOLDER/output" 2>&1
echo "exit status $?" >>"$GUEST_FOLDER/output"
sync
poweroff -f
