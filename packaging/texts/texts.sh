#!/bin/sh
# Gets the texts that the tables of the documentation were measured on: texts.sh [FOLDER]. It unpacks
# texts.tar.gz into FOLDER ("texts"), fetches four logs of Loghub, whose license restricts their use
# to research, and checks all SHA-256 sums.
set -eu
here=$(CDPATH='' cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-texts}"
cd "${1:-texts}"
tar xzf "$here/texts.tar.gz"

loghub=${LOGHUB:-https://raw.githubusercontent.com/logpai/loghub/374038faa4ca122dd7ca0730372c0b78f76f8597}

# get LOG BYTES FILE COLUMN fetches the beginning of a log, from a column on.
get() {
	mkdir -p "$(dirname "$3")"
	curl -fsSL "$loghub/$1" | tr -d '\r' | cut -d' ' -f"$4-" | head -c "$2" >"$3"
}
get Apache/Apache_2k.log 40000 test/logs/apache.txt 1
get Thunderbird/Thunderbird_2k.log 40000 test/logs/thunderbird.txt 1
get OpenSSH/OpenSSH_2k.log 24576 typing/log/openssh.txt 1
get OpenSSH/OpenSSH_2k.log 34974 valid/logs/openssh.txt 1
get BGL/BGL_2k.log 206000 read/log/bgl.txt 2 # without the labels
sha256sum --quiet -c "$here/texts.sha256"
