#!/bin/sh
# Stops the service unless another version of the package replaces it.
set -e

case "$1" in
upgrade | deconfigure | failed-upgrade | 1) exit 0 ;;
esac
if command -v systemctl >/dev/null; then
	systemctl --no-reload disable lmserve.service lmserve-watch.service # works without a running systemd
fi
if [ -d /run/systemd/system ]; then
	systemctl stop lmserve.service lmserve-watch.service
fi
