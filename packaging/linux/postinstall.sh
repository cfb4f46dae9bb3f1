#!/bin/sh
# Creates the user of the services, the data folder, and the folder of the watcher's output.
# Restarts running services with the new program. The content of the folders does not change.
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
# systemd opens the output of a service before it makes the folder LogsDirectory=.
install -d -o lmserve -g lmserve -m 0750 /var/log/lmserve-watch
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart lmserve.service lmserve-watch.service
fi
