package kernel

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// yield lets another thread of the machine have this core, if one wants it.
func yield() { unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// core is the core that this thread is on.
func core() int {
	var n uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&n)), 0, 0)
	return int(n)
}

// leave moves this thread away from a core. On a virtual machine the system takes an
// idle core for an absent one and wakes a thread beside its waker, where the two share a
// core until it balances the load, for ten milliseconds and more.
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
