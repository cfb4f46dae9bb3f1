package kernel

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield offers this core to other threads of the machine.
func yield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// core returns the core that this thread runs on.
func core() int {
	var n uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n)
}

// leave moves this thread off a core. On a virtual machine the system considers an idle core
// absent and wakes a thread on its waker's core. The two then share the core until the load is
// balanced, for ten milliseconds or more.
func leave(core int) {
	runtime.LockOSThread() // both calls from the same thread
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if unix.SchedGetaffinity(0, &all) != nil || !all.IsSet(core) || all.Count() < 2 {
		return
	}
	others := all
	others.Clear(core)
	if unix.SchedSetaffinity(0, &others) == nil {
		unix.SchedSetaffinity(0, &all)
	}
}
