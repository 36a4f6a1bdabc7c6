# shellcheck shell=sh
# In front of every script of the packages. What serves is the kernel's rules: they stay when an agent stops or starts anew.
# keepalived is never touched: a restart of it would move the VIP.

config=/etc/vipnat/vipnat.yaml

# rpm 4.20 and newer run these scripts in an empty network of their own, which has none of the host's rules.
in_host_network() {
  if [ -d /run/systemd/system ]; then nsenter --net=/proc/1/ns/net "$@"; else "$@"; fi
}

# One agent runs in a host's network, and its socket tells of it, however it was started.
agent_runs() {
  in_host_network grep -q '@vipnat-agent$' /proc/net/unix
}

# Asks whoever may forbid it, such as the build of an image; does nothing where systemd does not run.
ask_systemd() {
  [ -d /run/systemd/system ] || return 0
  if command -v deb-systemd-invoke >/dev/null; then deb-systemd-invoke "$@"; else systemctl "$@"; fi
}

reload_units() {
  if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
}

# An update never asks about this file, because dpkg does not know it: it is the administrator's, who may also remove it.
make_settings() {
  if [ ! -e "$config" ]; then install -m 644 /usr/share/vipnat/vipnat.yaml "$config"; fi
}

remove_settings() {
  rm -f "$config"
  rmdir --ignore-fail-on-non-empty "${config%/*}" 2>/dev/null || true
}

# keepalived goes by the file that this makes.
make_folders() {
  if command -v systemd-tmpfiles >/dev/null; then systemd-tmpfiles --create vipnat.conf; fi
}

# A unit of the administrator's own in place of the package's: its agent is the administrator's too. A masked unit is a link to
# /dev/null.
is_overruled() {
  [ -f /etc/systemd/system/vipnat.service ]
}

# An agent that this version would not start goes on as the one of before.
update_agent() {
  if is_overruled; then return 0; fi
  [ -d /run/systemd/system ] && systemctl is-active --quiet vipnat.service || return 0
  status=0
  in_host_network vipnat run --dry-run --config "$config" >/dev/null 2>&1 || status=$?
  if [ "$status" -eq 78 ]; then
    echo "vipnat: this version refuses $config, so the earlier agent continues to run. For the reason, run: vipnat run --dry-run --config $config" >&2
  else
    ask_systemd try-restart vipnat.service || true
  fi
}

# As docs/install.md has it for an installation by hand.
tell_overruled() {
  is_overruled || return 0
  echo "vipnat: /etc/systemd/system/vipnat.service replaces the unit of this package. To use the package's unit, put the options into $config, and check them with: vipnat run --dry-run --config $config. Then remove the file, and run: systemctl daemon-reload; systemctl restart vipnat" >&2
}

# Nobody would take dead apiservers out of the rules any more. Without them the VIP's holder answers itself; open
# connections go on. An agent that runs all the same, in a pod, keeps its rules.
remove_rules() {
  # One that waited for ours to end takes over within a second.
  for _ in 1 2 3 4; do
    if agent_runs; then break; fi
    sleep 0.5
  done
  if agent_runs; then
    echo "vipnat: another agent runs on this host, so vipnat's rules and /var/lib/vipnat stay" >&2
  else
    in_host_network vipnat cleanup || echo "vipnat: some of vipnat's rules are left, as printed above. To remove them, install vipnat again and run vipnat cleanup, or reboot" >&2
  fi
}

# keepalived that still watches the file keeps it, with 0: this node can serve. It is gone with the next boot. In a pod,
# keepalived has its configuration beside that file.
remove_folders() {
  if agent_runs; then return 0; fi
  rm -rf /var/lib/vipnat
  if ! grep -rqs /run/vipnat /etc/keepalived /run/vipnat/keepalived/keepalived.conf; then rm -rf /run/vipnat; fi
}
