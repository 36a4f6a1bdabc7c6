# shellcheck shell=sh
# $1 is how many versions will be left: an update leaves the agent alone.
if [ "$1" -eq 0 ]; then
  if [ -d /run/systemd/system ] && ! is_overruled; then systemctl --no-reload disable --now vipnat.service || true; fi
  remove_rules
fi
