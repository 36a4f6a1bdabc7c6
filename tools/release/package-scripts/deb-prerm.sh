# shellcheck shell=sh
# An update leaves the agent of before alone until the new one is there.
if [ "$1" = remove ]; then
  is_overruled || ask_systemd stop vipnat.service || true
  remove_rules
fi
