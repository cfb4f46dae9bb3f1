#!/bin/sh
# Sessions, keys and their user stay, even if the configuration is purged: remove /var/lib/lmserve
# by hand once it is no longer needed.
set -e

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
