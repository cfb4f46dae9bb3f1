#!/bin/sh
# Creates the service's user and data folder, and restarts a running service with the new program.
# The content of the data folder does not change.
set -e

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers lmserve.conf
elif ! getent passwd lmserve >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir /var/lib/lmserve \
		--shell /usr/sbin/nologin --comment lmserve lmserve
fi
if [ ! -e /var/lib/lmserve ]; then
	install -d -o lmserve -g lmserve -m 0700 /var/lib/lmserve
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart lmserve.service lmserve-watch.service
fi
