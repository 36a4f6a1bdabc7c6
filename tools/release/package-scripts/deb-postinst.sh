# shellcheck shell=sh
# The agent is neither enabled nor started: nobody has named a virtual IP yet.
if [ "$1" = configure ]; then
  make_folders
  reload_units
  # $2 is the version of before.
  if [ -n "$2" ]; then update_agent; else make_settings; fi
  tell_overruled
fi
