# shellcheck shell=sh
if [ "$1" -eq 0 ]; then remove_folders; fi
reload_units
