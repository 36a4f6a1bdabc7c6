# shellcheck shell=sh
# The agent is neither enabled nor started: nobody has named a virtual IP yet. $1 is how many versions are here now.
make_folders
reload_units
if [ "$1" -gt 1 ]; then update_agent; fi
tell_overruled
