package kernel

import "golang.org/x/sys/unix"

// yield lets another thread of the machine have this core, if one wants it.
func yield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
