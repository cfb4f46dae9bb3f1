#!/bin/sh
# Ends the service, unless another version of the package takes over.
set -e

case "$1" in
upgrade | deconfigure | failed-upgrade | 1) exit 0 ;;
esac
if command -v systemctl >/dev/null; then
	systemctl --no-reload disable lmserve.service lmserve-watch.service # also where systemd does not run
fi
if [ -d /run/systemd/system ]; then
	systemctl stop lmserve.service lmserve-watch.service
fi
