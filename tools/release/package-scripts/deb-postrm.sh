# shellcheck shell=sh
if [ "$1" = remove ]; then reload_units; fi
if [ "$1" = purge ]; then
  is_overruled || rm -f /etc/systemd/system/multi-user.target.wants/vipnat.service
  remove_settings
  remove_folders
  reload_units
fi
