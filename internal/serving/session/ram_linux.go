package session

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory returns the bytes of memory that this process may use, or 0 if unknown. These are
// the machine's memory or, if smaller, the limit of the control group (version 2).
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	text, err := os.ReadFile("/sys/fs/cgroup/memory.max")
	if err != nil {
		return total
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil { // Without a limit, the file contains "max".
		return total
	}
	return min(total, limit)
}
