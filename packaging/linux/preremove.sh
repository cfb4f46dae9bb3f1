#!/bin/sh
# Ends the service, unless another version of the package takes over.
set -e

case "$1" in
upgrade | deconfigure | failed-upgrade | 1) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl --no-reload disable --now lmserve.service
fi
