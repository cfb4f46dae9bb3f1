#!/bin/sh
# Sessions, keys, the watcher's output and their user stay, even if the configuration is purged.
# Remove /var/lib/lmserve, /var/lib/lmserve-watch and /var/log/lmserve-watch by hand once they are
# no longer needed.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
